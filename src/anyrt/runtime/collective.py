"""Collective operations: the eight operations of DistCollective, over any communicator that shares bytes
between ranks.

y = exchange(ranks, Exchange(CollectiveOperation.ALL_REDUCE, ReduceOperation.SUM), x)

Parts are reduced in the order of ranks, identically on every rank, half types in float32 and rounded once:
the same bits on all ranks and in each run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from anyrt.core.collectives import CUT, JOINED, REDUCING, ROOTED, first_size
from anyrt.core.enums import CollectiveOperation, ReduceOperation
from anyrt.core.errors import ArgumentError, ShapeError

Array = NDArray[Any]  # Any: of every type
Bytes = NDArray[np.uint8]
DType = np.dtype[Any]  # Any: as above
Put = Callable[[Sequence[Bytes]], None]
C, R = CollectiveOperation, ReduceOperation
FOLDS: Final = {R.SUM: np.add, R.AVG: np.add, R.PROD: np.multiply, R.MAX: np.maximum, R.MIN: np.minimum}
KEPT: Final = 4  # lists of pieces whose parts a form caches: a communicator uses a few in turn


@runtime_checkable
class Communicator(Protocol):
    """A process among `size` that exchange arrays."""

    @property
    def rank(self) -> int:
        """Its number, from 0."""

    @property
    def size(self) -> int:
        """How many there are."""

    @property
    def chunk(self) -> int:
        """The most bytes of one `share`, a multiple of 64."""

    def share(self, text: bytes, piece: Bytes, members: Sequence[int]) -> Sequence[Bytes]:
        """The pieces of all members, in their order, valid until `release`. `text`, 32 bytes, must be the
        same on all of them: ArgumentError AR304 on each if it is not. ResourceError AR811 on each that waits
        for a rank that has ended, or longer than the time limit."""

    def release(self, members: Sequence[int]) -> None:
        """The caller of `share` has finished reading."""


@runtime_checkable
class Repeats(Protocol):
    """A communicator that is faster if memory stays the same."""

    def repeat(
        self, text: bytes, piece: Bytes, members: Sequence[int], total: Array | None, put: Put
    ) -> Callable[[], None] | None:
        """`share` and `release` for this memory, None if that would not be faster. A call raises the errors
        of `share`. It stores the sum of the pieces in `total`, or calls `put` with them, always if `total` is
        None."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """The operation; `root` sends or receives, if there is one; `group` takes part, None: all."""

    operation: CollectiveOperation
    fold: ReduceOperation = R.NONE
    root: int = -1
    group: tuple[int, ...] | None = None


def exchange(ranks: Communicator, what: Exchange, x: Array) -> Array:
    """The result of this rank, as a new array; an `Exchanger` is faster if it is repeated.

    For REDUCE and GATHER, ranks other than the root keep their operand. Arrays are split and joined along
    axis 0; all members pass arrays of one type and shape."""
    return Exchanger(ranks, what)(x)


class Exchanger:
    """A repeated operation on arrays of any shapes and types, each checked once."""

    def __init__(self, ranks: Communicator, what: Exchange) -> None:
        self.ranks, self.what = ranks, what
        self.members = tuple(range(ranks.size)) if what.group is None else tuple(what.group)
        _check(ranks, what, self.members)
        self._forms = dict[tuple[tuple[int, ...], DType], Form]()
        self._last: _Bound | None = None
        self._repeat: Callable[[], None] | None = None  # of the last arrays, once they were passed again

    def __call__(self, x: Array, out: Array | None = None) -> Array:
        """The result of this rank, see `exchange`. `out`: a contiguous array for it, which ALL_REDUCE may
        share with `x`; ArgumentError AR304 if its shape or type is another one. None: a new array. Passing
        the same two arrays again takes least time."""
        last = self._last
        if last is None or last.x is not x or last.out is not out or out is None:
            last, self._repeat = self._bound(x, out), None
            last.form.run(self.ranks, last.data, last.flat)
        else:
            if self._repeat is None:
                self._repeat = last.form.repeated(self.ranks, last.data, last.flat)
            self._repeat()
        if last.form.is_aside:
            np.copyto(last.out, x)
        return last.out

    def _bound(self, x: Array, out: Array | None) -> _Bound:
        """The arrays of a call as the exchange reads and writes them."""
        data = x if x.flags.c_contiguous else np.ascontiguousarray(x)
        form = self._forms.get((x.shape, x.dtype)) or self.form(x.shape, x.dtype)
        shape = x.shape if form.is_aside else form.shape
        result = np.empty(shape, form.dtype) if out is None else out
        if result.shape != shape or result.dtype != form.dtype or not result.flags.carray:
            got = f"out of shape {result.shape} and type {result.dtype}"
            wanted = f"a contiguous array of shape {shape} and type {form.dtype}, which may be written"
            do = f"pass np.empty({shape}, {form.dtype.str!r}), or no `out`"
            raise ArgumentError("AR304", f"rank {self.ranks.rank}", got, wanted, do)
        if self.what.operation is not C.ALL_REDUCE and np.may_share_memory(x, result):
            got = "an `out` that shares memory with the operand"
            raise ArgumentError(
                "AR304", f"rank {self.ranks.rank}", got, "separate memory", "copy the operand"
            )
        bound = _Bound(x, result, form, data.reshape(-1).view(np.uint8), result.reshape(-1))
        if out is not None and data is x:
            self._last = bound
        return bound

    def form(self, shape: tuple[int, ...], dtype: DType) -> Form:
        """The form for arrays of a shape and type."""
        known = self._forms.get((shape, dtype))
        if known is None:
            known = self._forms[shape, dtype] = _form(self, shape, dtype)
        return known


@dataclass(frozen=True, slots=True)
class _Bound:
    """The arrays of a call: as they are passed, and flat, the operand as bytes."""

    x: Array
    out: Array
    form: Form
    data: Bytes
    flat: Array


@dataclass(frozen=True, slots=True)
class Form:
    """The form for arrays of one shape and type. `elements`: of the operand. `shape`, `count`: of the result.
    Of the `sources` among the members, elements [low, high) contribute: reduced, or each `stride` behind the
    last. `step`: the elements that are shared at once. `is_aside`: only others receive the result."""

    text: bytes
    members: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: DType
    elements: int
    count: int
    sources: tuple[int, ...]
    low: int
    high: int
    stride: int
    fold: ReduceOperation
    step: int
    is_aside: bool
    _parts: dict[int, tuple[Sequence[Bytes], list[Array]]] = field(default_factory=dict)

    def run(self, ranks: Communicator, data: Bytes, out: Array) -> None:
        """Exchange the operand's bytes; `out` has the elements of the result then, unless only others receive
        it."""
        members, text = self.members, self.text
        if self.elements <= self.step:
            self._put_all(out, ranks.share(text, data, members))
            ranks.release(members)
            return
        width = self.dtype.itemsize
        for at in range(0, self.elements, self.step):
            pieces = ranks.share(text, data[at * width : (at + self.step) * width], members)
            if not self.is_aside:
                self._put(at, self._cut(at, pieces), out)
            ranks.release(members)

    def repeated(self, ranks: Communicator, data: Bytes, out: Array) -> Callable[[], None]:
        """`run` for memory that stays the same."""
        run = None
        if isinstance(ranks, Repeats) and self.elements <= self.step:
            is_total = self.fold is R.SUM and self.count == self.elements and not self.is_aside
            run = ranks.repeat(
                self.text, data, self.members, out if is_total else None, partial(self._put_all, out)
            )
        return partial(self.run, ranks, data, out) if run is None else run

    def _put_all(self, out: Array, pieces: Sequence[Bytes]) -> None:
        if not self.is_aside:
            self._put(0, self._known(pieces), out)

    def _known(self, pieces: Sequence[Bytes]) -> list[Array]:
        """The parts of whole operands for the result; communicators pass the same lists again."""
        entry = self._parts.get(id(pieces))
        if entry is None or entry[0] is not pieces:
            if len(self._parts) >= KEPT:
                self._parts.clear()
            entry = self._parts[id(pieces)] = (pieces, self._cut(0, pieces))
        return entry[1]

    def _cut(self, at: int, pieces: Sequence[Bytes]) -> list[Array]:
        """The parts for the result of pieces that begin at element `at`."""
        width = self.dtype.itemsize
        low, high = (max(x - at, 0) * width for x in (self.low, self.high))
        return [pieces[k][low:high].view(self.dtype) for k in self.sources]

    def _put(self, at: int, parts: list[Array], out: Array) -> None:
        to, size = max(at - self.low, 0), parts[0].size
        if self.fold is not R.NONE:
            _fold(self.fold, parts, out if size == out.size else out[to : to + size])
            return
        for part in parts:
            out[to : to + size] = part
            to += self.stride


def _form(of: Exchanger, shape: tuple[int, ...], dtype: DType) -> Form:
    """The form for arrays of a shape and type; ShapeError if they cannot be split."""
    what, members, ranks = of.what, of.members, of.ranks
    op, count, me = what.operation, len(members), members.index(ranks.rank)
    where = f"rank {ranks.rank}, {op.name}"
    if op in CUT and (not shape or shape[0] % count):
        raise ShapeError("AR103", where, f"shape {shape}", f"a first size that {count} divides")
    if dtype.hasobject:
        raise ArgumentError("AR304", where, f"an array of {dtype}", "numbers")
    after = _after(op, shape, count)
    elements = prod(shape)
    part = elements // count if op in CUT else elements
    return Form(
        text=hashlib.sha256(repr((what, members, shape, dtype.str, dtype.name)).encode()).digest(),
        members=members,
        shape=after,
        dtype=dtype,
        elements=elements,
        count=prod(after),
        sources=(members.index(what.root),) if op in (C.BROADCAST, C.SCATTER) else tuple(range(count)),
        low=me * part if op in CUT else 0,
        high=(me + 1) * part if op in CUT else part,
        stride=part,
        fold=what.fold,
        step=max(ranks.chunk // 64 * 64, 64) // max(dtype.itemsize, 1),
        is_aside=op in (C.REDUCE, C.GATHER) and ranks.rank != what.root,
    )


def _after(op: CollectiveOperation, shape: tuple[int, ...], members: int) -> tuple[int, ...]:
    """The result's shape; numbers are joined to a vector."""
    if not shape:
        return (members,) if op in JOINED else ()
    first = first_size(op, shape[0], members)
    assert isinstance(first, int), "sizes of arrays are numbers"
    return (first, *shape[1:])


