"""The build report: the layers of each kernel, and the reason why a value was not fused, by layer names."""

from dataclasses import replace

import pytest

from anyrt.backends.cpu.strategies import STRATEGIES
from anyrt.compiler.report import build_report
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, Symbol
from anyrt.plan.report import KernelTraffic, Report, StoredTensor, short_text
from anyrt.prims import build as b
from anyrt.prims.taps import Linear
from anyrt.schedule.cost import Sizes
from tests import native

PLAIN, TILES = replace(REFERENCE, has_vnni=False), replace(REFERENCE, has_tiles=True)
N, M = Sym("x.0", 1, 64), Sym("y.0", 1, 64)


def report(graph: Graph) -> Report:
    sizes = Sizes({"x.0": 5, "y.0": 5})
    return build_report(native.lower(graph, {}, sizes), sizes)


def test_intermediate_values_of_a_layer_have_its_name():
    x = b.param("x", (1, 4, 32, 32), DataType.FLOAT)
    centred = b.map_("tanh", b.map_("sub", x, b.reduce_("sum", x, (2, 3))))
    y = b.taps(centred, 2, 64, Linear(Coordinate.HALF_PIXEL, Selector.FORMULA))
    result = report(Graph((("x", x),), (("y", y),), {centred: "centre", y: "resize"}))
    assert [(k.name, k.layers) for k in result.kernels] == [
        ("centre", ("centre",)),
        ("centre+resize", ("centre", "resize")),
    ]
    again = "it would be folded again for every row that taps read again"
    assert result.stored == (StoredTensor("centre (reduce)", 16, again),)


def test_values_without_layers_are_called_by_their_primitive():
    x = b.param("x", (4,), DataType.FLOAT)
    result = report(Graph((("x", x),), (("y", b.map_("neg", x)),)))
    assert result.kernels == (KernelTraffic("map", (), reads=16, writes=16),)


def test_layers_stand_in_the_order_of_the_network():
    x = b.param("x", (4,), DataType.FLOAT)
    first = b.map_("tanh", x)
    second = b.map_("exp", first)
    third = b.map_("neg", second)
    names = {first: "first", second: "second", third: "third"}
    (kernel,) = report(Graph((("x", x),), (("y", third),), names)).kernels
    assert kernel.layers == ("first", "second", "third")


def test_layers_keep_their_names_where_dynamic_sizes_are_assumed_equal():
    x, y = (b.param(s.name[0], (s.dim, 8), DataType.FLOAT) for s in (N, M))
    total = b.map_("add", x, y)
    symbols = (Symbol(N, "x", 0), Symbol(M, "y", 0))
    result = report(Graph((("x", x), ("y", y)), (("z", total),), {total: "total"}, symbols))
    assert result.kernels == (KernelTraffic("total", ("total",), reads=320, writes=160),)


def bytes_summed(rows: int, terms: int) -> Graph:
    x, w = (b.param(n, s, DataType.INT8) for n, s in (("x", (rows, terms)), ("w", (terms, 70))))
    return Graph((("x", x), ("w", w)), (("y", b.contract("mk,kn->mn", x, w, DataType.INT32)),))


@pytest.mark.parametrize(
    ("rows", "terms", "why"),
    [
        (40, 35, "35 terms fill no words of 4 for dot4u"),
        (3, 64, "words for dot4u are not worth making for 3 rows"),
    ],
)
def test_why_sums_of_bytes_do_without_the_instruction_that_the_machine_has(rows, terms, why):
    lowered = native.lower(bytes_summed(rows, terms), {}, Sizes({}), machine=REFERENCE)
    message = f"no instruction of this machine, as {why}: contract"
    assert message in short_text(build_report(lowered, Sizes({})))


def test_tiled_sums_and_machines_without_tiles_have_no_note():
    for graph, machine in ((bytes_summed(40, 64), REFERENCE), (bytes_summed(40, 35), PLAIN)):
        lowered = native.lower(graph, {}, Sizes({}), machine=machine)
        assert build_report(lowered, Sizes({})).notes == ()


def test_why_a_loop_is_not_by_the_instruction_on_tiles_that_was_meant():
    lowered = native.lower(
        bytes_summed(40, 64), {}, Sizes({}), machine=TILES, strategies=STRATEGIES.without("round up")
    )
    (why,) = build_report(lowered, Sizes({})).notes
    assert "as matrix tiles were selected: " in why
