"""Loops and conditionals, compared with loops in Python."""

import re
from functools import reduce

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.model.state import state_of
from anyrt.core.errors import ShapeError
from anyrt.ir.graph import MAX_REGIONS
from tests.messages import diagnostic

OP, LAST = trt.ElementWiseOperation, trt.LoopOutput.LAST_VALUE
COUNT, WHILE = trt.TripLimit.COUNT, trt.TripLimit.WHILE
CONCATENATE, REVERSE = trt.LoopOutput.CONCATENATE, trt.LoopOutput.REVERSE
ROWS = np.random.default_rng(0).standard_normal((7, 3, 5)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)


class Writer:
    """A network with short methods to add layers."""

    def __init__(self, net):
        self.net = net

    def number(self, value, dtype=np.int32):
        return self.net.add_constant((), np.array(value, dtype)).get_output(0)

    def op(self, a, b, how):
        return self.net.add_elementwise(a, b, how).get_output(0)

    def add(self, a, b):
        return self.op(a, b, OP.SUM)

    def unary(self, x, how):
        return self.net.add_unary(x, how).get_output(0)

    def scalar(self, x):
        layer = self.net.add_shuffle(x)
        layer.reshape_dims = ()
        return layer.get_output(0)

    def last(self, loop, tensor):
        return loop.add_loop_output(tensor, LAST).get_output(0)

    def collected(self, loop, tensor, length, kind=CONCATENATE, axis=0):
        layer = loop.add_loop_output(tensor, kind, axis)
        layer.set_input(1, self.number(length) if isinstance(length, int) else length)
        return layer.get_output(0)


@pytest.fixture
def w(net):
    return Writer(net)


def prefix_sums(w, x, rows, count, reverse=False):
    """|x + row 0|, then that and row 1, and so on: the loop, and the result of an iteration."""
    loop = w.net.add_loop()
    state = loop.add_recurrence(x)
    row = loop.add_iterator(rows, 0, reverse).get_output(0)
    new = w.unary(w.add(state.get_output(0), row), trt.UnaryOperation.ABS)
    state.set_input(1, new)
    loop.add_trip_limit(count, COUNT)
    return loop, state.get_output(0), new


def states(x, rows):
    results = [x]
    for row in rows:
        results.append(np.abs(results[-1] + row))
    return results


