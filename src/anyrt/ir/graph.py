"""The graph IR: immutable, interned applications of primitives.

A `Value` is one result of a `Node`; a node applies a primitive (an object that carries its attributes, see
ir/prim.py) to values, and may have several results. Equal nodes are one object, so common subexpressions
cannot exist.

A primitive may hold graphs, its *regions*: the body of a branch or a loop. A region uses nothing from around
it except sizes; the primitive passes its inputs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from anyrt.core.dims import Dim, Sym
from anyrt.core.enums import DataType

if TYPE_CHECKING:
    from anyrt.ir.compute import Compute
    from anyrt.ir.prim import Prim

Shape = tuple[Dim, ...]
T = TypeVar("T")

MAX_REGIONS: Final = 400  # nesting depth: the walks over schedules and programs recurse twice per level


@dataclass(frozen=True, slots=True)
class Type:
    """Shape and element type of a value."""

    shape: Shape
    dtype: DataType

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"{self.dtype.name.lower()}[{', '.join(map(repr, self.shape))}]"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Node:
    """A primitive applied to values, and the types of its results; created by `apply` and `apply_all`, never
    directly. `compute`: the result of the primitive's method, cached since it is used often."""

    op: Prim
    args: tuple[Value, ...]
    types: tuple[Type, ...]
    compute: Compute = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compute", self.op.compute())


class Value(NamedTuple):
    """Result number `index` of `node`. A tuple, since passes keep values in sets and mappings, and a
    dataclass is hashed by slower Python code."""

    node: Node
    index: int = 0  # type: ignore[assignment]  # not the method of tuples

    @property
    def type(self) -> Type:
        """Shape and element type."""
        return self.node.types[self.index]

    @property
    def shape(self) -> Shape:
        """Dimensions."""
        return self.type.shape

    @property
    def dtype(self) -> DataType:
        """Element type."""
        return self.type.dtype

    @property
    def op(self) -> Prim:
        """The primitive that computes it."""
        return self.node.op

    @property
    def args(self) -> tuple[Value, ...]:
        """Its operands."""
        return self.node.args

    @property
    def compute(self) -> Compute:
        """How its elements are computed."""
        return self.node.compute

    def __repr__(self) -> str:
        number = f".{self.index}" if self.index else ""
        return f"<{type(self.op).__name__}{number} {self.type}>"


_INTERNED: weakref.WeakValueDictionary[tuple[object, ...], Node] = weakref.WeakValueDictionary()


def apply(op: Prim, *args: Value) -> Value:
    """The result of `op` on `args`, if it has one; equal applications return the same value."""
    results = apply_all(op, *args)
    assert len(results) == 1, f"{op} has {len(results)} results"
    return results[0]


def apply_all(op: Prim, *args: Value) -> tuple[Value, ...]:
    """All results of `op` on `args`; equal applications return the same values."""
    key = (op, args)
    node = _INTERNED.get(key)
    if node is None:
        node = _INTERNED.setdefault(key, Node(op, args, op.types(tuple(a.type for a in args))))
    return tuple(Value(node, k) for k in range(len(node.types)))


@dataclass(frozen=True, slots=True)
class Graph:
    """A network: named inputs and outputs, and for each value the name of its layer or tensor in messages.
    `makers`: for outputs the layer that computes them, if the value has another name because it is also an
    input or the result of another layer. `updates`: outputs that share the memory of an input: each element
    depends only on that element of the input, and computing it again does not change it. `kept`: cached
    properties, since the surrounding graph queries its regions repeatedly."""

    inputs: tuple[tuple[str, Value], ...]
    outputs: tuple[tuple[str, Value], ...]
    names: dict[Value, str] = field(default_factory=dict, compare=False)
    symbols: tuple[Symbol, ...] = ()
    makers: dict[str, str] = field(default_factory=dict, compare=False)
    updates: tuple[tuple[str, str], ...] = ()
    kept: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def values(self) -> tuple[Value, ...]:
        """All values that the outputs need, each after its operands."""
        if "values" not in self.kept:
            self.kept["values"] = tuple(walk(v for _, v in self.outputs))
        return cast("tuple[Value, ...]", self.kept["values"])

    @property
    def regions(self) -> tuple[Graph, ...]:
        """The regions of the values that the outputs need, without those inside of regions."""
        if "regions" not in self.kept:
            nodes = dict.fromkeys(v.node for v in self.values)
            self.kept["regions"] = tuple(region for node in nodes for region in node.op.regions)
        return cast("tuple[Graph, ...]", self.kept["regions"])

    def name(self, value: Value) -> str:
        """The name of `value` in messages."""
        return self.names.get(value, type(value.op).__name__.lower())


@dataclass(frozen=True, slots=True)
class Symbol:
    """The source of the value of a dynamic size: dimension `axis` of input `tensor`, or element `axis` of its
    values (`is_value`, for shape tensors)."""

    sym: Sym
    tensor: str
    axis: int
    is_value: bool = False


def walk(roots: Iterable[Value], known: Iterable[Value] = ()) -> Iterator[Value]:
    """Every value that `roots` need, once, producers before consumers, except those in `known`."""
    seen = set(known)
    todo = [(r, False) for r in reversed(list(roots))]
    while todo:
        value, ready = todo.pop()
        if ready:
            yield value
        elif value not in seen:
            seen.add(value)
            todo.append((value, True))
            todo += [(a, False) for a in reversed(value.args) if a not in seen]


def nested(graph: Graph) -> Iterator[Graph]:
    """`graph`, and the regions of the values that its outputs need, at any depth: each once, before those
    inside it."""
    seen: set[Graph] = set()
    order: list[Graph] = []
    todo = [(graph, False)]  # a stack: regions are nested deeper than Python recurses
    while todo:
        inner, ready = todo.pop()
        if ready:
            order.append(inner)
        elif inner not in seen:
            seen.add(inner)
            todo += [(inner, True), *((region, False) for region in inner.regions)]
    return reversed(order)


def gathered(graph: Graph, find: Callable[[Graph], Iterable[T]]) -> frozenset[T]:
    """The results of `find` for `graph` and its regions at any depth; each is visited once."""
    todo = [] if find in graph.kept else [graph]
    while todo:
        inner = todo[-1]
        missing = [region for region in inner.regions if find not in region.kept]
        if missing:
            todo += missing
            continue
        todo.pop()
        inner.kept[find] = frozenset(find(inner)).union(*(region.kept[find] for region in inner.regions))
    return cast("frozenset[T]", graph.kept[find])


def depth(graph: Graph) -> int:
    """The nesting depth of regions."""
    depths: dict[Graph, int] = {}
    for inner in reversed([*nested(graph)]):
        depths[inner] = max((1 + depths[r] for r in inner.regions), default=0)
    return depths[graph]


def users(graph: Graph) -> Mapping[Value, Sequence[Value]]:
    """For each value the values computed from it (one entry per use and result)."""
    if users not in graph.kept:
        out: dict[Value, list[Value]] = {}
        for value in graph.values:
            out.setdefault(value, [])
            for a in value.args:
                out.setdefault(a, []).append(value)
        graph.kept[users] = out
    return cast("Mapping[Value, Sequence[Value]]", graph.kept[users])
