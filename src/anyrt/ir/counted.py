"""Graphs with sizes that data decide (core/counts.py): each is told by an output of its own.

What tells a size is an output, so that passes keep it, kernels store it, and a run finds it before anything
that has this size; `Symbol` names that output as the place where the size comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from anyrt.core.counts import counts
from anyrt.core.dims import Sym
from anyrt.core.errors import GraphError, NotSupportedError
from anyrt.ir.attributes import open_sizes
from anyrt.ir.graph import Graph, Symbol, Value, nested, walk


def counted(graph: Graph, others: Iterable[Value] = ()) -> Graph:
    """`graph` with an output for each size that data decide. What tells it is among what the outputs need, or
    among what `others` do, as a shape may be all that is wanted of a layer's result."""
    outputs = [v for _, v in graph.outputs]
    _check_regions(graph)
    tells = {v: v.op.tells for v in walk((*outputs, *others)) if v.op.tells is not None}
    found: dict[Sym, Value] = {}
    wanted = _wanted(outputs)
    while missing := [v for v, sym in tells.items() if sym in wanted and found.get(sym) != v]:
        for value in missing:
            sym = tells[value]
            if sym in found:
                got, do = "two layers of this name", "give layers whose results decide sizes different names"
                raise GraphError("AR402", sym.name, got, "one", do)
            found[sym] = value
        wanted = _wanted((*outputs, *found.values()))
    if not found:
        return graph
    order = [v for v in tells if v in found.values()]
    told = tuple((tells[v].name, v) for v in order)
    symbols = tuple(Symbol(tells[v], tells[v].name, 0, True) for v in order)
    return replace(graph, outputs=(*graph.outputs, *told), symbols=(*graph.symbols, *symbols))


def _check_regions(graph: Graph) -> None:
    for region in nested(graph):
        tells = () if region is graph else (v.op.tells for v in walk(v for _, v in region.outputs))
        for sym in tells:
            if sym is not None:
                got, do = "a size that each turn or branch decides anew", "decide it before, or use a mask"
                raise NotSupportedError("AR901", sym.name, got, "sizes that are known before", do)


def _wanted(values: Iterable[Value]) -> frozenset[Sym]:
    return mentioned(walk(values)) | {v.op.tells for v in walk(values) if v.op.tells is not None}


def told(graph: Graph) -> Iterator[tuple[Sym, Value]]:
    """The sizes that data decide, with what tells them, in order."""
    outputs = dict(graph.outputs)
    for symbol in graph.symbols:
        if symbol.tensor in outputs and symbol.is_value:
            value = outputs[symbol.tensor]
            if value.op.tells == symbol.sym:
                yield symbol.sym, value


def mentioned(values: Iterable[Value]) -> frozenset[Sym]:
    """Sizes that data decide, in the shapes and attributes of values."""
    sizes = (d for v in values for d in (*v.shape, *open_sizes(v.op)))
    return frozenset().union(*map(counts, sizes))


def in_turn(graph: Graph, judged: Sequence[Value]) -> Iterator[Value]:
    """What tells sizes, in order, and what is to be judged, each as soon as all sizes that it needs are told:
    what comes later may rely on it."""
    tells, known, left = list(told(graph)), set[Sym](), list(judged)
    needs = {v: mentioned(walk((v,))) if tells else frozenset[Sym]() for v in judged}
    for sym, value in [(None, None), *tells]:
        if sym is not None and value is not None:
            known.add(sym)
            yield value
        yield from (v for v in left if needs[v] <= known)
        left = [v for v in left if not needs[v] <= known]
    yield from left