@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_returns_its_last_value_and_those_of_all_iterations(w, engine_of, reverse):
    x, rows = w.net.add_input("x", trt.float32, (3, 5)), w.net.add_input("rows", trt.float32, (7, 3, 5))
    loop, before, new = prefix_sums(w, x, rows, w.number(7), reverse)
    actual = engine_of(
        w.net,
        w.last(loop, before),
        w.collected(loop, new, 7),
        w.collected(loop, before, 7, REVERSE, 1),
        w.last(loop, new),
    ).run(x=X, rows=ROWS)
    want = states(X, ROWS[::-1] if reverse else ROWS)
    for got, expected in zip(
        actual.values(), (want[-1], np.stack(want[1:]), np.stack(want[-2::-1], 1), want[-1]), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("turns", [0, 1, 3, 7, -2])
def test_places_of_iterations_that_did_not_run_are_0(w, engine_of, turns):
    x, rows = w.net.add_input("x", trt.float32, (3, 5)), w.net.add_input("rows", trt.float32, (7, 3, 5))
    count = w.net.add_input("count", trt.int32, (1,))
    loop, before, new = prefix_sums(w, x, rows, w.scalar(count))
    outputs = w.last(loop, before), w.collected(loop, new, 7), w.last(loop, new)
    actual = engine_of(w.net, *outputs).run(x=X, rows=ROWS, count=np.int32([turns]))
    want = states(X, ROWS[: max(turns, 0)])
    after = np.zeros_like(ROWS)
    after[: len(want) - 1] = np.reshape(want[1:], (-1, 3, 5))
    ends = (want[-1], after, want[-1] if turns > 0 else np.zeros_like(X))
    for got, expected in zip(actual.values(), ends, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_more_iterations_than_the_length_of_the_output_are_an_error(w, engine_of, log):
    x, rows = w.net.add_input("x", trt.float32, (3, 5)), w.net.add_input("rows", trt.float32, (7, 3, 5))
    count = w.net.add_input("count", trt.int32, (1,))
    loop, _, new = prefix_sums(w, x, rows, w.scalar(count))
    engine = engine_of(w.net, w.collected(loop, new, 4))
    assert np.isfinite(engine.run(x=X, rows=ROWS, count=np.int32([4]))["y"]).all()
    with pytest.raises(Exception, match=diagnostic("AR413", "[LoopOutput]", 5, 4)):
        engine.run(x=X, rows=ROWS, count=np.int32([5]))


def doubled(w, x, limit):
    """x doubled until its sum reaches the limit."""
    loop = w.net.add_loop()
    loop.name = "double"
    state = loop.add_recurrence(x)
    now = state.get_output(0)
    total = w.scalar(w.net.add_reduce(now, trt.ReduceOperation.SUM, 1, True).get_output(0))
    loop.add_trip_limit(w.op(total, w.number(limit, np.float32), OP.LESS), WHILE)
    state.set_input(1, w.add(now, now))
    return loop, now


def test_a_while_loop_ends_before_the_iteration_whose_condition_is_false(w, engine_of):
    x = w.net.add_input("x", trt.float32, (4,))
    loop, now = doubled(w, x, 100)
    engine = engine_of(w.net, w.last(loop, now))
    for start in ([1, 2, 3, 4], [100, 0, 0, 0], [0, 0, 0, 99]):
        want = np.float32(start)
        while want.sum() < 100:
            want = want + want
        assert (engine.run(x=np.float32(start))["y"] == want).all()


def test_a_loop_that_does_not_end_is_stopped_and_named(w, engine_of):
    x = w.net.add_input("x", trt.float32, (4,))
    loop, now = doubled(w, x, 100)
    loop.max_trips = 50
    engine = engine_of(w.net, w.last(loop, now))
    with pytest.raises(Exception, match=diagnostic("AR412", "double", 50, 50)):
        engine.run(x=np.zeros(4, np.float32))
    assert (engine.run(x=np.float32([50, 50, 0, 0]))["y"] == [50, 50, 0, 0]).all()


def test_with_both_limits_a_loop_stops_at_the_first(w, engine_of):
    x, count = w.net.add_input("x", trt.float32, (4,)), w.net.add_input("count", trt.int32, (1,))
    loop, now = doubled(w, x, 100)
    loop.add_trip_limit(w.scalar(count), COUNT)
    engine = engine_of(w.net, w.last(loop, now))
    x = np.float32([1, 2, 3, 4])
    for turns, want in ((2, 4 * x), (9, 16 * x)):
        assert (engine.run(x=x, count=np.int32([turns]))["y"] == want).all()


def test_states_may_be_exchanged_at_open_and_empty_sizes(w, engine_of):
    a, b = (w.net.add_input(name, trt.int32, (-1,)) for name in "ab")
    for x in (a, b):
        x.set_dimension_name(0, "n")
    loop = w.net.add_loop()
    first, second = loop.add_recurrence(a), loop.add_recurrence(b)
    first.set_input(1, second.get_output(0))
    second.set_input(1, w.add(first.get_output(0), second.get_output(0)))
    loop.add_trip_limit(w.number(30), COUNT)
    ranges = [(0,), (4,), (9,)]
    outputs = (w.last(loop, x.get_output(0)) for x in (first, second))
    engine = engine_of(w.net, *outputs, a=ranges, b=ranges)
    for size in (4, 0, 9):
        y, z = np.arange(size, dtype=np.int32), np.arange(size, dtype=np.int32) + 1
        got = engine.run(a=y, b=z)
        for _ in range(30):
            y, z = z, y + z
        assert (got["y"] == y).all()
        assert (got["y1"] == z).all()


def test_loops_nest_and_read_what_is_around_them(w, engine_of):
    """Three times the prefix sums of rows, each with the constant x added."""
    rows, x = w.net.add_input("rows", trt.float32, (3, 4)), w.net.add_input("x", trt.float32, (4,))
    outer = w.net.add_loop()
    state = outer.add_recurrence(rows)
    outer.add_trip_limit(w.number(3), COUNT)
    inner = w.net.add_loop()
    total = inner.add_recurrence(w.net.add_constant((4,), np.zeros(4, np.float32)).get_output(0))
    row = inner.add_iterator(state.get_output(0)).get_output(0)
    new = w.add(w.add(total.get_output(0), row), x)
    total.set_input(1, new)
    inner.add_trip_limit(w.number(3), COUNT)
    state.set_input(1, w.collected(inner, new, 3))
    actual = engine_of(w.net, w.last(outer, state.get_output(0))).run(rows=ROWS[:3, 0, :4], x=X[0, :4])
    want = reduce(lambda r, _: np.cumsum(r + X[0, :4], 0), range(3), ROWS[:3, 0, :4].astype(np.float64))
    np.testing.assert_allclose(actual["y"], want, rtol=1e-5)


def chosen(w, flag, x):
    """exp(x) or -x."""
    conditional = w.net.add_if_conditional()
    conditional.name = "choice"
    conditional.set_condition(flag)
    inside = conditional.add_input(x).get_output(0)
    branches = (w.unary(inside, how) for how in (trt.UnaryOperation.EXP, trt.UnaryOperation.NEG))
    return conditional.add_output(*branches).get_output(0)


def test_a_conditional_computes_one_branch(w, engine_of):
    x, flag = w.net.add_input("x", trt.float32, (3, 5)), w.net.add_input("flag", trt.bool, (1,))
    engine = engine_of(w.net, w.add(chosen(w, w.scalar(flag), x), x))
    np.testing.assert_allclose(engine.run(x=X, flag=np.array([True]))["y"], np.exp(X) + X, rtol=1e-6)
    assert (engine.run(x=X, flag=np.array([False]))["y"] == 0).all()


def test_a_branch_is_taken_at_addresses_that_another_one_was_first_run_with(w, engine_of):
    x, flag = w.net.add_input("x", trt.float32, (3, 5)), w.net.add_input("flag", trt.bool, (1,))
    context = engine_of(w.net, w.add(chosen(w, w.scalar(flag), x), x)).create_execution_context()
    values, y = np.array([True]), np.zeros_like(X)
    for name, array in (("x", X), ("flag", values), ("y", y)):
        context.set_tensor_address(name, array)
    for values[0], expected in ((True, np.exp(X) + X), (False, 0 * X), (True, np.exp(X) + X)):
        assert context.execute_async_v3(0)
        np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_branches_of_different_sizes_let_the_condition_decide(w, engine_of):
    """Three rows, or two of them twice; and the following layers, with that many rows."""
    x, flag = w.net.add_input("x", trt.float32, (3, 5)), w.net.add_input("flag", trt.bool, (1,))
    conditional = w.net.add_if_conditional()
    conditional.set_condition(w.scalar(flag))
    inside = conditional.add_input(x).get_output(0)
    two = w.net.add_slice(inside, (1, 0), (2, 5), (1, 1)).get_output(0)
    y = conditional.add_output(inside, w.net.add_concatenation([two, two]).get_output(0)).get_output(0)
    assert tuple(y.shape) == (-1, 5)
    engine = engine_of(w.net, y, w.add(y, y), verify="full")
    for value, want in ((True, X), (False, np.concatenate([X[1:], X[1:]])), (True, X)):
        actual = engine.run(x=X, flag=np.array([value]))
        assert (actual["y"] == want).all()
        assert (actual["y1"] == want + want).all()


@pytest.mark.parametrize("flag", [True, False])
def test_a_condition_that_is_known_leaves_the_other_branch_away(w, engine_of, flag):
    x = w.net.add_input("x", trt.float32, (3, 5))
    engine = engine_of(w.net, chosen(w, w.number(flag, np.bool_), x))
    np.testing.assert_allclose(engine.run(x=X)["y"], np.exp(X) if flag else -X, rtol=1e-6)
    assert len(state_of(engine).loaded.program.kernels) == 1


def inside_one_another(w, depth):
    """Nested conditionals: x plus one for each of `depth` conditionals on `flag`, each in a branch of the
    previous one; else -x."""
    x, flag = w.net.add_input("x", trt.float32, (3, 5)), w.net.add_input("flag", trt.bool, ())
    inner, now, ends = x, flag, []
    for _ in range(depth):
        choice = w.net.add_if_conditional()
        choice.set_condition(now)
        inner, now = (choice.add_input(t).get_output(0) for t in (inner, now))
        ends.append((choice, w.unary(inner, trt.UnaryOperation.NEG)))
        inner = w.add(inner, w.net.add_constant((1, 1), np.ones((1, 1), np.float32)).get_output(0))
    for choice, other in reversed(ends):
        inner = choice.add_output(inner, other).get_output(0)
    return inner


@pytest.mark.parametrize("depth", [20, 200, MAX_REGIONS])  # 18 took minutes when time doubled with each
def test_conditionals_inside_one_another_build_run_and_load_elsewhere(
    w, plan_of, log, depth, tmp_path, monkeypatch
):
    plan = plan_of(w.net, inside_one_another(w, depth))
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))  # where no part of it exists
    with trt.strict():
        engine = trt.Runtime(log).deserialize_cuda_engine(plan)
    assert (engine.run(x=X, flag=np.array(True))["y"] == reduce(np.add, [np.float32(1)] * depth, X)).all()
    assert (engine.run(x=X, flag=np.array(False))["y"] == -X).all()
    information = engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.ONELINE)
    assert information.count("\n") >= 2 * depth


