"""The positions of the largest or smallest elements along an axis, in order.

>>> Ranked(1, 2, largest=True).ref((np.array([[1, 5, 3, 5]]),), (1, 2)).tolist()  # the first of equals first
[[1, 3]]

Nothing is sorted as a whole. Elements are distributed to twice as many lanes as are requested, and the best
element of each lane is kept: at least the requested number of lanes then hold something as good as the last
of these, which is determined bit by bit. Then elements are examined in blocks, and a block that contains
something as good appends it to a list. In most orders, such as random and ascending ones, the list ends with
a few more entries than requested, and is sorted once. If it is full earlier, it is sorted, and only the best
are kept: in the worst case each element is sorted once, among as many others as are kept. Short lists are
sorted by counting the entries before each one, long ones by radix sort of integers in the order of the
elements. For a single best element, only its position is searched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from anyrt.core.dims import Dim, Sym, add, always_le, ceildiv, floordiv, maximum, mod, mul
from anyrt.core.enums import DataType
from anyrt.core.errors import ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.buffer import BITS, COMPUTED, Buffer, Scalar
from anyrt.ir.compute import Compute, Extern
from anyrt.ir.graph import Type
from anyrt.ir.kernel import (
    Alloc,
    Expr,
    Fold,
    For,
    If,
    Let,
    Loop,
    Op,
    Stmt,
    Store,
    alu,
    bitcast,
    bound,
    cast,
    const,
    index,
    load,
    select,
)
from anyrt.ir.prim import Array, Making, Prim, Read
from anyrt.prims._check import check_axis, check_type, expect, show

RANKED: Final = frozenset(
    {DataType.DOUBLE, DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.INT32, DataType.INT64}
)
BLOCK: Final = 64  # elements that are examined together
FOUND: Final = 6  # elements of a block that are searched for, instead of comparing all of them one by one
LEAST: Final = 16  # entries: a shorter list is not worth sorting
FEW: Final = 192  # of a list that is sorted by counting the entries before each one
DIGIT: Final = 8  # bits
DIGITS: Final = 1 << DIGIT
NORMAL: Final = 2.0**-126
HIGH: Final = {Scalar.I32: (1 << 31) - 1, Scalar.I64: (1 << 63) - 1}


@dataclass(frozen=True, slots=True)
class Ranked(Prim):
    """The positions of the `count` largest or smallest elements along `axis`, in order. Of equal ones, as 0
    and -0 are, the first comes first; NaN comes behind all numbers."""

    axis: int
    count: Dim
    largest: bool

    def compute(self) -> Compute:
        """Statements for all elements along the axis."""
        return Extern((self.axis,), again=True)

    def infer(self, args: tuple[Type, ...]) -> Type:
        """As many int32 along the axis."""
        expect(args, 1, "ranked")
        (x,) = args
        check_type(x.dtype, RANKED, "ranked")
        check_axis(self.axis, x.rank, "ranked")
        size = x.shape[self.axis]
        if always_le(add(size, 1), self.count):
            got = f"{self.count} of the {size} elements along axis {self.axis} of {show(x.shape)}"
            raise ShapeError("AR132", "ranked", got=got, wanted=f"at most {size}")
        shape = (*x.shape[: self.axis], self.count, *x.shape[self.axis + 1 :])
        return Type(shape, DataType.INT32)

    def requires(self, args: tuple[Type, ...], where: str) -> tuple[Requirement, ...]:
        """At most as many as there are."""
        size = args[0].shape[self.axis]
        if always_le(self.count, size):
            return ()
        do = f"ask for no more elements than axis {self.axis} has"
        return (Requirement(self.count, Relation.LE, size, "AR132", where, do),)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """A stable sort of keys in the order of the elements."""
        (x,) = args
        order = np.argsort(self.ordered(x), axis=self.axis, kind="stable")
        return np.take(order, range(out[self.axis]), self.axis).astype(np.int32)

    def ordered(self, x: Array) -> Array:
        """Integers in the order of the elements."""
        if x.dtype.kind == "f":
            return np.negative(x) if self.largest else x  # NaN is last in both orders
        return np.invert(x) if self.largest else x

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """Never called: no element is computed by itself."""
        raise AssertionError("a ranking is not one expression; it is written as statements")

    def write(
        self, out: Type, args: tuple[Read, ...], item: tuple[Dim, ...], make: Making
    ) -> tuple[Stmt, ...]:
        """The list filled, sorted, and truncated as elements are appended."""
        x, along = args[0], args[0].type.shape[self.axis]
        enough = maximum(mul(self.count, 2), LEAST)
        is_short = always_le(along, mul(enough, 2))
        room = along if is_short else add(enough, BLOCK)
        task = _Task(self, x, item, make, _List.of(make, COMPUTED[x.type.dtype], room))
        if self.count == 1:
            return task.first(along)
        step = make.var(self.count)
        result = For(step, Loop.SERIAL, (task.result(step.dim, load(task.list.places, step.dim)),))
        if is_short:
            return (*task.filled(along), *task.list.sorted(make, along), result)
        return (*task.searched(along, enough), result)


@dataclass(frozen=True, slots=True)
class _List:
    """Keys in the order of the elements, with their positions, and a second copy for sorting. Positions
    ascend among equal keys."""

    keys: Buffer
    places: Buffer
    moved_keys: Buffer
    moved_places: Buffer
    extra: Buffer  # ranks, or how often each digit occurs
    few: bool

    @staticmethod
    def of(make: Making, kind: Scalar, room: Dim) -> _List:
        """An empty one with `room` for elements that are computed as `kind`."""
        key, few = Scalar.I64 if kind in (Scalar.I64, Scalar.F64) else Scalar.I32, always_le(room, FEW)
        pairs = [make.scratch(k, room) for k in (key, Scalar.I32) * 2]
        extra = make.scratch(Scalar.I32, room if few else BITS[key] // DIGIT * DIGITS)
        return _List(pairs[0], pairs[1], pairs[2], pairs[3], extra, few)

    @property
    def kind(self) -> Scalar:
        """Of keys."""
        return self.keys.stored

    def sorted(self, make: Making, length: Dim) -> tuple[Stmt, ...]:
        """The first `length` entries sorted."""
        return self._by_ranks(make, length) if self.few else self._by_digits(make, length)

    def _by_ranks(self, make: Making, length: Dim) -> tuple[Stmt, ...]:
        """Each entry moves to the number of entries before it."""
        one, other, again = (make.var(length) for _ in range(3))
        before = make.register(Scalar.I32)
        a, b = load(self.keys, other.dim), load(self.keys, one.dim)
        tie = alu(Op.EQ, a, b) & (load(self.places, other.dim) < load(self.places, one.dim))
        counted = Fold(before, Op.ADD, select(alu(Op.OR, a < b, tie), const(1, Scalar.I32), 0))
        ranks = (
            Alloc(before, const(0, Scalar.I32)),
            For(other, Loop.SERIAL, (counted,)),
            Store(self.extra, one.dim, load(before, 0)),
        )
        item, rank = make.var(length), make.var(self.keys.size)
        rank_of_item = bound(load(self.extra, item.dim), 0, HIGH[Scalar.I32], "rank", self.keys.size)
        moved = (Let(rank, rank_of_item), *self._move(item.dim, rank.dim, forth=True))
        return (
            For(one, Loop.SERIAL, ranks),
            For(item, Loop.SERIAL, moved),
            For(again, Loop.SERIAL, self._move(again.dim, again.dim, forth=False)),
        )

    def _move(self, source: Dim, to: Dim, forth: bool) -> tuple[Stmt, ...]:
        pairs = ((self.keys, self.moved_keys), (self.places, self.moved_places))
        turned = pairs if forth else tuple((b, a) for a, b in pairs)
        return tuple(Store(b, to, load(a, source)) for a, b in turned)

    def _by_digits(self, make: Making, length: Dim) -> tuple[Stmt, ...]:
        """By each digit, the lowest first, preserving the order of equal ones: an even number of times, so
        that entries return to their array."""
        count = BITS[self.kind] // DIGIT
        clear, item = make.var(count * DIGITS), make.var(length)
        zero = Store(self.extra, clear.dim, const(0, Scalar.I32))
        cells = [add(self._digit(self.keys, item.dim, n), n * DIGITS) for n in range(count)]
        counted = tuple(Store(self.extra, c, load(self.extra, c) + 1) for c in cells)
        turns = (self._turn(make, length, n) for n in range(count))
        return (
            For(clear, Loop.SERIAL, (zero,)),
            For(item, Loop.SERIAL, counted),
            *(stmt for turn in turns for stmt in turn),
        )

    def _digit(self, keys: Buffer, item: Dim, n: int) -> Dim:
        """The n-th digit of a key; in the sign's digit, the upper half represents nonnegative keys."""
        shifted = alu(Op.LSHR, load(keys, item), const(n * DIGIT, self.kind)) & (DIGITS - 1)
        turned = shifted ^ (DIGITS >> 1) if (n + 1) * DIGIT == BITS[self.kind] else shifted
        return bound(turned, 0, DIGITS - 1, "digit", DIGITS)

    def _turn(self, make: Making, length: Dim, n: int) -> tuple[Stmt, ...]:
        """Where entries with each digit begin, and each entry there."""
        forth = n % 2 == 0
        digit, item, to = make.var(DIGITS), make.var(length), make.var(self.keys.size)
        sum, here = make.register(Scalar.I32), make.register(Scalar.I32)
        at = add(digit.dim, n * DIGITS)
        begins = (
            Alloc(here, load(self.extra, at)),
            Store(self.extra, at, load(sum, 0)),
            Fold(sum, Op.ADD, load(here, 0)),
        )
        cell = add(self._digit(self.keys if forth else self.moved_keys, item.dim, n), n * DIGITS)
        place = bound(load(self.extra, cell), 0, HIGH[Scalar.I32], "to", self.keys.size)
        body = (
            Let(to, place),
            *self._move(item.dim, to.dim, forth),
            Store(self.extra, cell, load(self.extra, cell) + 1),
        )
        return (
            Alloc(sum, const(0, Scalar.I32)),
            For(digit, Loop.SERIAL, begins),
            For(item, Loop.SERIAL, body),
        )


