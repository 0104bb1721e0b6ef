"""Loop: a part of the network that is computed again and again, on what it has made.

loop = network.add_loop()
total = loop.add_recurrence(zero)
each = loop.add_iterator(rows)                   # a row in each turn
total.set_input(1, network.add_elementwise(total.get_output(0), each.get_output(0), SUM).get_output(0))
loop.add_trip_limit(count, TripLimit.COUNT)
y = loop.add_loop_output(total.get_output(0), LoopOutput.LAST_VALUE).get_output(0)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from anyrt.core.counts import counts, open_count
from anyrt.core.dims import Dim, Sym, always_le
from anyrt.core.enums import DataType, LayerType, LoopOutput, TripLimit
from anyrt.core.errors import GraphError, ShapeError
from anyrt.core.requirement import FINE, Assertion, Relation
from anyrt.ir.graph import Value, apply, apply_all
from anyrt.ir.symbolic import known
from anyrt.ops._check import check_axis, checked, need
from anyrt.ops._elements import tied
from anyrt.ops._math import number
from anyrt.ops._record import AnyOp, Array, Attrs, Input, Kind, Layer, Method, Op, attr
from anyrt.ops._regions import (
    Network,
    Region,
    Results,
    Tells,
    depending,
    replaced,
    size_of,
    telling,
    with_room,
    without_counts,
    without_room,
)
from anyrt.ops._types import EVERY, INTS, PACKED
from anyrt.prims.asserted import Asserted
from anyrt.prims.build import cast, expand, gather, iota, map_, param, reshape, scalar, slice_
from anyrt.prims.const import Param
from anyrt.prims.count import Count
from anyrt.prims.repeated import Repeated

MAX_TRIPS = 1_000_000  # of a loop that no COUNT limits, unless its `max_trips` says otherwise
FLAG, COUNTER = DataType.BOOL, DataType.INT64


@dataclass(frozen=True, slots=True)
class Recurrence:
    """What a layer passes from turn to turn: inside it is `inner`, `first` in the first turn."""

    where: str
    inner: Value
    first: Value
    next: Value

    def of_one_shape(self) -> Recurrence:
        """The same, whose next value has the first one's shape, where that may be."""
        first, following = self.first.type, self.next.type
        if first == following:
            return self
        got, wanted = f"{following} for the next turn", f"{first}, as in the first one"
        do = "give both inputs of the recurrence the same shape and type"
        if (first.rank, first.dtype) != (following.rank, following.dtype):
            raise ShapeError("AR123", self.where, got, wanted, do)
        pairs = [(a, b) for a, b in zip(following.shape, first.shape, strict=True) if a != b]
        rules = [x for a, b in pairs for x in need(self.where, a, Relation.EQ, b, "AR123", got, wanted, do)]
        same = slice_(checked(self.next, rules), (0,) * first.rank, first.shape, (1,) * first.rank)
        return replace(self, next=same)


@dataclass(frozen=True, slots=True)
class Iterated:
    """A slice of a tensor for each turn, `inner`; `backwards`: the last one first."""

    where: str
    inner: Value
    tensor: Value
    axis: int
    backwards: bool