def test_conditionals_nested_too_deeply_are_rejected(w, builder, log):
    inside_one_another(w, MAX_REGIONS + 1).name = "y"
    w.net.mark_output(w.net.get_layer(w.net.num_layers - 1).get_output(0))
    assert builder.build_serialized_network(w.net, builder.create_builder_config()) is None
    assert any(re.search(diagnostic("AR901", 401), line) for line in log.lines)


def test_a_conditional_in_a_loop_is_evaluated_in_each_iteration(w, engine_of):
    x = w.net.add_input("x", trt.float32, (3, 5))
    loop = w.net.add_loop()
    state, turn = loop.add_recurrence(x), loop.add_recurrence(w.number(0))
    now = turn.get_output(0)
    turn.set_input(1, w.add(now, w.number(1)))
    half = w.op(w.op(now, w.number(2), OP.FLOOR_DIV), w.number(2), OP.PROD)
    state.set_input(1, chosen(w, w.op(half, now, OP.EQUAL), state.get_output(0)))
    loop.add_trip_limit(w.number(5), COUNT)
    got = engine_of(w.net, w.last(loop, state.get_output(0))).run(x=X)["y"]
    want = X.astype(np.float64)
    for k in range(5):
        want = np.exp(want) if k % 2 == 0 else -want
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_a_loop_in_a_branch_runs_where_it_is_chosen(w, engine_of):
    x, flag = w.net.add_input("x", trt.float32, (3, 5)), w.net.add_input("flag", trt.bool, (1,))
    conditional = w.net.add_if_conditional()
    conditional.set_condition(w.scalar(flag))
    inside = conditional.add_input(x).get_output(0)
    loop = w.net.add_loop()
    state = loop.add_recurrence(inside)
    state.set_input(1, w.add(state.get_output(0), inside))
    loop.add_trip_limit(w.number(3), COUNT)
    y = conditional.add_output(w.last(loop, state.get_output(0)), inside).get_output(0)
    engine = engine_of(w.net, y)
    for value, factor in ((True, 4), (False, 1)):
        np.testing.assert_allclose(engine.run(x=X, flag=np.array([value]))["y"], factor * X, rtol=1e-6)


