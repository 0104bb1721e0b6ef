"""Rewrite rules as data, and the function that applies them.

A rule matches a pattern of primitives and builds a replacement of the same type:

    Rule(
        "negation twice",
        find=lambda x: op(Map, op(Map, x, fn="neg"), fn="neg"),
        make=lambda x: x,
        example=lambda draw: ...,
    )

The parameters of `find` match any value. `Bind("shape")` binds an attribute; any other attribute must be
equal. `make` and `guard` take the names that they need of all bindings; `out` is the matched value itself.
Both return `Fail(reason)` if the rule does not apply. Rules are exact, bit for bit in the interpreter, unless
they state a `tolerance`; a fuzz test verifies that with the values that `example` builds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

from anyrt.ir.attributes import with_regions
from anyrt.ir.graph import Graph, Value, apply_all, nested
from anyrt.ir.prim import Prim

OUT: Final = "out"
MOST: Final = 1000  # rewrites of one value: more indicate a cycle


@dataclass(frozen=True, slots=True)
class Fail:
    """The reason why something was not applied."""

    reason: str


@dataclass(frozen=True, slots=True)
class Hole:
    """Matches every value; the same name twice means the same value."""

    name: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Matches every attribute."""

    name: str


@dataclass(frozen=True, slots=True)
class Op:
    """Matches result `index` of a primitive applied to what the patterns `args` match; attributes not named
    may be anything."""

    kind: type[Prim]
    args: tuple[Pattern, ...]
    attributes: tuple[tuple[str, object], ...]
    name: str | None = None
    index: int = 0


Pattern: TypeAlias = Hole | Op
Bindings: TypeAlias = dict[str, object]


def op(kind: type[Prim], *args: Pattern, **attributes: object) -> Op:
    """A primitive's pattern: attributes by value, or bound by `Bind`."""
    return Op(kind, args, tuple(attributes.items()))


def named(name: str, pattern: Op) -> Op:
    """The same pattern; the matched value is bound to `name`."""
    return replace(pattern, name=name)


def result(index: int, pattern: Op) -> Op:
    """Another result of the node that the pattern matches."""
    return replace(pattern, index=index)


@dataclass(frozen=True, slots=True)
class Rule:
    """Replaces what `find` matches by the result of `make`, unless `guard` returns a Fail; `example` builds a
    value that it applies to, from a function that returns a random number below its argument. `range`: where
    it loses digits; no rule leaves the range of a type unless the original expression does."""

    name: str
    find: Callable[..., Pattern]
    make: Callable[..., Value | Fail]
    example: Callable[[Callable[[int], int]], Value]
    guard: Callable[..., Fail | None] = lambda: None
    tolerance: float = 0.0
    range: str = ""

    def apply(self, value: Value) -> Value | Fail:
        """The replacement of `value`, or the reason why there is none."""
        bindings = matches(_pattern(self.find), value)
        if bindings is None:
            return Fail("another pattern")
        bindings[OUT] = value
        reason = self.guard(**_needed(self.guard, bindings))
        if reason is not None:
            return reason
        replacement = self.make(**_needed(self.make, bindings))
        if isinstance(replacement, Value):
            assert replacement.type == value.type, f"{self.name}: {value.type} became {replacement.type}"
        return replacement


@lru_cache(maxsize=256)
def _pattern(find: Callable[..., Pattern]) -> Pattern:
    return find(*map(Hole, inspect.signature(find).parameters))


def _needed(function: Callable[..., object], bindings: Bindings) -> Bindings:
    return {name: bindings[name] for name in _parameters(function)}