@dataclass(frozen=True, slots=True)
class Output:
    """What leaves a loop: the last value, or those of all turns along a new `axis` of size `length`, which
    is None for as many as there were turns. `tells`: what tells the length."""

    where: str
    value: Value
    kind: LoopOutput
    axis: int
    length: Dim | None
    tells: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop as its layers say: it ends after `count` turns, or when `condition`, which is judged before each
    of them, is false."""

    where: str
    count: Value | None
    condition: Value | None
    recurrences: Sequence[Recurrence]
    iterated: Sequence[Iterated]
    outputs: Sequence[Output]
    max_trips: int = MAX_TRIPS
    name: str = ""

    def values(self, network: Network) -> Results:
        """The outputs in the network around."""
        self._check()
        return replace(self, recurrences=[r.of_one_shape() for r in self.recurrences])._values(network)

    def _values(self, network: Network) -> Results:
        if any(x.length is None for x in self.outputs):
            loop, tells = self._measured(network)
            results = loop.values(network)
            return Results(results.values, (*tells, *results.tells))
        counter = param("\0turn", (), COUNTER)
        inner, turn = [r.inner for r in self.recurrences], self._turn(counter, network)
        left = [
            _Left.of_output(x, f"\0output {n}", counter, depending([x.value], [counter, *inner], turn.tells))
            for n, x in enumerate(turn.outputs)
        ]
        more = [(x.state, x.first, x.next) for x in left if x.state and x.first and x.next]
        states = [counter, *inner, *(state for state, _, _ in more)]
        first = [scalar(0, counter), *(r.first for r in self.recurrences), *(x for _, x, _ in more)]
        nexts = [turn.done[r.next] for r in self.recurrences]
        then = [map_("add", counter, scalar(1, counter)), *nexts, *(x for _, _, x in more)]
        go, before = self._goes_on(dict(zip(states, first, strict=True)), turn, "first")
        again, after = self._goes_on(dict(zip(states, then, strict=True)), turn, "next")
        region = Region(states, {**turn.tells, **after})
        region.inside([again, *then])
        flag = param("\0goes on", (), FLAG)
        ends = [f"state{n}" for n in range(len(states))]
        inputs = [("go", flag), *zip(ends, states, strict=True)]
        called = {new: name for old, new in turn.done.items() if (name := network.names(old)) is not None}
        body = region.graph(inputs, [("go", again), *zip(ends, then, strict=True)], called.get)
        whole = {x.state for x in left if x.collects and x.of.value.dtype not in PACKED}
        updates = tuple((end, end) for end, state in zip(ends, states, strict=True) if state in whole)
        _, *finals = apply_all(
            Repeated(replace(body, updates=updates), self.name), go, *first, *region.around
        )
        last = dict(zip(states, finals, strict=True))
        values, late = self._judged(left, last, turn)
        return Results(turn.joined(values), (*before.values(), *late.values()))

    def _measured(self, network: Network) -> tuple[Loop, tuple[Value, ...]]:
        """The loop for as many turns as it has, which then are a size. A condition says how many only turn by
        turn: a first loop without these outputs counts them."""
        size, (turns, tells) = open_count(f"{self.name or self.where}: turns"), self._turns(network)
        trips = apply(Count(size), turns)
        outputs = [
            replace(x, length=size.dim, tells=(trips,)) if x.length is None else x for x in self.outputs
        ]
        return replace(self, count=trips, condition=None, outputs=outputs), (trips, *tells)

    def _turns(self, network: Network) -> tuple[Value, tuple[Value, ...]]:
        """How many turns there are, and what tells sizes that this needs."""
        if self.condition is None:
            assert self.count is not None, "a loop without limits was refused"
            count = cast(self.count, COUNTER)
            return map_("max", count, scalar(0, count)), ()
        turn = param("\0turns", (), COUNTER)
        more = Recurrence(self.where, turn, scalar(0, turn), map_("add", turn, scalar(1, turn)))
        counter = Output(self.where, turn, LoopOutput.LAST_VALUE, 0, 0)
        results = replace(self, recurrences=[*self.recurrences, more], outputs=[counter]).values(network)
        return results.values[0], results.tells

    def _turn(self, counter: Value, network: Network) -> _Turn:
        """What a turn computes from the states."""
        slices = {x.inner: _slice(x, counter, self._certain()) for x in self.iterated}
        roots = [*(r.next for r in self.recurrences), *(x.value for x in self.outputs), *self._conditions()]
        tells = telling(roots, network)
        done = replaced([*roots, *tells.values()], slices)
        tells = {sym: done[value] for sym, value in tells.items()}
        dynamic = depending([], [counter, *(r.inner for r in self.recurrences)], tells)
        inside = frozenset(sym for sym, value in tells.items() if value in dynamic)
        outputs = [replace(x, value=done[x.value]) for x in self.outputs]
        return _Turn(done, tells, outputs, [_open_axes(x, inside) for x in outputs], inside)

    def _certain(self) -> Dim | None:
        """How many turns there are at most, where sizes say."""
        elements = None if self.count is None else known(self.count)
        return None if elements is None else elements.reshape(-1)[0]

    def _conditions(self) -> list[Value]:
        return [] if self.condition is None else [self.condition]

    def _check(self) -> None:
        """What the layers must have, and how they must agree."""
        if self.count is None and self.condition is None:
            do = "add one with loop.add_trip_limit"
            raise GraphError("AR411", self.where, "no trip limit", "a COUNT, a WHILE, or both", do)
        if self.condition is not None:
            slices = [x.inner for x in self.iterated]
            if self.condition in depending([self.condition], slices) and slices:
                got, do = "a condition made of an iterator", "compute it from recurrences"
                raise GraphError("AR411", self.where, got, "one that is known before the turn", do)

    def _goes_on(self, at: Mapping[Value, Value], turn: _Turn, which: str) -> tuple[Value, Tells]:
        """Whether there is a turn on these states, and what tells sizes that this needs."""
        counter, *_ = at.values()
        asked, tells = self._asked(at, turn, which)
        limit = scalar(self.max_trips, counter) if self.count is None else cast(self.count, COUNTER)
        asked.append(map_("lt", counter, limit))
        return asked[0] if len(asked) == 1 else map_("and", *asked), tells

    def _asked(self, at: Mapping[Value, Value], turn: _Turn, which: str) -> tuple[list[Value], Tells]:
        """The condition on these states, and the sizes that it has then, which are others than in a turn."""
        if self.condition is None:
            return [], {}
        condition = turn.done[self.condition]
        needed = telling([condition], Network(lambda value: None, turn.tells.values))
        done = replaced([condition], at, needed, f" ({which} of {self.name})" if self.name else f" ({which})")
        tells = {done[value].op.tells: done[value] for value in needed.values()}
        return [done[condition]], {sym: value for sym, value in tells.items() if sym is not None}

    def _judged(
        self, left: Sequence[_Left], last: Mapping[Value, Value], turn: _Turn
    ) -> tuple[list[Value], Tells]:
        """The outputs, once it is known that the loop has ended, and that there was room for what it
        concatenated; and what tells sizes that this needs."""
        trips = next(iter(last.values()))
        asked, tells = self._asked(last, turn, "last")
        rules = [*self._endless(asked), *(rule for x in left for rule in self._crowded(x, trips))]
        out = []
        for value in (x.result(last) for x in left):
            for rule, wrong in rules:
                value = apply(Asserted(rule), value, map_("select", wrong, trips, scalar(FINE, trips)))
            out.append(value)
        return out, tells

    def _endless(self, asked: Sequence[Value]) -> Iterator[tuple[Assertion, Value]]:
        if self.count is None:
            do = "raise the loop's max_trips, or change what its WHILE limit is made of"
            rule = Assertion("AR412", self.where, "another turn after {}", f"at most {self.max_trips}", do)
            yield from ((rule, again) for again in asked)

    def _crowded(self, x: _Left, trips: Value) -> Iterator[tuple[Assertion, Value]]:
        if x.collects and self._certain() != x.of.length and x.of.length is not None:
            do = "give the loop output a greater length"
            rule = Assertion("AR413", x.of.where, "{} turns", f"at most {x.of.length!r}", do)
            yield rule, map_("lt", number(x.of.length, trips), trips)


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a turn computes: `done`, what values of the layers are on slices; `tells`: what tells sizes; what
    leaves the loop, and along which axes data decide its size `inside`, in each turn anew."""

    done: Mapping[Value, Value]
    tells: Tells
    whole: Sequence[Output]
    open: Sequence[Sequence[int]]
    inside: frozenset[Sym]

    @property
    def outputs(self) -> Iterator[Output]:
        """What leaves the loop, of sizes that no turn decides: with room for the most elements, and behind it
        how many there are."""
        for x, axes in zip(self.whole, self.open, strict=True):
            room = with_room(x.value, without_counts(x.value.shape, self.inside))
            yield replace(x, value=room)
            yield from (replace(x, value=size_of(x.value.shape[axis])) for axis in axes)

    def joined(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """Each of `outputs` of its own sizes."""
        left, results = iter(values), list[Value]()
        for x, axes in zip(self.whole, self.open, strict=True):
            value = next(left)
            results.append(without_room(value, {axis: next(left) for axis in axes}, x.where))
        return tuple(results)


def _open_axes(x: Output, inside: frozenset[Sym]) -> Sequence[int]:
    """The axes whose sizes data decide in each turn: none of what is put side by side."""
    axes = [k for k, d in enumerate(x.value.shape) if counts(d) & inside]
    if x.kind is LoopOutput.LAST_VALUE or not (axes or counts(x.length or 0) & inside):
        return axes
    got = f"{x.value.type} in {x.length} turns, sizes that data decide in each turn"
    do = "pad what a turn makes to a fixed size, or make one number of it"
    raise ShapeError("AR123", x.where, got, "slices of one shape, known before the loop", do)


@dataclass(frozen=True, slots=True)
class _Left:
    """What leaves a loop: the value itself where it stays the same, or the last of a state, which the loop
    has for its sake (`first` and `next`), or anyhow."""

    of: Output
    state: Value | None = None
    first: Value | None = None
    next: Value | None = None

    @staticmethod
    def of_output(x: Output, name: str, counter: Value, inside: Collection[Value]) -> _Left:
        """For a value, which is a state, or made `inside` a turn, or neither; `name`: like no other's."""
        value, shape = x.value, x.value.shape
        if x.kind is LoopOutput.LAST_VALUE:
            if isinstance(value.op, Param) or value not in inside:
                return _Left(x)
            state = param(name, shape, value.dtype)
            return _Left(x, state, expand(scalar(0, value), shape), value)
        check_axis(x.where, x.axis, len(shape) + 1)
        assert x.length is not None, "the loop was measured"
        whole = (*shape[: x.axis], x.length, *shape[x.axis :])
        state = param(name, whole, value.dtype)
        at = counter
        if x.kind is LoopOutput.REVERSE:
            at = map_("sub", map_("sub", number(x.length, counter), scalar(1, counter)), counter)
        here = map_("eq", iota(whole, x.axis, COUNTER), reshape(at, (1,) * len(whole)))
        new = reshape(value, (*shape[: x.axis], 1, *shape[x.axis :]))
        return _Left(x, state, expand(scalar(0, value), whole), map_("select", here, new, state))

    @property
    def collects(self) -> bool:
        """Whether it has a place for each turn."""
        return self.of.kind is not LoopOutput.LAST_VALUE

    def result(self, last: Mapping[Value, Value]) -> Value:
        """What it is in the end."""
        return tied(last.get(self.state or self.of.value, self.of.value), self.of.tells)


def _slice(x: Iterated, counter: Value, turns: Dim | None) -> Value:
    """The slice of a turn: never outside, as `Gather` stays inside. Of an empty tensor there is none, nor is
    there a turn where there are as many `turns` as slices."""
    shape, at = x.tensor.shape, counter
    guarded = turns == shape[x.axis] and not always_le(1, shape[x.axis])
    if x.backwards:
        at = map_("sub", map_("sub", number(shape[x.axis], counter), scalar(1, counter)), counter)
    one = tuple(1 if k == x.axis else d for k, d in enumerate(shape))
    taken = gather(x.tensor, expand(reshape(at, (1,) * len(shape)), one), x.axis, guarded)
    return reshape(taken, (*shape[: x.axis], *shape[x.axis + 1 :]))


@dataclass(frozen=True, slots=True)
class TripLimitAttrs(Attrs):
    """Attributes of a trip limit."""

    kind: TripLimit = attr(
        Kind.ENUM,
        "COUNT: so many turns, an int32 or int64; WHILE: as long as a bool, known before a turn, is true",
        enum=TripLimit,
        read_only=True,
    )


@dataclass(frozen=True, slots=True)
class IteratorAttrs(Attrs):
    """Attributes of an iterator."""

    axis: int = attr(Kind.INT, "the axis that it goes along, which slices do not have", 0)
    reverse: bool = attr(Kind.BOOL, "from the last slice to the first", False)


@dataclass(frozen=True, slots=True)
class LoopOutputAttrs(Attrs):
    """Attributes of a loop output."""

    kind: LoopOutput = attr(
        Kind.ENUM,
        "LAST_VALUE: the one at the end; CONCATENATE: those of all turns; REVERSE: the last one first",
        enum=LoopOutput,
        read_only=True,
    )
    axis: int = attr(Kind.INT, "the new axis of what is concatenated", 0)


def _expand(layer: Layer[Any]) -> NoReturn:  # Any: attributes of any of them
    raise AssertionError(f"{layer.name} means nothing without its loop")


def _ref(attrs: Attrs, arrays: tuple[Array, ...]) -> NoReturn:
    raise AssertionError(f"{attrs} means nothing without its loop")


def _border(
    layer: LayerType,
    method: Method,
    attrs: type[Attrs],
    inputs: tuple[Input, ...],
    doc: str,
    outputs: tuple[str, ...] = ("output",),
) -> AnyOp:
    return Op(
        layer=layer,
        cls=f"I{''.join(x.title() for x in layer.name.split('_'))}Layer",
        methods=(method,),
        inputs=inputs,
        attrs=attrs,
        expand=_expand,
        ref=_ref,
        doc=doc,
        cases=tuple,
        onnx=("Loop", "Scan"),
        outputs=outputs,
        source="operator page Loop",
        within="ILoop",
    )


OPS = (
    _border(
        LayerType.RECURRENCE,
        Method(
            "add_recurrence",
            ("initial_value",),
            example="layer = loop.add_recurrence(zero)\nlayer.set_input(1, next_value)",
        ),
        Attrs,
        (Input("initial_value", EVERY), Input("next_value", EVERY, required=False)),
        "What a turn of the loop passes to the next one: the initial value in the first turn, afterwards the "
        "second input, `set_input(1, ...)`, of the turn before. Both have one shape and type, which no turn "
        "decides.",
    ),
    _border(
        LayerType.ITERATOR,
        Method(
            "add_iterator",
            ("tensor", "axis", "reverse"),
            (("axis", 0), ("reverse", False)),
            example="layer = loop.add_iterator(rows)",
        ),
        IteratorAttrs,
        (Input("tensor", EVERY),),
        "A slice of the tensor in each turn, one after the other; where there are more turns than slices, "
        "the last one again.",
    ),
    _border(
        LayerType.TRIP_LIMIT,
        Method(
            "add_trip_limit",
            ("tensor", "kind"),
            example="loop.add_trip_limit(count, trt.TripLimit.COUNT)",
        ),
        TripLimitAttrs,
        (Input("tensor", INTS | {DataType.BOOL}),),
        "How long the loop goes on: for a number of turns, or as long as a condition holds, or both. A count "
        "of 0 or below is no turn. A loop without COUNT is stopped after its `max_trips` turns, with the "
        "error AR412.",
        outputs=(),
    ),
    _border(
        LayerType.LOOP_OUTPUT,
        Method(
            "add_loop_output",
            ("tensor", "kind", "axis"),
            (("axis", 0),),
            example="layer = loop.add_loop_output(total, trt.LoopOutput.LAST_VALUE)",
        ),
        LoopOutputAttrs,
        (Input("tensor", EVERY), Input("length", INTS, required=False, shape_values=True)),
        "The only way out of a loop: the last value, or those of all turns along a new axis, whose size is "
        "the second input, `set_input(1, ...)`. An extension: without it as many as there were turns. Places "
        "of turns that there were not are 0. The last value of a recurrence is what the next turn would get, "
        "in particular its initial value where there was no turn; that of anything else is 0 then. A last "
        "value may be of a size that data decide in the turn, -1 before a run and 0 where there was no turn; "
        "what is put side by side may not.",
    ),
)
