"""Debug tensors inside loops and branches: a listener receives every value of each iteration."""

import ctypes

import numpy as np
import pytest

import anyrt as trt
from tests.e2e.test_control import (
    COUNT,
    ROWS,
    Writer,
    X,
    chosen,
    doubled,
    prefix_sums,
    states,
)

F = trt.float32


@pytest.fixture
def w(net):
    return Writer(net)


class Listener(trt.IDebugListener):
    """Keeps copies of the tensors that it receives."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def process_debug_tensor(self, addr, location, type, shape, name, stream):
        size = int(np.prod(shape)) * 4
        kept = np.frombuffer(ctypes.string_at(addr, size), trt.nptype(type)).reshape(tuple(shape))
        self.seen.append((name, kept))
        return True


def seen_of(engine, y, **feeds):
    """The debug tensors of an inference, and its output."""
    context, listener = engine.create_execution_context(), Listener()
    context.set_debug_listener(listener)
    context.set_all_tensors_debug_state(True)
    for name, array in {**feeds, "y": y}.items():
        context.set_tensor_address(name, array)
    assert context.execute_async_v3(0)
    return [x for _, x in listener.seen]


@pytest.mark.parametrize("turns", [0, 1, 7])
def test_a_tensor_of_a_loop_is_shown_once_per_iteration(w, engine_of, turns):
    x, rows = w.net.add_input("x", F, (3, 5)), w.net.add_input("rows", F, (7, 3, 5))
    loop, before, new = prefix_sums(w, x, rows, w.number(turns))
    assert w.net.mark_debug(new)
    y = np.zeros((3, 5), np.float32)
    seen = seen_of(engine_of(w.net, w.last(loop, before)), y, x=X, rows=ROWS)
    want = states(X, ROWS[:turns])
    np.testing.assert_allclose(np.reshape(seen, (-1, 3, 5)), np.reshape(want[1:], (-1, 3, 5)), rtol=1e-6)
    np.testing.assert_allclose(y, want[-1], rtol=1e-6)


def test_iterations_that_a_condition_ends_are_shown(w, engine_of):
    x = w.net.add_input("x", F, (4,))
    loop, now = doubled(w, x, 100)
    assert w.net.mark_debug(now)
    engine, y = engine_of(w.net, w.last(loop, now)), np.zeros(4, np.float32)
    for start in ([1, 2, 3, 4], [100, 0, 0, 0], [0, 9, 0, 0]):
        seen, want = seen_of(engine, y, x=np.float32(start)), [np.float32(start)]
        while want[-1].sum() < 100:
            want.append(2 * want[-1])
        assert [s.tolist() for s in seen] == [s.tolist() for s in want[:-1]]


@pytest.mark.parametrize("flag", [True, False])
def test_a_tensor_of_a_branch_is_seen_where_it_is_computed(w, engine_of, flag):
    x, tensor = w.net.add_input("x", F, (3, 5)), w.net.add_input("flag", trt.bool, (1,))
    built = chosen(w, w.scalar(tensor), x)
    exp = next(layer for layer in w.net if layer.type == trt.LayerType.UNARY)
    assert w.net.mark_debug(exp.get_output(0))
    y = np.zeros((3, 5), np.float32)
    seen = seen_of(engine_of(w.net, built), y, x=X, flag=np.array([flag]))
    assert len(seen) == flag
    np.testing.assert_allclose(np.reshape(seen, (-1, 3, 5)), np.exp(X)[None][: int(flag)], rtol=1e-6)
    np.testing.assert_allclose(y, np.exp(X) if flag else -X, rtol=1e-6)


@pytest.mark.parametrize("flag", [True, False])
def test_a_tensor_that_no_branch_needs_is_seen_where_what_it_is_made_of_is_computed(w, engine_of, flag):
    x, choice = w.net.add_input("x", F, (3, 5)), w.net.add_if_conditional()
    choice.set_condition(w.net.add_input("flag", trt.bool, ()))
    inner = choice.add_input(x).get_output(0)
    sides = [w.unary(inner, op) for op in (trt.UnaryOperation.EXP, trt.UnaryOperation.ABS)]
    for tensor in (inner, *sides):
        assert w.net.mark_debug(w.unary(tensor, trt.UnaryOperation.NEG))
    y = np.zeros((3, 5), np.float32)
    output = choice.add_output(*sides).get_output(0)
    seen = seen_of(engine_of(w.net, output), y, x=X, flag=np.array(flag))
    np.testing.assert_allclose(seen, [-X, -y], rtol=1e-6)
    np.testing.assert_allclose(y, np.exp(X) if flag else np.abs(X), rtol=1e-6)


@pytest.mark.parametrize("turns", [(3, 2), (2, 0), (0, 2), (1, 3)])
def test_a_tensor_of_a_nested_loop_is_shown_once_per_iteration_of_both(w, engine_of, turns):
    rows = w.net.add_input("rows", F, (7, 3, 5))
    outer, inner = w.net.add_loop(), w.net.add_loop()
    row = outer.add_iterator(rows).get_output(0)
    line = w.unary(inner.add_iterator(row).get_output(0), trt.UnaryOperation.EXP)
    for loop, count in zip((outer, inner), turns, strict=True):
        loop.add_trip_limit(w.number(count), COUNT)
    assert w.net.mark_debug(line)
    y = np.zeros((*turns, 5), np.float32)
    output = w.collected(outer, w.collected(inner, line, turns[1]), turns[0])
    seen = seen_of(engine_of(w.net, output), y, rows=ROWS)
    want = np.exp(ROWS[: turns[0], : turns[1]])
    np.testing.assert_allclose(np.reshape(seen, (-1, 5)), want.reshape(-1, 5), rtol=1e-6)
    np.testing.assert_allclose(y, want, rtol=1e-6)


def test_a_state_of_a_nested_loop_is_shown_in_each_iteration(w, engine_of):
    x = w.net.add_input("x", F, (4,))
    outer, inner = w.net.add_loop(), w.net.add_loop()
    for loop, count in ((outer, 3), (inner, 2)):
        loop.add_trip_limit(w.number(count), COUNT)
    begin = outer.add_recurrence(x)
    state = inner.add_recurrence(begin.get_output(0))
    both = w.net.add_elementwise(state.get_output(0), begin.get_output(0), trt.ElementWiseOperation.SUM)
    state.set_input(1, both.get_output(0))
    begin.set_input(1, w.last(inner, state.get_output(0)))
    assert w.net.mark_debug(both.get_output(0))
    y = np.zeros(4, np.float32)
    seen = seen_of(engine_of(w.net, w.last(outer, begin.get_output(0))), y, x=np.ones(4, np.float32))
    assert [s[0] for s in seen] == [2, 3, 6, 9, 18, 27]
    assert y[0] == 27


def test_a_tensor_of_a_branch_in_a_loop_is_rejected(w, builder, log, golden_text):
    x, flags = w.net.add_input("x", F, (4,)), w.net.add_input("flags", trt.bool, (3,))
    loop, choice = w.net.add_loop(), w.net.add_if_conditional()
    loop.add_trip_limit(w.number(3), COUNT)
    state = loop.add_recurrence(x)
    choice.set_condition(loop.add_iterator(flags).get_output(0))
    inner = choice.add_input(state.get_output(0)).get_output(0)
    twice = w.net.add_elementwise(inner, inner, trt.ElementWiseOperation.SUM).get_output(0)
    state.set_input(1, choice.add_output(twice, inner).get_output(0))
    assert w.net.mark_debug(twice)
    w.net.mark_output(w.last(loop, state.get_output(0)))
    assert builder.build_serialized_network(w.net, builder.create_builder_config()) is None
    (line,) = [line for line in log.lines if "[AR123]" in line]
    golden_text(line)


@pytest.mark.parametrize("flag", [True, False])
def test_a_tensor_of_a_loop_in_a_branch_is_seen_where_that_is_taken(w, engine_of, flag):
    x, choice = w.net.add_input("x", F, (4,)), w.net.add_if_conditional()
    choice.set_condition(w.net.add_input("flag", trt.bool, ()))
    tensor = choice.add_input(x).get_output(0)
    loop = w.net.add_loop()
    loop.add_trip_limit(w.number(3), COUNT)
    state = loop.add_recurrence(tensor)
    twice = w.net.add_elementwise(*[state.get_output(0)] * 2, trt.ElementWiseOperation.SUM).get_output(0)
    state.set_input(1, twice)
    output = choice.add_output(w.last(loop, state.get_output(0)), tensor).get_output(0)
    assert w.net.mark_debug(twice)
    y, ones = np.zeros(4, np.float32), np.ones(4, np.float32)
    seen = seen_of(engine_of(w.net, output), y, x=ones, flag=np.array(flag))
    assert [s.tolist() for s in seen] == [[2**k] * 4 for k in (1, 2, 3)] * flag
