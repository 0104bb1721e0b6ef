"""Sizes and regions in the attributes of primitives, at any depth: finding and replacing them.

>>> from anyrt.core.dimvalues import evaluate
>>> from anyrt.prims.pad import Pad
>>> with_sizes(Pad((Sym("n").dim,), (1,), 0.0), lambda size: evaluate(size, {"n": 3}))
Pad(lo=(3,), hi=(1,), value=0.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache

from anyrt.core.dims import Dim, Expr, Sym
from anyrt.ir.graph import Graph, Node, Value, apply_all, gathered, walk
from anyrt.ir.prim import Prim

Change = Callable[[Expr], Dim]


def open_sizes(op: Prim) -> Iterator[Expr]:
    """Every symbolic size in the attributes of `op`, and in its regions."""
    todo: list[object] = [op]
    while todo:
        x = todo.pop()
        if isinstance(x, Expr):
            yield x
        elif isinstance(x, Graph):
            yield from gathered(x, _own_sizes)
        else:
            todo += _parts(x)


def _own_sizes(graph: Graph) -> Iterator[Expr]:
    """Those of a graph; its regions store theirs."""
    return (size for node in _nodes(graph) for size in open_sizes(node.op))


def with_sizes(op: Prim, change: Change) -> Prim:
    """`op` with `change(size)` in place of every symbolic size; `op` itself if it has none, so that big
    constants are not copied."""
    return _changed(op, lambda x: change(x) if isinstance(x, Expr) else graph_with_sizes(x, change))


def with_regions(op: Prim, change: Callable[[Graph], Graph]) -> Prim:
    """`op` with `change(region)` in place of every region; `op` itself when nothing changes."""
    return op if not op.regions else _changed(op, lambda x: x if isinstance(x, Expr) else change(x))


def graph_with_sizes(graph: Graph, change: Change) -> Graph:
    """`graph` with `change(size)` in place of every symbolic size; `graph` itself if it has none."""
    new: dict[Value, Value] = {}
    for node in _nodes(graph):
        results = apply_all(with_sizes(node.op, change), *(new[a] for a in node.args))
        new |= {Value(node, k): result for k, result in enumerate(results)}
    if all(old == now for old, now in new.items()):
        return graph
    return Graph(
        tuple((name, new[v]) for name, v in graph.inputs),
        tuple((name, new[v]) for name, v in graph.outputs),
        {new[v]: name for v, name in graph.names.items() if v in new},
        graph.symbols,
        graph.makers,
        graph.updates,
    )


def _changed(op: Prim, change: Callable[[Expr | Graph], object]) -> Prim:
    """`op` with other sizes and regions in its attributes, at any depth."""
    result = _replaced(op, change)
    assert isinstance(result, Prim), f"{op} became {result}"
    return result


def _replaced(x: object, change: Callable[[Expr | Graph], object]) -> object:
    if isinstance(x, Expr | Graph):
        return change(x)
    old = _parts(x)
    new = tuple([_replaced(part, change) for part in old])
    if all(a is b for a, b in zip(new, old, strict=True)):
        return x
    if not is_dataclass(x) or isinstance(x, type):
        return new
    return replace(x, **dict(zip(_names(type(x)), new, strict=True)))


def _parts(x: object) -> tuple[object, ...]:
    """The parts of a tuple, or of a dataclass other than a size."""
    if isinstance(x, tuple):
        return x
    if isinstance(x, Expr | Sym):
        return ()
    names = _names(type(x))  # type: ignore[arg-type]  # a class has a hash, whatever its objects have
    return tuple([getattr(x, name) for name in names])


@cache
def _names(kind: type) -> tuple[str, ...]:
    """The fields that a dataclass is made of."""
    return tuple(f.name for f in fields(kind) if f.init) if is_dataclass(kind) else ()


def _nodes(graph: Graph) -> Iterable[Node]:
    """Every node that the ends of `graph` need, once, producers before consumers."""
    return dict.fromkeys(v.node for v in walk(v for _, v in (*graph.inputs, *graph.outputs)))
