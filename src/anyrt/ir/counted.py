"""Graphs with data-dependent sizes (core/counts.py): each size has a graph output that computes it.

Since it is an output, passes keep it, kernels store it, and an inference computes it before any value of this
size. `Symbol` names that output as the source of the size. A region has such outputs behind its results: they
are computed again in each iteration, and only the region knows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from anyrt.core.counts import counts, is_open
from anyrt.core.dims import Sym
from anyrt.core.errors import GraphError, NotSupportedError
from anyrt.ir.attributes import open_sizes
from anyrt.ir.graph import Graph, Symbol, Value, gathered, nested, walk
from anyrt.ir.prim import Prim


def counted(graph: Graph, others: Iterable[Value] = (), asked: Iterable[Value] = ()) -> Graph:
    """`graph` with an output for each data-dependent size. The value of the size is needed by the outputs or
    by `others`, since a program may use only the shape of a layer's result. `asked`: values that are kept as
    outputs even if no size uses them."""
    asked = list(asked)
    outputs, others = [*(v for _, v in graph.outputs), *asked], (*others, *asked)
    tells = {v: v.op.tells for v in walk((*outputs, *others)) if v.op.tells is not None}
    computed: dict[Sym, Value] = {}
    needed = _needed_sizes(outputs) if tells else frozenset()
    while missing := [v for v, sym in tells.items() if sym in needed and computed.get(sym) != v]:
        for value in missing:
            sym = tells[value]
            if sym in computed:
                raise _two(sym)
            computed[sym] = value
        needed = _needed_sizes((*outputs, *computed.values()))
    _check_inside(graph, computed)
    if not computed:
        return graph
    order = list(_in_order({tells[v]: v for v in tells if v in computed.values()}))
    ports = tuple((tells[v].name, v) for v in order)
    symbols = tuple(Symbol(tells[v], tells[v].name, 0, True) for v in order)
    return replace(graph, outputs=(*graph.outputs, *ports), symbols=(*graph.symbols, *symbols))


def _check_inside(graph: Graph, computed: Mapping[Sym, Value]) -> None:
    """A size that a region computes is used outside of it, although it changes with each iteration."""
    called = {sym.name: sym for sym in computed}
    for inner in nested(graph) if gathered(graph, computed_sizes) else ():
        for sym, value in computed_sizes(inner):
            if called.setdefault(sym.name, sym) != sym or computed.get(sym, value) != value:
                raise _two(sym)
            if inner is not graph and is_open(sym):
                got = "a size without an upper bound, which each iteration or branch computes again"
                raise NotSupportedError("AR901", sym.name, got, "one that has a bound", "decide it before")


def _two(sym: Sym) -> GraphError:
    got, do = "two layers of this name", "give layers whose results decide sizes different names"
    return GraphError("AR402", sym.name, got, "one", do)


def _needed_sizes(values: Iterable[Value]) -> frozenset[Sym]:
    return mentioned(walk(values)) | {v.op.tells for v in walk(values) if v.op.tells is not None}


def _in_order(tells: Mapping[Sym, Value]) -> Iterator[Value]:
    """The values of sizes, each behind those that it depends on."""
    needs = {sym: mentioned(walk((v,))) - {sym} for sym, v in tells.items()}
    left = dict(tells)
    while left:
        ready = [sym for sym in left if needs[sym].isdisjoint(left)]
        assert ready, f"sizes that need each other: {', '.join(s.name for s in left)}"
        yield from [left.pop(sym) for sym in ready]


def computed_sizes(graph: Graph) -> Iterator[tuple[Sym, Value]]:
    """The data-dependent sizes with their values, in order."""
    outputs = dict(graph.outputs)
    for symbol in graph.symbols:
        if symbol.tensor in outputs and symbol.is_value:
            value = outputs[symbol.tensor]
            if value.op.tells == symbol.sym:
                yield symbol.sym, value


def results(graph: Graph) -> tuple[tuple[str, Value], ...]:
    """The outputs in front of those for sizes."""
    tells = {sym.name for sym, _ in computed_sizes(graph)}
    return tuple((name, value) for name, value in graph.outputs if name not in tells)


def computed_inside(op: Prim) -> frozenset[Sym]:
    """The data-dependent sizes in the regions of a primitive, at any depth."""
    return frozenset(sym for region in op.regions for sym, _ in gathered(region, computed_sizes))


def sizes_of(graph: Graph) -> tuple[Sym, ...]:
    """The sizes of a graph, and those that its regions compute."""
    inside = (sym for inner in nested(graph) if inner is not graph for sym, _ in computed_sizes(inner))
    return tuple(dict.fromkeys(chain((s.sym for s in graph.symbols), inside)))


def mentioned(values: Iterable[Value]) -> frozenset[Sym]:
    """Data-dependent sizes in the shapes and attributes of values, except for those that a value computes
    inside its regions."""
    return frozenset().union(*map(_mentions, values))


def _mentions(value: Value) -> frozenset[Sym]:
    sizes = frozenset().union(*map(counts, (*value.shape, *open_sizes(value.op))))
    return sizes - computed_inside(value.op) if value.op.regions else sizes


def in_turn(graph: Graph, judged: Sequence[Value]) -> Iterator[Value]:
    """The values of sizes and the conditions to test, each as soon as all sizes that it needs are computed:
    later ones may depend on it."""
    tells, known, left = list(computed_sizes(graph)), set[Sym](), list(judged)
    own = {sym for sym, _ in tells}
    needs = {v: mentioned(walk((v,))) & own if tells else frozenset[Sym]() for v in judged}
    for sym, value in [(None, None), *tells]:
        if sym is not None and value is not None:
            known.add(sym)
            yield value
        yield from (v for v in left if needs[v] <= known)
        left = [v for v in left if not needs[v] <= known]
    yield from left
