"""Loop: a part of the network that is computed repeatedly, from the results of the iteration before.

loop = network.add_loop()
total = loop.add_recurrence(zero)
each = loop.add_iterator(rows)                   # one row per iteration
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

MAX_TRIPS = 1_000_000  # default of `max_trips` for a loop without COUNT
FLAG, COUNTER = DataType.BOOL, DataType.INT64


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A value that is passed from one iteration to the next: `inner` in the loop, initially `first`."""

    where: str
    inner: Value
    first: Value
    next: Value

    def of_one_shape(self) -> Recurrence:
        """The recurrence, with its next value checked to have the shape of the first one."""
        first, following = self.first.type, self.next.type
        if first == following:
            return self
        got, wanted = f"{following} for the next iteration", f"{first}, as in the first one"
        do = "give both inputs of the recurrence the same shape and type"
        if (first.rank, first.dtype) != (following.rank, following.dtype):
            raise ShapeError("AR123", self.where, got, wanted, do)
        pairs = [(a, b) for a, b in zip(following.shape, first.shape, strict=True) if a != b]
        rules = [x for a, b in pairs for x in need(self.where, a, Relation.EQ, b, "AR123", got, wanted, do)]
        same = slice_(checked(self.next, rules), (0,) * first.rank, first.shape, (1,) * first.rank)
        return replace(self, next=same)


@dataclass(frozen=True, slots=True)
class Iterated:
    """A slice of a tensor for each iteration, `inner`; `backwards`: from the last slice to the first."""

    where: str
    inner: Value
    tensor: Value
    axis: int
    backwards: bool


