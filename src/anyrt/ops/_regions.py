"""Regions: the part of a graph that is computed inside a loop or a branch.

Values are inside if they depend on the parameters of the region, or on constants alone. Other values are
computed before the region, which reads them. A value with a data-dependent dimension also depends on the
value that computes the dimension, even if that is no operand of it: `Shape` has no operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from anyrt.core.counts import count, counts, highest
from anyrt.core.dims import Dim, Sym, add, mul
from anyrt.core.dimvalues import substitute
from anyrt.core.enums import DataType
from anyrt.ir.attributes import with_sizes
from anyrt.ir.compute import only_moves
from anyrt.ir.counted import counted, mentioned
from anyrt.ir.graph import Graph, Shape, Value, apply, apply_all, walk
from anyrt.ir.prim import Prim
from anyrt.ops._math import number
from anyrt.prims.build import const, gather, iota, map_, pad, param, reshape, scalar
from anyrt.prims.const import Param
from anyrt.prims.count import Count

Names = Callable[[Value], str | None]  # the layer that a value belongs to
Tells = Mapping[Sym, Value]  # data-dependent dimensions, with the values that compute them
NONE: Final[Tells] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Network:
    """The network around a region: `names` maps a value to the name of its layer, `tells` returns the values
    that compute data-dependent dimensions."""

    names: Names
    tells: Callable[[], Iterable[Value]] = tuple


@dataclass(frozen=True, slots=True)
class Results:
    """The outputs of a loop or conditional, and the values that compute their data-dependent dimensions."""

    values: tuple[Value, ...]
    tells: tuple[Value, ...] = ()


def telling(roots: Iterable[Value], network: Network) -> dict[Sym, Value]:
    """The data-dependent dimensions in the graph of `roots`, with the values that compute them."""
    roots, tellers = list(roots), dict[Sym, Value]()
    while True:
        values = list(walk((*roots, *tellers.values())))
        own = {v.op.tells: v for v in values if v.op.tells is not None}
        tellers |= own
        missing = mentioned(values) - tellers.keys()
        if not missing:
            return tellers
        others = {v.op.tells: v for v in network.tells() if v.op.tells in missing}
        assert others.keys() == missing, f"no value computes {missing - others.keys()}"
        tellers |= others


def replaced(
    roots: Iterable[Value], instead: Mapping[Value, Value], tells: Tells = NONE, suffix: str = ""
) -> dict[Value, Value]:
    """The graph of `roots` on other operands: new values by old ones. A data-dependent dimension of `tells`
    that changes gets a new name with this `suffix`."""
    roots, done = [*tells.values(), *roots], dict(instead)
    changing = depending(roots, instead, tells) if suffix and tells else set[Value]()
    other = {sym: _called(sym, suffix) for sym, value in tells.items() if value in changing}
    for value in walk(roots):
        if value not in done:
            args = [done[a] for a in value.args]
            op = _on_sizes(value.op, other) if value in changing else value.op
            same = op is value.op and all(a == b for a, b in zip(args, value.args, strict=True))
            done[value] = value if same else apply_all(op, *args)[value.index]
    return done


def _called(sym: Sym, suffix: str) -> Sym:
    return replace(sym, name=sym.name + suffix, most=highest(sym.most) if sym.most is not None else None)


def _on_sizes(op: Prim, other: Mapping[Sym, Sym]) -> Prim:
    """The primitive with the data-dependent dimensions `other` replaced."""
    sym = op.tells
    if sym is not None and sym in other:
        return Count(other[sym])
    return with_sizes(op, lambda size: substitute(size, {sym: new.dim for sym, new in other.items()}))


def depending(roots: Iterable[Value], on: Iterable[Value], tells: Tells = NONE) -> set[Value]:
    """The values in the graph of `roots` and `tells` that depend on any value of `on`."""
    dependent, sizes, order = set(on), set[Sym](), list(walk((*tells.values(), *roots)))
    before = -1
    while len(sizes) != before:
        before = len(sizes)
        for value in order:
            if not dependent.isdisjoint(value.args) or (sizes and not sizes.isdisjoint(mentioned((value,)))):
                dependent.add(value)
        sizes.update(sym for sym, value in tells.items() if value in dependent)
    return dependent


@dataclass(slots=True)
class Region:
    """A region under construction. `params`: its inputs. `tells`: values that compute data-dependent
    dimensions; `counts`: those of them inside. `around`: other values that it reads, with their inputs."""

    params: Sequence[Value]
    tells: Tells = field(default_factory=dict)
    around: dict[Value, Value] = field(default_factory=dict)
    counts: list[Value] = field(default_factory=list)

    def inside(self, roots: Sequence[Value]) -> None:
        """Find the values that `roots` read from outside, and the dimensions that the region computes."""
        dynamic = depending(roots, self.params, self.tells)
        self.counts = [v for v in self.tells.values() if v in dynamic]
        roots = [*self.counts, *roots]
        constant = set[Value]()
        for value in walk(roots):
            if not isinstance(value.op, Param) and constant.issuperset(value.args):
                constant.add(value)
        todo, seen = list(roots), set[Value]()
        while todo:
            value = todo.pop()
            if value in seen or value in constant or value in self.params:
                continue
            seen.add(value)
            if value in dynamic or (value.args and _only_moves(value)):
                todo += value.args
            else:
                self.around.setdefault(value, param(f"around{len(self.around)}", value.shape, value.dtype))

    def graph(
        self, named: Sequence[tuple[str, Value]], results: Sequence[tuple[str, Value]], names: Names
    ) -> Graph:
        """The region as a graph. Its inputs are `named`, the `params` that are inputs, with their names; then
        the values from around."""
        own = {value: param(name, value.shape, value.dtype) for name, value in named}
        instead = {**self.around, **own}
        done = replaced([*self.counts, *(v for _, v in results)], instead)
        inputs = [(name, own[value]) for name, value in named]
        inputs += [(f"around{n}", x) for n, x in enumerate(self.around.values())]
        called = {done[v]: name for v in done if (name := names(v)) is not None}
        outputs = tuple((name, done[v]) for name, v in results)
        return counted(Graph(tuple(inputs), outputs, called), [done[v] for v in self.counts])


def _only_moves(value: Value) -> bool:
    """Whether the value costs nothing when it is computed where it is read."""
    return only_moves(value.compute) and len(value.args) == 1


def size_of(size: Dim) -> Value:
    """A size as an int64."""
    return number(size, const(0, DataType.INT64))


def with_room(value: Value, room: Shape) -> Value:
    """The value, padded with zeros at the end to the shape `room`."""
    if value.shape == room:
        return value
    behind = [add(most, mul(size, -1)) for most, size in zip(room, value.shape, strict=True)]
    return pad(value, (0,) * len(room), behind, 0)


def without_room(value: Value, sizes: Mapping[int, Value], where: str) -> Value:
    """The value, cut to `sizes` (by axis)."""
    for axis, size in sizes.items():
        sym = count(f"{where}: size {axis}", value.shape[axis])
        length = apply(Count(sym), size)
        shape = (*value.shape[:axis], sym.dim, *value.shape[axis + 1 :])
        last = reshape(map_("sub", length, scalar(1, length)), (1,) * len(shape))
        value = gather(value, map_("min", iota(shape, axis, DataType.INT64), last), axis)
    return value


def without_counts(shape: Shape, inside: frozenset[Sym]) -> Shape:
    """The shape with upper bounds in place of the data-dependent dimensions `inside`."""
    return tuple(highest(d) if counts(d) & inside else d for d in shape)
