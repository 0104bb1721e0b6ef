"""Regions made of values: what is computed inside a loop or a branch, cut out of a graph.

Inside is what depends on the parameters of the region, and what is made of constants alone. All else is
computed before it, and read inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from anyrt.ir.compute import Elements
from anyrt.ir.graph import Graph, Value, apply_all, walk
from anyrt.prims.build import param
from anyrt.prims.const import Param

Names = Callable[[Value], str | None]  # the layer that a value belongs to


def replaced(roots: Iterable[Value], instead: Mapping[Value, Value]) -> dict[Value, Value]:
    """For all that `roots` need: the same on other operands."""
    done = dict(instead)
    for value in walk(roots):
        if value not in done:
            args = [done[a] for a in value.args]
            same = all(a == b for a, b in zip(args, value.args, strict=True))
            done[value] = value if same else apply_all(value.op, *args)[value.index]
    return done


def depending(roots: Iterable[Value], on: Iterable[Value]) -> set[Value]:
    """Of all that `roots` need, what is made of any of these."""
    found = set(on)
    for value in walk(roots):
        if not found.isdisjoint(value.args):
            found.add(value)
    return found


@dataclass(slots=True)
class Cut:
    """A region while it is cut out: `params` are its inputs, and stand for themselves inside. `around`: what
    else it reads, with the inputs that stand for it."""

    params: Sequence[Value]
    around: dict[Value, Value] = field(default_factory=dict)

    def inside(self, roots: Sequence[Value]) -> None:
        """Learn what `roots` read from around."""
        order = list(walk(roots))
        dynamic = depending(roots, self.params)
        constant = set[Value]()
        for value in order:
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
        """The region with these inputs, then those from around; `named`: those of `params` that are inputs,
        each under a name."""
        own = {value: param(name, value.shape, value.dtype) for name, value in named}
        instead = {**self.around, **own}
        done = replaced([v for _, v in results], instead)
        inputs = [(name, own[value]) for name, value in named]
        inputs += [(f"around{n}", x) for n, x in enumerate(self.around.values())]
        called = {done[v]: name for v in done if (name := names(v)) is not None}
        return Graph(tuple(inputs), tuple((name, done[v]) for name, v in results), called)


def _only_moves(value: Value) -> bool:
    """True for what costs nothing where it is read."""
    how = value.compute
    return isinstance(how, Elements) and how.moves and len(value.args) == 1
