"""Kernels address parts of stored tensors relative to their start: equal parts share a kernel."""

import numpy as np
import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym, add
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.kerneltext import print_kernels
from anyrt.ir.rewrite import Fail
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from anyrt.schedule.sections import Section, Walk, joined, part_section, walk_of
from tests import native
from tests.native import verify
from tests.targets import host

FLOAT = DataType.FLOAT
N = Sym("x.0", 1, 30)


def lowered(y, *inputs, sizes=({},)):
    """The kernels of a graph, verified against the interpreter."""
    symbols = (Symbol(N, "x", 0),) if any(N.dim in x.shape for x in inputs) else ()
    ins = tuple((x.op.name, x) for x in inputs)
    graph = Graph(ins, (("y", y),), {}, symbols)
    lowering = native.lower(graph, constant_offsets(graph), Sizes(sizes[0]))
    assert verify(lowering, host(), list(sizes)) == ()
    return lowering


def kernels(result):
    return len({id(call.kernel) for call in result.module.calls})


def steps(x, count, width, start=lambda t: t):
    """A running function of one row of `x` after the other."""
    h = b.const(np.zeros((1, width)), FLOAT)
    rows = []
    for t in range(count):
        row = b.slice_(x, (start(t), 0), (1, width), (1, 1))
        total = b.map_("tanh", b.map_("add", row, b.map_("mul", h, b.const([[0.5] * width], FLOAT))))
        h = b.map_("sub", total, b.reduce_("max", total, (1,)))
        rows.append(h)
    return b.concat(rows, 0)


@pytest.mark.parametrize("count", [8, 16])
def test_the_steps_of_an_unrolled_loop_share_kernels(count):
    x = b.param("x", (count, 40), FLOAT)
    assert kernels(lowered(steps(x, count, 40), x)) <= 6


def test_steps_may_walk_backwards():
    x = b.param("x", (12, 40), FLOAT)
    assert kernels(lowered(steps(x, 12, 40, lambda t: 11 - t), x)) <= 6


@pytest.mark.parametrize("shape", [(3, 5), (N.dim, 5)])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_operands_of_a_concatenation_share_a_kernel(shape, axis):
    inputs = [b.param("x" if k == 0 else f"x{k}", shape, FLOAT) for k in range(9)]
    lowering = lowered(b.concat(inputs, axis), *inputs, sizes=({"x.0": 3}, {"x.0": 30}))
    assert kernels(lowering) == 1


def test_gates_of_one_step_stay_apart_in_the_kernel_of_all_steps():
    x = b.param("x", (6, 80), FLOAT)

    def gate(t, k):
        return b.slice_(x, (t, 20 * k), (1, 20), (1, 1))

    rows = [
        b.map_("mul", b.map_("sigmoid", gate(t, 0)), b.map_("tanh", b.map_("sub", gate(t, 1), gate(t, 3))))
        for t in range(6)
    ]
    assert kernels(lowered(b.concat(rows, 0), x)) == 1


def test_readers_of_a_whole_tensor_address_all_of_it():
    x = b.param("x", (6, 30), FLOAT)
    first, last = (b.slice_(x, (t, 0), (1, 30), (1, 1)) for t in (1, 4))
    lowering = lowered(b.map_("add", x, b.map_("mul", first, last)), x)
    (call,) = lowering.module.calls
    assert call.first == {}


def test_elements_that_share_bytes_are_counted_from_the_tensors_first():
    x = b.param("x", (6, 5), DataType.INT4)
    rows = [b.cast(b.slice_(x, (t, 0), (1, 5), (1, 1)), FLOAT) for t in range(6)]
    lowering = lowered(b.map_("add", rows[1], rows[4]), x)
    assert [call.first for call in lowering.module.calls] == [{}]
    assert walk_of(rows[1].args[0], x) is None


def test_parts_that_may_be_empty_are_addressed_from_the_start_of_the_tensor():
    some = Sym("x.0", 0, 30)
    x = b.param("x", (some.dim, 6), FLOAT)
    assert walk_of(b.slice_(x, (0, 2), (some.dim, 3), (1, 1)), x) is None
    y = b.param("x", (N.dim, 6), FLOAT)
    assert walk_of(b.slice_(y, (0, 2), (N.dim, 3), (1, 1)), y) == Walk(2, (6, 1))


def test_a_call_says_where_its_part_begins():
    x = b.param("x", (6, 30), FLOAT)
    lowering = lowered(b.map_("neg", b.slice_(x, (2, 4), (3, 5), (1, 2))), x)
    (call,) = lowering.module.calls
    assert [(formal.size, at) for formal, at in call.first.items()] == [(69, 64)]


@pytest.mark.parametrize("step", [1, -1, 3])
def test_a_bound_kernel_is_the_one_that_would_have_been_made(step):
    x = b.param("x", (N.dim, 60), FLOAT)
    start = 40 if step < 0 else 10
    part = b.slice_(x, (0, start), (N.dim, 11), (1, step))
    lowering = lowered(b.concat([part, b.map_("abs", part)], 1), x, sizes=({"x.0": 7},))
    (schedule,) = lowering.schedules
    for launch in schedule.launches:
        built = [s.result for s in schedule.trace(launch) if not isinstance(s.result, Fail)][-1]
        assert (
            print_kernels([launch.kernel]).split("kernel ")[1] == print_kernels([built]).split("kernel ")[1]
        )


def test_a_view_walks_with_a_stride_for_each_axis():
    x = b.param("x", (4, 6, 5), FLOAT)
    assert walk_of(b.slice_(x, (1, 5, 0), (2, 3, 5), (1, -2, 1)), x) == Walk(55, (30, -10, 1))
    assert walk_of(b.map_("neg", x), x) is None


def test_steps_backwards_begin_at_their_least_position():
    assert Walk(50, (30, -5)).section((2, 4)) == Section(35, 46)
    assert Walk(0, (N.dim,)).section((3,)) == Section(0, add(1, 2 * N.dim))
    assert Walk(0, (add(N.dim, -4),)).section((3,)) is None


def test_sections_join_to_the_least_that_holds_them():
    assert joined([Section(3, 4), Section(10, 2)]) == Section(3, 9)
    assert joined([Section(N.dim, 1), Section(5, 1)]) is None


def test_a_part_ends_where_its_last_element_lies():
    assert part_section((4, 9), (0, 2), (4, 3)) == Section(2, 30)
