"""The build report: what each kernel computes, and why a value was not fused, by the names of layers."""

from anyrt.compiler import native
from anyrt.compiler.report import report_text
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.ir.graph import Graph, Symbol
from anyrt.prims import build as b
from anyrt.prims.taps import Linear
from anyrt.schedule.cost import Sizes

N, M = Sym("x.0", 1, 64), Sym("y.0", 1, 64)


def report(graph: Graph) -> list[str]:
    return report_text(native.lower(graph, {}, Sizes({"x.0": 5, "y.0": 5}))).splitlines()


def test_what_a_layer_computes_on_the_way_bears_its_name():
    x = b.param("x", (1, 4, 32, 32), DataType.FLOAT)
    centred = b.map_("tanh", b.map_("sub", x, b.reduce_("sum", x, (2, 3))))
    y = b.taps(centred, 2, 64, Linear(Coordinate.HALF_PIXEL, Selector.FORMULA))
    found = report(Graph((("x", x),), (("y", y),), {centred: "centre", y: "resize"}))
    assert found[1].startswith("  centre: touches ")
    assert found[2].startswith("  centre+resize: touches ")
    assert found[4] == "  centre (reduce): it would be folded again for every row of the window"


def test_values_without_layers_are_called_by_their_primitive():
    x = b.param("x", (4,), DataType.FLOAT)
    assert report(Graph((("x", x),), (("y", b.map_("neg", x)),)))[1] == "  map: touches 128 bytes"


def test_layers_keep_their_names_where_dynamic_sizes_are_assumed_equal():
    x, y = (b.param(s.name[0], (s.dim, 8), DataType.FLOAT) for s in (N, M))
    total = b.map_("add", x, y)
    symbols = (Symbol(N, "x", 0), Symbol(M, "y", 0))
    found = report(Graph((("x", x), ("y", y)), (("z", total),), {total: "total"}, symbols))
    assert found[1].startswith("  total: touches ")
