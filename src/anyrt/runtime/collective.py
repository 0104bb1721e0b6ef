"""Exchanges between ranks: the eight operations of DistCollective, over whatever shares bytes between ranks.

y = exchange(ranks, Exchange(CollectiveOperation.ALL_REDUCE, ReduceOperation.SUM), x)

Parts are folded in the order of ranks, on every rank alike, half types in float32 and rounded once: the
same bits on all ranks and in each run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from anyrt.core.enums import ReduceOperation
from anyrt.core.enums_more import CollectiveOperation
from anyrt.core.errors import ArgumentError, ShapeError

Array = NDArray[Any]  # Any: of every type
Bytes = NDArray[np.uint8]
C, R = CollectiveOperation, ReduceOperation
REDUCING: Final = frozenset({C.ALL_REDUCE, C.REDUCE, C.REDUCE_SCATTER})
ROOTED: Final = frozenset({C.BROADCAST, C.REDUCE, C.GATHER, C.SCATTER})
CUT: Final = frozenset({C.REDUCE_SCATTER, C.ALL_TO_ALL, C.SCATTER})
FOLDS: Final = {R.SUM: np.add, R.AVG: np.add, R.PROD: np.multiply, R.MAX: np.maximum, R.MIN: np.minimum}
HALVES: Final = ("float16", "bfloat16")


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

    def share(self, text: bytes, chunk: Bytes, members: Sequence[int]) -> Sequence[Bytes]:
        """The chunks of all members, in their order, good until `release`. `text`, 32 bytes, must be the same
        on all of them: ArgumentError AR304 on each where it is not. ResourceError AR802 on each that waits
        for a rank that has ended, or for longer than the time limit."""

    def release(self, members: Sequence[int]) -> None:
        """Whoever called `share` has read what it wanted."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What is done; `root` sends or receives, where there is one; `group` takes part, None: all."""

    operation: CollectiveOperation
    fold: ReduceOperation = R.NONE
    root: int = -1
    group: tuple[int, ...] | None = None


def exchange(ranks: Communicator, what: Exchange, x: Array) -> Array:
    """What this rank has afterwards, as a new array.

    Of REDUCE and GATHER, ranks but the root keep what they had. Arrays are cut and joined along axis 0; all
    members give arrays of one type and shape."""
    members = tuple(range(ranks.size)) if what.group is None else what.group
    _check(ranks, what, members, x)
    x = np.ascontiguousarray(x)
    text = hashlib.sha256(repr((what, members, x.shape, x.dtype.str, x.dtype.name)).encode()).digest()
    plan = _Plan.of(what, members, members.index(ranks.rank), x)
    data = x.reshape(-1).view(np.uint8)
    step = max(ranks.chunk // 64 * 64, 64)
    for at in range(0, max(data.size, 1), step):
        chunks = ranks.share(text, data[at : at + step], members)
        plan.take(at, chunks)
        ranks.release(members)
    is_aside = what.operation in (C.REDUCE, C.GATHER) and ranks.rank != what.root
    return x.copy() if is_aside else plan.out


def _check(ranks: Communicator, what: Exchange, members: Sequence[int], x: Array) -> None:
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
    if op in CUT and (x.ndim == 0 or x.shape[0] % len(members)):
        raise ShapeError("AR103", where, f"shape {x.shape}", f"a first size that {len(members)} divides")
    if x.dtype.hasobject:
        raise ArgumentError("AR304", where, f"an array of {x.dtype}", "numbers")


@dataclass(slots=True)
class _Plan:
    """Which bytes [low, high) of which members go to `out`: folded, or each `stride` behind the last."""

    out: Array
    held: Bytes
    sources: Sequence[int]
    low: int
    high: int
    stride: int
    fold: ReduceOperation
    dtype: np.dtype[Any]  # Any: every type

    @classmethod
    def of(cls, what: Exchange, members: Sequence[int], me: int, x: Array) -> _Plan:
        """That of one member, the `me`-th."""
        op, count, nbytes = what.operation, len(members), x.nbytes
        part = nbytes // count if op in CUT else nbytes
        low = me * part if op in CUT else 0
        sources = [members.index(what.root)] if op in (C.BROADCAST, C.SCATTER) else list(range(count))
        shape = x.shape
        if op in (C.REDUCE_SCATTER, C.SCATTER):
            shape = (shape[0] // count, *shape[1:])
        elif op in (C.ALL_GATHER, C.GATHER):
            shape = (count * shape[0], *shape[1:]) if shape else (count,)
        out = np.empty(shape, x.dtype)
        stride = 0 if op in REDUCING else part
        return cls(out, out.reshape(-1).view(np.uint8), sources, low, low + part, stride, what.fold, x.dtype)

    def take(self, at: int, chunks: Sequence[Bytes]) -> None:
        """What lies in chunks of all members that begin at byte `at`."""
        begin, end = max(self.low, at), min(self.high, at + chunks[0].size)
        if begin >= end:
            return
        cut = [chunks[k][begin - at : end - at] for k in self.sources]
        to = begin - self.low
        if self.fold is not R.NONE:
            _fold(
                self.fold,
                [c.view(self.dtype) for c in cut],
                self.held[to : to + end - begin].view(self.dtype),
            )
            return
        for k, chunk in enumerate(cut):
            start = to + (k * self.stride if len(cut) > 1 else 0)
            self.held[start : start + chunk.size] = chunk


def _fold(fold: ReduceOperation, parts: Sequence[Array], out: Array) -> None:
    """Into `out`, in the order of parts."""
    function, is_half = FOLDS[fold], out.dtype.name in HALVES
    total = parts[0].astype(np.float32) if is_half else out
    if not is_half:
        total[...] = parts[0]
    for part in parts[1:]:
        function(total, part.astype(np.float32) if is_half else part, out=total)
    if fold is R.AVG and out.dtype.kind in "iu":
        total[...] = np.trunc(total / len(parts)) if total.dtype.itemsize < 8 else _whole(total, len(parts))
    elif fold is R.AVG:
        np.divide(total, total.dtype.type(len(parts)), out=total)
    if is_half:
        out[...] = total.astype(out.dtype)


def _whole(total: Array, count: int) -> Array:
    """Quotients towards zero, of integers that float64 does not hold."""
    found: Array = np.sign(total) * (np.abs(total) // count)
    return found