def test_a_loop_in_a_branch_exchanges_its_states(w, engine_of):
    x, flag = w.net.add_input("x", trt.float32, (3, 5)), w.net.add_input("flag", trt.bool, ())
    choice = w.net.add_if_conditional()
    choice.set_condition(flag)
    inner, loop = choice.add_input(x).get_output(0), w.net.add_loop()
    one, two = loop.add_recurrence(inner), loop.add_recurrence(w.unary(inner, trt.UnaryOperation.NEG))
    one.set_input(1, two.get_output(0))
    two.set_input(1, one.get_output(0))
    loop.add_trip_limit(w.number(3), COUNT)
    engine = engine_of(w.net, choice.add_output(w.last(loop, one.get_output(0)), inner).get_output(0))
    assert (engine.run(x=X, flag=np.array(True))["y"] == -X).all()
    assert (engine.run(x=X, flag=np.array(False))["y"] == X).all()


@pytest.mark.parametrize("first", [(3, 5), (3, -1), (-1, -1)])
def test_a_state_takes_values_whose_sizes_may_be_its_own(w, engine_of, first):
    """The first iteration gets x; the next ones get another tensor of dynamic dimensions, which are
    checked."""
    x, other = w.net.add_input("x", trt.float32, first), w.net.add_input("other", trt.float32, (3, -1))
    loop = w.net.add_loop()
    state = loop.add_recurrence(x)
    state.set_input(1, w.add(other, other))
    loop.add_trip_limit(w.number(2), COUNT)
    engine = engine_of(w.net, w.last(loop, state.get_output(0)))
    assert (engine.run(x=X, other=X)["y"] == X + X).all()
    with pytest.raises(ShapeError, match=r"AR123.* other.shape\[1\] = 4"):
        engine.run(x=X, other=X[:, 1:])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "dtype",
    [trt.int8, trt.int32, trt.int64, trt.float16, trt.bfloat16, trt.uint8, trt.bool, trt.fp8, trt.int4],
)
def test_states_of_every_type_pass_from_iteration_to_iteration(w, engine_of, dtype):
    """Two states swap in each of four iterations and hold the same operand."""
    x = w.net.add_input("x", trt.float32, (3, 6))
    kinds = w.net.add_cast(x, dtype) if dtype not in (trt.fp8, trt.int4) else None
    if kinds is None:
        scale = w.net.add_constant((), np.array(1, np.float32)).get_output(0)
        kinds = w.net.add_quantize(x, scale, dtype)
    loop = w.net.add_loop()
    first, second = (loop.add_recurrence(kinds.get_output(0)) for _ in range(2))
    first.set_input(1, second.get_output(0))
    second.set_input(1, first.get_output(0))
    loop.add_trip_limit(w.number(4), COUNT)
    all_turns = w.collected(loop, first.get_output(0), 4)
    if dtype in (trt.fp8, trt.int4):
        y = w.net.add_dequantize(all_turns, scale, trt.float32).get_output(0)
    else:
        y = w.net.add_cast(all_turns, trt.float32).get_output(0)
    data = np.float32(np.arange(18).reshape(3, 6) % 2)
    assert (engine_of(w.net, y).run(x=data)["y"] == data).all()


