"""The order in which the iterations of a loop fold into one value: sequential, or, in a vector loop, lane by
lane as generated code does it (backends/cpu/widen.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from anyrt.core.dims import Sym
from anyrt.ir.buffer import Buffer
from anyrt.ir.evaluate import DTYPES, Array, Evaluation, Ints
from anyrt.ir.kernel import Const, For, Load, MultiReduction

CHAINS: Final = 4  # accumulators that generated code gives to a fold across a vector loop

Operation: TypeAlias = Callable[[Array, Array], Array]


def each(values: Array, turns: Ints, fold: Callable[..., Array], before: Array | None = None) -> Array:
    """`values` folded for each of their points, which has `turns` iterations: `fold` receives a row of them
    for each, and the value `before` if there is one."""
    out, begin = np.empty(len(turns), values.dtype), np.cumsum(turns) - turns
    for count in np.unique(turns):
        rows = np.flatnonzero(turns == count)
        terms = values[begin[rows][:, None] + np.arange(count)]
        out[rows] = fold(terms) if before is None else fold(terms, before[rows])
    return out


def in_order(op: Operation, turns: Array, before: Array | None = None) -> Array:
    """One iteration (axis 1) after the other."""
    assert isinstance(op, np.ufunc), f"{op} is no fold"
    every = turns if before is None else np.concatenate([before[:, None], turns], 1)
    return np.asarray(op.accumulate(every, axis=1, dtype=every.dtype)[:, -1])


def in_lanes(op: Operation, start: Array, lanes: tuple[int, int], turns: Array) -> Array:
    """The iterations of a vector loop (axis 1): each accumulator of each lane folds its own ones from `start`
    on; then the accumulators are folded, then the lanes in halves."""
    (width, chains), (count, most) = lanes, turns.shape
    step = width * chains
    whole = most // step * step
    first = np.full((count, step), start)
    sums = in_order(op, turns[:, :whole].reshape(count, -1, step), first).reshape(count, chains, width)
    rest = np.full((count, -((whole - most) // width) * width), start)
    rest[:, : most - whole] = turns[:, whole:]
    sums[:, 0] = in_order(op, rest.reshape(count, -1, width), sums[:, 0])
    while sums.shape[1] > 1:
        sums = op(sums[:, ::2], sums[:, 1::2])
    total = sums[:, 0]
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        total = op(total[:, :half], total[:, half:])
    return total[:, 0]


def starts(fold: MultiReduction) -> list[tuple[Buffer, Array]]:
    """The initial value of each lane in each register."""
    pairs = zip(fold.buffers, fold.neutral, strict=True)
    return [(b, np.array(x.value, DTYPES[b.stored])) for b, x in pairs if isinstance(x, Const)]


def merged(fold: MultiReduction, first: Sequence[Array], second: Sequence[Array]) -> list[Array]:
    """Two partial results of several registers merged to one."""
    both = _Partial(dict(zip((*fold.buffers, *fold.others), (*first, *second), strict=True)))
    return [np.broadcast_to(Evaluation(both, {}).value(x), first[0].shape) for x in fold.merge]


@dataclass(frozen=True, slots=True)
class _Partial:
    """Values of registers, whatever their shape."""

    values: Mapping[Buffer, Array]

    def read(self, x: Load, at: Ints) -> Array:
        """All of a register's values."""
        return self.values[x.buffer]

    def check(self, sym: Sym, value: Ints) -> None:
        """No symbols are used."""


def halved(fold: MultiReduction, lanes: Sequence[Array]) -> list[Array]:
    """Partial results of (rows, accumulators, lanes) folded to one per row: accumulators first, then
    lanes."""
    while lanes[0].shape[1] > 1:
        lanes = merged(fold, [x[:, ::2] for x in lanes], [x[:, 1::2] for x in lanes])
    total = [x[:, 0] for x in lanes]
    while total[0].shape[1] > 1:
        half = total[0].shape[1] // 2
        total = merged(fold, [x[:, :half] for x in total], [x[:, half:] for x in total])
    return [x[:, 0] for x in total]


def shape(loop: For, width: int) -> tuple[int, int]:
    """(lanes, accumulators) of a vector loop whose vectors hold `width` elements."""
    extent, chains = loop.var.extent, loop.registers if loop.registers > 1 else CHAINS
    if not isinstance(extent, int):
        return width, chains
    width = min(width, max(2, 1 << (extent - 1).bit_length()))
    return width, min(chains, 1 << max(0, (extent // width).bit_length() - 1))
