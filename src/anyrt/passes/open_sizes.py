"""Open sizes, which only an inference knows: each number is read once, under one name.

If two layers read the elements of one operand as sizes, both use the name of the first.
"""

from __future__ import annotations

from dataclasses import replace

from anyrt.core.counts import is_open
from anyrt.core.dims import Dim, Sym
from anyrt.core.dimvalues import substitute
from anyrt.ir.attributes import graph_with_sizes
from anyrt.ir.counted import computed_sizes
from anyrt.ir.graph import Graph, Value


def read_once(graph: Graph) -> Graph:
    """`graph` whose open sizes are read once."""
    first: dict[Value, Sym] = {}
    same: dict[Sym, Dim] = {}
    for sym, value in computed_sizes(graph):
        if is_open(sym) and first.setdefault(value.args[0], sym) != sym:
            same[sym] = first[value.args[0]].dim
    if not same:
        return graph
    again = {sym.name for sym in same}
    outputs = tuple((name, v) for name, v in graph.outputs if name not in again)
    symbols = tuple(s for s in graph.symbols if s.sym not in same)
    kept = replace(graph, outputs=outputs, symbols=symbols)
    return graph_with_sizes(kept, lambda size: substitute(size, same))