MISTAKES = {
    "no trip limit": ("AR411", lambda w, x, loop, state: state.set_input(1, x)),
    "a recurrence without its second input": (
        "AR406",
        lambda w, x, loop, state: loop.add_trip_limit(w.number(3), COUNT),
    ),
    "a recurrence that changes its shape": (
        "AR123",
        lambda w, x, loop, state: (
            loop.add_trip_limit(w.number(3), COUNT),
            state.set_input(1, w.net.add_concatenation([state.get_output(0), x]).get_output(0)),
        ),
    ),
    "two counts": (
        "AR411",
        lambda w, x, loop, state: (
            loop.add_trip_limit(w.number(3), COUNT),
            loop.add_trip_limit(w.number(4), COUNT),
            state.set_input(1, x),
        ),
    ),
    "a count of floats": (
        "AR202",
        lambda w, x, loop, state: (
            loop.add_trip_limit(w.number(3, np.float32), COUNT),
            state.set_input(1, x),
        ),
    ),
    "a condition of several numbers": (
        "AR202",
        lambda w, x, loop, state: (
            loop.add_trip_limit(w.op(x, x, OP.LESS), WHILE),
            state.set_input(1, x),
        ),
    ),
}


@pytest.mark.parametrize(("code", "spoil"), MISTAKES.values(), ids=MISTAKES)
def test_errors_of_a_loop_are_reported(w, log, code, spoil):
    x = w.net.add_input("x", trt.float32, (3, 5))
    loop = w.net.add_loop()
    loop.name = "turns"
    state = loop.add_recurrence(x)
    spoil(w, x, loop, state)
    y = w.last(loop, state.get_output(0))
    assert y.shape.rank == -1
    assert any(f"[{code}]" in line for line in log.lines), log.lines


def test_tensors_inside_a_loop_are_not_read_outside(w, builder, log):
    x, rows = w.net.add_input("x", trt.float32, (3, 5)), w.net.add_input("rows", trt.float32, (7, 3, 5))
    loop, before, new = prefix_sums(w, x, rows, w.number(7))
    w.net.mark_output(w.add(w.last(loop, before), new))
    assert builder.build_serialized_network(w.net, builder.create_builder_config()) is None
    assert any("[AR414]" in line for line in log.lines), log.lines