def _check(ranks: Communicator, what: Exchange, members: Sequence[int]) -> None:
    op, where = what.operation, f"rank {ranks.rank}, {what.operation.name}"
    strange = [m for m in members if not 0 <= m < ranks.size]
    if strange or len(set(members)) != len(members) or ranks.rank not in members:
        wanted = f"different ranks from 0 to {ranks.size - 1}, {ranks.rank} among them"
        raise ArgumentError("AR304", where, f"group {list(members)}", wanted)
    if (what.fold is not R.NONE) != (op in REDUCING):
        wanted = "SUM, PROD, MAX, MIN or AVG" if op in REDUCING else "NONE"
        raise ArgumentError("AR304", where, what.fold.name, wanted)
    if op in ROOTED and what.root not in members:
        raise ArgumentError("AR304", where, f"root {what.root}", f"one of {list(members)}")


def _fold(fold: ReduceOperation, parts: Sequence[Array], out: Array) -> None:
    """Into `out`, in the order of parts."""
    if out.dtype.itemsize < 4 and out.dtype.kind in "fV":  # those of ml_dtypes are of kind V
        wide = np.empty(out.shape, np.float32)
        _fold(fold, [p.astype(np.float32) for p in parts], wide)
        out[...] = wide.astype(out.dtype)
        return
    function = FOLDS[fold]
    if len(parts) == 1:
        out[...] = parts[0]
        return
    function(parts[0], parts[1], out)
    for part in parts[2:]:
        function(out, part, out)
    if fold is R.AVG:
        _divide(out, len(parts))


def _divide(total: Array, count: int) -> None:
    """Quotients, of integers towards zero."""
    if total.dtype.kind not in "iu":
        np.divide(total, total.dtype.type(count), out=total)
    elif total.dtype.itemsize < 8:
        total[...] = np.trunc(total / count)
    else:  # float64 does not hold them
        total[...] = np.sign(total) * (np.abs(total) // count)
