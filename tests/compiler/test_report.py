"""The build report: what each kernel computes, and why a value was not fused, by the names of layers."""

from anyrt.compiler.report import build_report
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.ir.graph import Graph, Symbol
from anyrt.plan.report import KernelTraffic, Report, StoredTensor
from anyrt.prims import build as b
from anyrt.prims.taps import Linear
from anyrt.schedule.cost import Sizes
from tests import native

N, M = Sym("x.0", 1, 64), Sym("y.0", 1, 64)


def report(graph: Graph) -> Report:
    sizes = Sizes({"x.0": 5, "y.0": 5})
    return build_report(native.lower(graph, {}, sizes), sizes)


def test_what_a_layer_computes_on_the_way_bears_its_name():
    x = b.param("x", (1, 4, 32, 32), DataType.FLOAT)
    centred = b.map_("tanh", b.map_("sub", x, b.reduce_("sum", x, (2, 3))))
    y = b.taps(centred, 2, 64, Linear(Coordinate.HALF_PIXEL, Selector.FORMULA))
    found = report(Graph((("x", x),), (("y", y),), {centred: "centre", y: "resize"}))
    assert [(k.name, k.layers) for k in found.kernels] == [
        ("centre", ("centre",)),
        ("centre+resize", ("centre", "resize")),
    ]
    again = "it would be folded again for every row of the window"
    assert found.stored == (StoredTensor("centre (reduce)", 16, again),)


def test_values_without_layers_are_called_by_their_primitive():
    x = b.param("x", (4,), DataType.FLOAT)
    found = report(Graph((("x", x),), (("y", b.map_("neg", x)),)))
    assert found.kernels == (KernelTraffic("map", (), reads=16, writes=16),)


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
    found = report(Graph((("x", x), ("y", y)), (("z", total),), {total: "total"}, symbols))
    assert found.kernels == (KernelTraffic("total", ("total",), reads=320, writes=160),)