def test_branches_that_do_not_agree_are_reported(w, log, golden_text):
    x, flag = w.net.add_input("x", trt.float32, (3, 5)), w.net.add_input("flag", trt.bool, ())
    conditional = w.net.add_if_conditional()
    assert conditional.add_output(x, x).get_output(0).shape.rank == -1
    conditional.set_condition(flag)
    half = w.net.add_cast(x, trt.float16).get_output(0)
    flat = w.net.add_shuffle(x)
    flat.reshape_dims = (15,)
    assert conditional.add_output(x, half).get_output(0).shape.rank == -1
    text = "\n".join(log.lines)
    assert "[AR411]" in text
    assert "[AR203]" in text
    other = w.net.add_if_conditional()
    other.set_condition(flag)
    assert other.add_output(x, flat.get_output(0)).get_output(0).shape.rank == -1
    golden_text(log.lines[-1])


def test_outputs_of_one_name_and_line_are_different(w, engine_of):
    x = w.net.add_input("x", trt.float32, (3, 5))
    loop = w.net.add_loop()
    state = loop.add_recurrence(x)
    built = [w.unary(state.get_output(0), how) for how in (trt.UnaryOperation.EXP, trt.UnaryOperation.NEG)]
    state.set_input(1, built[1])
    loop.add_trip_limit(w.number(3), COUNT)
    outputs = []
    for tensor in built:
        layer = loop.add_loop_output(tensor, CONCATENATE)
        layer.name = "out"
        layer.set_input(1, w.number(3))
        outputs.append(layer.get_output(0))
    result = engine_of(w.net, *outputs).run(x=X)
    np.testing.assert_allclose(result["y"], np.exp([X, -X, X]), rtol=1e-6)
    assert (result["y1"] == [-X, X, -X]).all()


def test_a_change_inside_reaches_what_leaves_the_loop(w):
    x = w.net.add_input("x", trt.float32, (3, 5))
    loop = w.net.add_loop()
    state = loop.add_recurrence(x)
    state.set_input(1, w.unary(state.get_output(0), trt.UnaryOperation.NEG))
    loop.add_trip_limit(w.number(3), COUNT)
    y = w.last(loop, state.get_output(0))
    assert tuple(y.shape) == (3, 5)
    x.shape = (4, 6)
    assert tuple(y.shape) == (4, 6)


def test_kernels_of_loops_agree_with_the_interpreter(w, engine_of):
    x, rows = w.net.add_input("x", trt.float32, (3, 5)), w.net.add_input("rows", trt.float32, (7, 3, 5))
    loop, before, new = prefix_sums(w, x, rows, w.number(7))
    flag = w.scalar(w.net.add_input("flag", trt.bool, (1,)))
    y = chosen(w, flag, w.last(loop, before))
    engine = engine_of(w.net, y, w.collected(loop, new, 7), verify="full")
    assert "verified at 3 shapes" in state_of(engine).loaded.plan.report


@pytest.mark.parametrize("how", [CONCATENATE, trt.LoopOutput.REVERSE])
def test_an_output_without_a_length_has_an_element_per_iteration(w, engine_of, how):
    x, limit = w.net.add_input("x", trt.float32, ()), w.net.add_input("limit", trt.float32, ())
    loop = w.net.add_loop()
    state = loop.add_recurrence(x)
    doubled = w.add(state.get_output(0), state.get_output(0))
    state.set_input(1, doubled)
    loop.add_trip_limit(w.op(state.get_output(0), limit, OP.LESS), WHILE)
    engine = engine_of(w.net, loop.add_loop_output(doubled, how).get_output(0))
    for most, expected in [(1, []), (2, [2]), (30, [2, 4, 8, 16, 32])]:
        got = engine.run(x=np.float32(1), limit=np.float32(most))["y"]
        assert got.tolist() == (expected if how is CONCATENATE else expected[::-1])


def test_an_output_without_a_length_follows_a_count_that_is_data(w, engine_of):
    n = w.net.add_input("n", trt.float32, ())
    loop = w.net.add_loop()
    state = loop.add_recurrence(w.number(0))
    state.set_input(1, w.add(state.get_output(0), w.number(1)))
    loop.add_trip_limit(w.net.add_cast(n, trt.int32).get_output(0), COUNT)
    engine = engine_of(w.net, loop.add_loop_output(state.get_output(0), CONCATENATE).get_output(0))
    for count in (4, 0, -3, 1000):
        assert engine.run(n=np.float32(count))["y"].tolist() == [*range(count)]