@dataclass(frozen=True, slots=True)
class Output:
    """An output: the last value, or the values of all iterations along a new `axis`. Its size is `length`, or
    the number of iterations if that is None. `tells`: the values that compute the length."""

    where: str
    value: Value
    kind: LoopOutput
    axis: int
    length: Dim | None
    tells: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop, as its layers describe it. It ends after `count` iterations, or when `condition`, which is
    evaluated before each iteration, is false."""

    where: str
    count: Value | None
    condition: Value | None
    recurrences: Sequence[Recurrence]
    iterated: Sequence[Iterated]
    outputs: Sequence[Output]
    max_trips: int = MAX_TRIPS
    name: str = ""

    def values(self, network: Network) -> Results:
        """The outputs in the enclosing network."""
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
        """The loop with its number of iterations as a dimension. If a condition limits it, a first loop
        without these outputs counts the iterations."""
        size, (turns, tells) = open_count(f"{self.name or self.where}: turns"), self._turns(network)
        trips = apply(Count(size), turns)
        outputs = [
            replace(x, length=size.dim, tells=(trips,)) if x.length is None else x for x in self.outputs
        ]
        return replace(self, count=trips, condition=None, outputs=outputs), (trips, *tells)

    def _turns(self, network: Network) -> tuple[Value, tuple[Value, ...]]:
        """The number of iterations, and the values that compute the dimensions for it."""
        if self.condition is None:
            assert self.count is not None, "a loop without limits was rejected"
            count = cast(self.count, COUNTER)
            return map_("max", count, scalar(0, count)), ()
        turn = param("\0turns", (), COUNTER)
        more = Recurrence(self.where, turn, scalar(0, turn), map_("add", turn, scalar(1, turn)))
        counter = Output(self.where, turn, LoopOutput.LAST_VALUE, 0, 0)
        results = replace(self, recurrences=[*self.recurrences, more], outputs=[counter]).values(network)
        return results.values[0], results.tells

    def _turn(self, counter: Value, network: Network) -> _Turn:
        """The values that an iteration computes from the states."""
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
        """The maximum number of iterations, if dimensions determine it."""
        elements = None if self.count is None else known(self.count)
        return None if elements is None else elements.reshape(-1)[0]

    def _conditions(self) -> list[Value]:
        return [] if self.condition is None else [self.condition]

    def _check(self) -> None:
        """Check that the loop has a limit, and a condition that is known before the iteration."""
        if self.count is None and self.condition is None:
            do = "add one with loop.add_trip_limit"
            raise GraphError("AR411", self.where, "no trip limit", "a COUNT, a WHILE, or both", do)
        if self.condition is not None:
            slices = [x.inner for x in self.iterated]
            if self.condition in depending([self.condition], slices) and slices:
                got, do = "a condition that depends on an iterator", "compute it from recurrences"
                raise GraphError("AR411", self.where, got, "one that is known before the iteration", do)

    def _goes_on(self, at: Mapping[Value, Value], turn: _Turn, which: str) -> tuple[Value, Tells]:
        """Whether these states start an iteration, and the values that compute the dimensions for it."""
        counter, *_ = at.values()
        asked, tells = self._asked(at, turn, which)
        limit = scalar(self.max_trips, counter) if self.count is None else cast(self.count, COUNTER)
        asked.append(map_("lt", counter, limit))
        return asked[0] if len(asked) == 1 else map_("and", *asked), tells

    def _asked(self, at: Mapping[Value, Value], turn: _Turn, which: str) -> tuple[list[Value], Tells]:
        """The condition for these states, and its dimensions, which differ from those in the iteration."""
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
        """The outputs, with assertions that the loop has ended and that concatenated values had space; and
        the values that compute the dimensions for these."""
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
            do = "raise the loop's max_trips, or change its WHILE limit"
            rule = Assertion("AR412", self.where, "more than {} iterations", f"at most {self.max_trips}", do)
            yield from ((rule, again) for again in asked)

    def _crowded(self, x: _Left, trips: Value) -> Iterator[tuple[Assertion, Value]]:
        if x.collects and self._certain() != x.of.length and x.of.length is not None:
            do = "increase the length of the loop output"
            rule = Assertion("AR413", x.of.where, "{} iterations", f"at most {x.of.length!r}", do)
            yield rule, map_("lt", number(x.of.length, trips), trips)


@dataclass(frozen=True, slots=True)
class _Turn:
    """An iteration's results. done: values of layers, computed on slices; tells: values that compute
    dimensions; whole: outputs; open: their axes with dimensions that are data-dependent `inside` each
    iteration."""

    done: Mapping[Value, Value]
    tells: Tells
    whole: Sequence[Output]
    open: Sequence[Sequence[int]]
    inside: frozenset[Sym]

    @property
    def outputs(self) -> Iterator[Output]:
        """The outputs in the same shape for every iteration: padded to the upper bounds, each followed by its
        actual dimensions."""
        for x, axes in zip(self.whole, self.open, strict=True):
            room = with_room(x.value, without_counts(x.value.shape, self.inside))
            yield replace(x, value=room)
            yield from (replace(x, value=size_of(x.value.shape[axis])) for axis in axes)

    def joined(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """Each of `outputs` with its actual dimensions."""
        left, results = iter(values), list[Value]()
        for x, axes in zip(self.whole, self.open, strict=True):
            value = next(left)
            results.append(without_room(value, {axis: next(left) for axis in axes}, x.where))
        return tuple(results)


def _open_axes(x: Output, inside: frozenset[Sym]) -> Sequence[int]:
    """The axes with data-dependent dimensions in each iteration; concatenated values may have none."""
    axes = [k for k, d in enumerate(x.value.shape) if counts(d) & inside]
    if x.kind is LoopOutput.LAST_VALUE or not (axes or counts(x.length or 0) & inside):
        return axes
    got = f"{x.value.type} in {x.length} iterations, with data-dependent dimensions"
    do = "pad the value to a fixed shape, or reduce it to one number"
    raise ShapeError("AR123", x.where, got, "slices of one shape, known before the loop", do)


@dataclass(frozen=True, slots=True)
class _Left:
    """An output of a loop: an unchanging value, or the last value of a state. `first` and `next` define a
    state that exists only for the output."""

    of: Output
    state: Value | None = None
    first: Value | None = None
    next: Value | None = None

    @staticmethod
    def of_output(x: Output, name: str, counter: Value, inside: Collection[Value]) -> _Left:
        """For a value that is a state, computed `inside` an iteration, or neither; `name`: a unique name."""
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
        """Whether it stores a value for each iteration."""
        return self.of.kind is not LoopOutput.LAST_VALUE

    def result(self, last: Mapping[Value, Value]) -> Value:
        """Its value after the loop."""
        return tied(last.get(self.state or self.of.value, self.of.value), self.of.tells)


def _slice(x: Iterated, counter: Value, turns: Dim | None) -> Value:
    """The slice of an iteration; `Gather` clamps the index. An empty tensor has no slice, and there is no
    iteration if `turns` is the number of slices."""
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
        "COUNT: the number of iterations, int32 or int64; WHILE: a bool, known before each iteration",
        enum=TripLimit,
        read_only=True,
    )


@dataclass(frozen=True, slots=True)
class IteratorAttrs(Attrs):
    """Attributes of an iterator."""

    axis: int = attr(Kind.INT, "the axis that is iterated over, which slices do not have", 0)
    reverse: bool = attr(Kind.BOOL, "from the last slice to the first", False)


@dataclass(frozen=True, slots=True)
class LoopOutputAttrs(Attrs):
    """Attributes of a loop output."""

    kind: LoopOutput = attr(
        Kind.ENUM,
        "LAST_VALUE: the final value; CONCATENATE: the values of all iterations; REVERSE: these reversed",
        enum=LoopOutput,
        read_only=True,
    )
    axis: int = attr(Kind.INT, "the new axis of concatenated values", 0)


def _expand(layer: Layer[Any]) -> NoReturn:  # Any: attributes of any of them
    raise AssertionError(f"{layer.name} is expanded by its loop")


def _ref(attrs: Attrs, arrays: tuple[Array, ...]) -> NoReturn:
    raise AssertionError(f"{attrs} have no reference outside their loop")


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
        "Passes a value from one iteration to the next. It is the initial value in the first iteration, and "
        "afterwards the second input, `set_input(1, ...)`, of the iteration before. Both have the same type "
        "and the same shape, which no iteration changes.",
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
        "Returns one slice of the tensor per iteration, in order. If there are more iterations than slices, "
        "the last slice repeats.",
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
        "Limits the loop: COUNT is the number of iterations, WHILE a condition that must hold, and a loop "
        "may have both. With a count of 0 or less there is no iteration. A loop without COUNT stops after "
        "`max_trips` iterations with the error AR412.",
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
        "Returns a value of the loop: its last value, or its values of all iterations along a new axis. The "
        "second input, `set_input(1, ...)`, is the size of that axis. As an extension, it may be omitted: "
        "the size is then the number of iterations. Elements of iterations that did not run are 0. The last "
        "value of a recurrence is its value for the next iteration; without any iteration, that is the "
        "initial value. Every other last value is then 0. A last value may have a data-dependent dimension, "
        "which is -1 before an inference and 0 without any iteration; concatenated values may not.",
    ),
)