@lru_cache(maxsize=1024)
def _parameters(function: Callable[..., object]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def matches(pattern: Pattern, value: Value) -> Bindings | None:
    """The bindings of the names in `pattern` if it matches `value`; None if it does not."""
    bindings: Bindings = {}
    return bindings if _match(pattern, value, bindings) else None


def _match(pattern: Pattern, value: Value, bindings: Bindings) -> bool:
    match pattern:
        case Hole(name=name):
            return bindings.setdefault(name, value) == value
        case Op(kind=kind, args=args, name=bound, index=index):
            if not isinstance(value.op, kind) or (len(args), index) != (len(value.args), value.index):
                return False
            if bound is not None:
                bindings[bound] = value
            fits = _attributes(pattern, value.op, bindings)
            return fits and all(_match(p, a, bindings) for p, a in zip(args, value.args, strict=True))


def _attributes(pattern: Op, op: Prim, bindings: Bindings) -> bool:
    return all(_attribute(expected, getattr(op, name), bindings) for name, expected in pattern.attributes)


def _attribute(expected: object, value: object, bindings: Bindings) -> bool:
    if isinstance(expected, Bind):
        return bindings.setdefault(expected.name, value) == value
    return expected == value


def rewrite(graph: Graph, rules: Sequence[Rule]) -> Graph:
    """`graph` with the rules applied, operands first, until none applies; `graph` itself if none does."""
    by_kind: dict[type[Prim], list[Rule]] = {}
    for rule in rules:
        by_kind.setdefault(_head(rule).kind, []).append(rule)
    fitting: dict[Prim, list[Rule]] = {}  # most values are made by a few primitives, which most rules exclude

    def change(value: Value) -> Value:
        op = value.op
        if type(op) in by_kind and op not in fitting:
            fitting[op] = [r for r in by_kind[type(op)] if _attributes(_head(r), op, {})]
        return _first(fitting.get(op, ()), value)

    done: dict[Value, Value] = {}
    for _, value in graph.outputs:
        _settle(value, change, done)
    return _moved(graph, done)


def _head(rule: Rule) -> Op:
    pattern = _pattern(rule.find)
    assert isinstance(pattern, Op), f"rule {rule.name!r} would match everything"
    return pattern


def _first(rules: Iterable[Rule], value: Value) -> Value:
    for rule in rules:
        replacement = rule.apply(value)
        if isinstance(replacement, Value) and replacement != value:
            return replacement
    return value


def transformed(graph: Graph, change: Callable[[Value, Value], Value]) -> Graph:
    """`graph` with every value replaced by `change(value, the same on changed operands)`; `graph` itself if
    nothing changes."""
    done: dict[Value, Value] = {}
    for value in graph.values:
        done[value] = change(value, with_args(value, [done[a] for a in value.args]))
    return _moved(graph, done)


def in_regions(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """`graph` with every region changed, those within it first; `graph` itself when nothing changes."""
    done: dict[Graph, Graph] = {}

    def inside(_: Value, new: Value) -> Value:
        op = with_regions(new.op, done.__getitem__)
        return new if op is new.op else apply_all(op, *new.args)[new.index]

    _, *regions = nested(graph)
    for region in reversed(regions):
        done[region] = change(transformed(region, inside))
    return transformed(graph, inside) if regions else graph


def _moved(graph: Graph, done: Mapping[Value, Value]) -> Graph:
    """The graph whose values were replaced by `done`; a name moves to the replacement of its value."""
    outputs = tuple((name, done[value]) for name, value in graph.outputs)
    if outputs == graph.outputs:
        return graph
    names = {v: name for v, name in graph.names.items() if done.get(v, v) == v}
    for value, name in graph.names.items():
        names.setdefault(done.get(value, value), name)
    makers = {}
    for (name, old), (_, new) in zip(graph.outputs, outputs, strict=True):
        maker = graph.makers.get(name, graph.names.get(old))
        if maker not in (None, names.get(new)):
            makers[name] = maker
    return Graph(graph.inputs, outputs, names, graph.symbols, makers, graph.updates)


def _settle(root: Value, change: Callable[[Value], Value], done: dict[Value, Value]) -> None:
    """Fill `done` for `root` and what it needs, with a stack: graphs are deeper than Python recurses."""
    todo, now, turns = [root], dict[Value, Value](), dict[Value, int]()
    while todo:
        value = todo[-1]
        form = now.get(value, value)  # its current replacement
        missing = [a for a in form.args if a not in done]
        if value in done or missing:
            todo = todo[:-1] if value in done else todo + missing
            continue
        rebuilt = with_args(form, [done[a] for a in form.args])
        next_form = change(rebuilt)
        turns[value] = turns.get(value, 0) + 1
        assert turns[value] < MOST, f"rewriting {value} does not end"
        if next_form == form or next_form in done:
            done[value] = done.get(next_form, next_form)
            done.setdefault(done[value], done[value])
        now[value] = next_form


def with_args(value: Value, args: Sequence[Value]) -> Value:
    """The same result of the same primitive on other operands."""
    return value if tuple(args) == value.args else apply_all(value.op, *args)[value.index]