@dataclass(frozen=True, slots=True)
class _Task:
    """The parts of the statements of an item."""

    prim: Ranked
    x: Read
    item: Sequence[Dim]
    make: Making
    list: _List

    def filled(self, count: Dim) -> tuple[Stmt, ...]:
        """The first elements in the list."""
        step = self.make.var(count)
        place = cast(index(step.dim), Scalar.I32)
        stored = (
            Store(self.list.keys, step.dim, self._key(self._at(step.dim))),
            Store(self.list.places, step.dim, place),
        )
        return (For(step, Loop.SERIAL, stored),)

    def first(self, along: Dim) -> tuple[Stmt, ...]:
        """The best element: its key, and the first position of it."""
        one, again, kind = self.make.var(along), self.make.var(along), self.list.kind
        best, place = self.make.register(kind), self.make.register(Scalar.I32)
        none, here = const(HIGH[Scalar.I32], Scalar.I32), cast(index(again.dim), Scalar.I32)
        is_best = alu(Op.EQ, self._key(self._at(again.dim)), load(best, 0))
        return (
            Alloc(best, const(HIGH[kind], kind)),
            For(one, Loop.SERIAL, (Fold(best, Op.MIN, self._key(self._at(one.dim))),)),
            Alloc(place, none),
            For(again, Loop.SERIAL, (Fold(place, Op.MIN, select(is_best, here, none)),)),
            self.result(0, load(place, 0)),
        )

    def _index(self, place: Dim) -> tuple[Dim, ...]:
        axis = self.prim.axis
        return (*self.item[:axis], place, *self.item[axis + 1 :])

    def result(self, rank: Dim, place: Expr) -> Stmt:
        """A position stored."""
        return self.make.store(self._index(rank), place)

    def _at(self, place: Dim) -> Expr:
        return self.x.at(self._index(place))

    def _key(self, x: Expr) -> Expr:
        """An integer in the order of elements; the highest one for NaN."""
        if not x.type.is_float:
            return x ^ -1 if self.prim.largest else x
        kind = self.list.kind
        turned = _turned(bitcast(x + 0.0, kind))  # -0 + 0 is 0
        return select(alu(Op.EQ, x, x), turned ^ -1 if self.prim.largest else turned, HIGH[kind])

    def _element(self, key: Expr) -> Expr:
        """What has this key; of NaN's, NaN."""
        bits = key ^ -1 if self.prim.largest else key
        if not self.kind.is_float:
            return bits
        nan = alu(Op.EQ, key, const(HIGH[self.list.kind], self.list.kind))
        return select(nan, float("nan"), bitcast(_turned(bits), self.kind))

    @property
    def kind(self) -> Scalar:
        """Of elements, as they are computed with."""
        return COMPUTED[self.x.type.dtype]

    def searched(self, along: Dim, enough: Dim) -> tuple[Stmt, ...]:
        """Elements as good as a first bound appended, and the list sorted whenever it has `enough` entries,
        and at the end."""
        make = self.make
        turn = make.var(add(floordiv(along, BLOCK), 2))
        i32 = Scalar.I32
        best = _Best(*(make.register(k) for k in (i32, self.list.kind, self.kind, i32, i32)))
        start = mul(turn.dim, BLOCK)
        body = (
            If(self._is_enough(best, turn, along, enough), (self._completed(best, along), *self._cut(best))),
            Alloc(best.seen, const(0, i32)),
            If(index(turn.dim) < index(floordiv(along, BLOCK)), (self._look(best, start),)),
            *self._search(best, start),
            *self._compare(best, start, turn, along),
        )
        return (
            Alloc(best.held, const(0, i32)),
            *self._bounded(best, along),
            For(turn, Loop.SERIAL, body),
        )

    def _bounded(self, best: _Best, along: Dim) -> tuple[Stmt, ...]:
        """At least the requested number of elements are no worse than the last requested one of the best
        lanes: an element counts if it is before the next worse key."""
        make, lanes = self.make, mul(ceildiv(mul(self.prim.count, 2), BLOCK), BLOCK)
        best_lanes = make.scratch(self.kind, lanes)
        first, lane, last = (make.var(lanes) for _ in range(3))
        turn = make.var(floordiv(along, lanes))
        worst = const(_worst(self.kind, self.prim.largest), self.kind)
        here, one = load(best_lanes, lane.dim), self._at(add(mul(turn.dim, lanes), lane.dim))
        is_better = here < one if self.prim.largest else one < here
        dealt = For(lane, Loop.SERIAL, (Store(best_lanes, lane.dim, select(is_better, one, here)),))
        key = Store(self.list.keys, last.dim, self._key(load(best_lanes, last.dim)))
        bits, high = make.register(self.list.kind), HIGH[self.list.kind]
        bound_key = load(bits, 0) ^ (-high - 1)
        return (
            For(first, Loop.SERIAL, (Store(best_lanes, first.dim, worst),)),
            For(turn, Loop.SERIAL, (dealt,)),
            For(last, Loop.SERIAL, (key,)),
            *self._decided(bits, lanes),
            Alloc(best.last, alu(Op.MIN, bound_key, const(high - 1, self.list.kind)) + 1),
            Alloc(best.least, self._below(self._element(load(best.last, 0)))),
        )

    def _below(self, x: Expr) -> Expr:
        """An element, or one that ranks just behind it: −0, which is next to 0, is equal."""
        if not self.kind.is_float:
            return x
        is_zero = alu(Op.EQ, x, const(0.0, self.kind))
        return select(is_zero, -NORMAL if self.prim.largest else NORMAL, x)

    def _decided(self, bits: Buffer, lanes: Dim) -> tuple[Stmt, ...]:
        """The bits of the last requested key of those listed, the highest first: the lowest key is 0. A bit
        is set unless as many keys as are requested are below it."""
        make, kind = self.make, self.list.kind
        lowest = const(-HIGH[kind] - 1, kind)
        step, lane = make.var(BITS[kind]), make.var(lanes)
        tried, below = make.register(kind), make.register(Scalar.I32)
        bit = alu(Op.LSHR, lowest, cast(index(step.dim), kind))
        is_below = load(self.list.keys, lane.dim) < (load(tried, 0) ^ lowest)
        is_few = cast(load(below, 0), Scalar.I64) < index(self.prim.count)
        body = (
            Alloc(tried, load(bits, 0) | bit),
            Alloc(below, const(0, Scalar.I32)),
            For(lane, Loop.SERIAL, (Fold(below, Op.ADD, select(is_below, const(1, Scalar.I32), 0)),)),
            Store(bits, 0, select(is_few, load(tried, 0), load(bits, 0))),
        )
        return Alloc(bits, const(0, kind)), For(step, Loop.SERIAL, body)

    def _completed(self, best: _Best, along: Dim) -> Stmt:
        """The first elements with the highest key, of NaN, which no bound includes, if fewer others than
        requested were found."""
        step, to = self.make.var(along), self.make.var(self.list.keys.size)
        high, held = const(HIGH[self.list.kind], self.list.kind), load(best.held, 0)
        is_short = cast(held, Scalar.I64) < index(self.prim.count)
        is_last = alu(Op.EQ, self._key(self._at(step.dim)), high)
        body = (
            Let(to, bound(held, 0, HIGH[Scalar.I32], "held", self.list.keys.size)),
            Store(self.list.keys, to.dim, high),
            Store(self.list.places, to.dim, cast(index(step.dim), Scalar.I32)),
            Store(best.held, 0, held + select(alu(Op.AND, is_last, is_short), const(1, Scalar.I32), 0)),
        )
        return If(is_short, (For(step, Loop.SERIAL, body),))

    def _is_enough(self, best: _Best, turn: Sym, along: Dim, enough: Dim) -> Expr:
        many = index(enough) <= cast(load(best.held, 0), Scalar.I64)
        end = alu(Op.EQ, index(turn.dim), index(add(floordiv(along, BLOCK), 1)))
        return alu(Op.OR, end, many)

    def _cut(self, best: _Best) -> tuple[Stmt, ...]:
        """The list sorted, of which the best are kept."""
        room = add(self.list.keys.size, 1)
        length = self.make.var(room)
        worst = load(self.list.keys, add(self.prim.count, -1))
        return (
            Let(length, bound(load(best.held, 0), 0, HIGH[Scalar.I32], "held", room)),
            *self.list.sorted(self.make, length.dim),
            Store(best.held, 0, cast(index(self.prim.count), Scalar.I32)),
            Store(best.last, 0, worst),
            Store(best.least, 0, self._element(worst)),
        )

    def _is_behind(self, best: _Best, place: Dim) -> Expr:
        """Whether an element is certainly no better than the last one that is kept; never certain for NaN."""
        pair = (self._at(place), load(best.least, 0))
        return alu(Op.LE, *(pair if self.prim.largest else reversed(pair)))

    def _look(self, best: _Best, start: Dim) -> Stmt:
        """How many elements of the block may be better."""
        lane = self.make.var(BLOCK)
        behind = self._is_behind(best, add(start, lane.dim))
        return For(lane, Loop.SERIAL, (Fold(best.seen, Op.ADD, select(behind, const(0, Scalar.I32), 1)),))

    def _search(self, best: _Best, start: Dim) -> tuple[Stmt, ...]:
        """A few of them, one after the other."""
        few, lane, there = self.make.var(FOUND + 1), self.make.var(BLOCK), self.make.var(BLOCK)
        step, next = self.make.var(few.dim), self.make.register(Scalar.I32)
        seen, here = load(best.seen, 0), cast(index(lane.dim), Scalar.I32)
        count = select(const(FOUND, Scalar.I32) < seen, 0, seen)
        behind = alu(Op.OR, self._is_behind(best, add(start, lane.dim)), here <= load(best.place, 0))
        nearest = Fold(next, Op.MIN, select(behind, const(BLOCK - 1, Scalar.I32), here))
        body = (
            Alloc(next, const(BLOCK - 1, Scalar.I32)),
            For(lane, Loop.SERIAL, (nearest,)),
            Let(there, bound(load(next, 0), 0, BLOCK - 1, "next", BLOCK)),
            *self._append(best, add(start, there.dim)),
            Store(best.place, 0, load(next, 0)),
        )
        return (
            Alloc(best.place, const(-1, Scalar.I32)),
            Let(few, bound(count, 0, FOUND, "few")),
            For(step, Loop.SERIAL, body),
        )

    def _compare(self, best: _Best, start: Dim, turn: Sym, along: Dim) -> tuple[Stmt, ...]:
        """All elements of a block that has many, or of an incomplete block."""
        many = self.make.var(BLOCK + 1)
        step, whole, here = self.make.var(many.dim), index(floordiv(along, BLOCK)), index(turn.dim)
        seen = const(FOUND, Scalar.I32) < load(best.seen, 0)
        left = select(alu(Op.EQ, here, whole), index(mod(along, BLOCK)), 0)
        count = select(here < whole, select(seen, const(BLOCK, Scalar.I64), 0), left)
        return (
            Let(many, bound(count, 0, BLOCK, "many")),
            For(step, Loop.SERIAL, self._append(best, add(start, step.dim))),
        )

    def _append(self, best: _Best, place: Dim) -> tuple[Stmt, ...]:
        """An element written behind the list, whose length grows if the element is better."""
        to = self.make.var(self.list.keys.size)
        key = self._key(self._at(place))
        longer = select(key < load(best.last, 0), const(1, Scalar.I32), 0)
        return (
            Let(to, bound(load(best.held, 0), 0, HIGH[Scalar.I32], "held", self.list.keys.size)),
            Store(self.list.keys, to.dim, key),
            Store(self.list.places, to.dim, cast(index(place), Scalar.I32)),
            Store(best.held, 0, load(best.held, 0) + longer),
        )


@dataclass(frozen=True, slots=True)
class _Best:
    """Registers: the length of the list, the key of the last entry that is kept, and its element; the number
    of candidates in a block, and the position of the last one."""

    held: Buffer
    last: Buffer
    least: Buffer
    seen: Buffer
    place: Buffer


def _worst(kind: Scalar, is_largest: bool) -> float:
    """The worst number."""
    worst = math.inf if kind.is_float else HIGH[kind]
    if is_largest:
        return -worst if kind.is_float else -worst - 1
    return worst


def _turned(bits: Expr) -> Expr:
    """The bits of floats as integers in the order of the floats, and the inverse."""
    return bits ^ ((bits >> BITS[bits.type] - 1) & HIGH[bits.type])
