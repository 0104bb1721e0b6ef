"""Which outputs are written past the caches."""

from functools import reduce

from anyrt.core.dims import Sym, floordiv, maximum
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, Symbol
from anyrt.prims import build as b
from anyrt.schedule.nontemporal import NOT_PAST, past_caches


def test_where_the_caches_end_is_not_asked_of_sizes_without_end():
    """Each output has the larger of all sizes before it: their bytes together have no short formula."""
    axes = [Sym(f"x{k}.0", 1, 1 << 20) for k in range(100)]
    inputs = tuple((f"x{k}", b.param(f"x{k}", (s.dim,), DataType.FLOAT)) for k, s in enumerate(axes))
    sizes = [reduce(maximum, (floordiv(s.dim * (n + 3), 7) for s in axes[: n + 1])) for n in range(len(axes))]
    outputs = tuple((f"y{n}", b.iota((d,), 0, DataType.FLOAT)) for n, d in enumerate(sizes))
    symbols = tuple(Symbol(s, f"x{k}", 0) for k, s in enumerate(axes))
    graph = Graph(inputs, outputs, symbols=symbols)
    assert past_caches(graph, REFERENCE) == {v: NOT_PAST for _, v in outputs}
