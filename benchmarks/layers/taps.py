"""Positions and weights of Resize, from exact fractions, for the reference and for peers that gather.

>>> table(Resize(Mode.LINEAR, scales=(2,)), 2, 4)[1].tolist()
[[0.25, 0.75], [0.75, 0.25], [0.25, 0.75], [0.75, 0.25]]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.steps import Grid, Mode, Resize, Rounding, Tensor, infer

Ints: TypeAlias = NDArray[np.int64]
Weights: TypeAlias = NDArray[np.floating[Any]]
CUBIC = -0.75


def table(step: Resize, n_in: int, n_out: int) -> tuple[Ints, NDArray[np.float64]]:
    """(positions, weights), each (n_out, taps), of one axis."""
    num, den = _coordinates(step.grid, n_in, n_out)
    whole, part = num // den, (num % den / den)[:, None]
    match step.mode:
        case Mode.NEAREST:
            positions, weights = _rounded(step.rounding, num, den)[:, None], np.ones((n_out, 1))
        case Mode.LINEAR:
            positions, weights = whole[:, None] + np.arange(2), np.hstack([1 - part, part])
        case Mode.CUBIC:
            positions = whole[:, None] + np.arange(-1, 3)
            weights = cubic(np.abs(part - np.arange(-1, 3)))
    return np.clip(positions, 0, n_in - 1), weights


def plans(
    step: Resize, x: Tensor, dtype: type[np.floating[Any]] = np.float32
) -> Iterator[tuple[int, list[tuple[Ints, Weights]]]]:
    """Each axis that changes, with its taps: positions, and weights that broadcast along later axes."""
    for axis, (before, after) in enumerate(zip(x.shape, infer(step, x).shape, strict=True)):
        if before != after:
            positions, weights = table(step, before, after)
            shape = (after,) + (1,) * (len(x.shape) - axis - 1)
            columns = (weights[:, k].astype(dtype).reshape(shape) for k in range(weights.shape[1]))
            yield axis, [(positions[:, k].copy(), column) for k, column in enumerate(columns)]


def _coordinates(grid: Grid, n_in: int, n_out: int) -> tuple[Ints, int]:
    o = np.arange(n_out, dtype=np.int64)
    match grid:
        case Grid.HALF_PIXEL:
            return (2 * o + 1) * n_in - n_out, 2 * n_out
        case Grid.ALIGN_CORNERS:
            return o * (n_in - 1), max(n_out - 1, 1)
        case Grid.ASYMMETRIC:
            return o * n_in, n_out


def _rounded(rounding: Rounding, num: Ints, den: int) -> Ints:
    match rounding:
        case Rounding.FLOOR:
            return num // den
        case Rounding.CEIL:
            return -(-num // den)
        case Rounding.HALF_UP:
            return (2 * num + den) // (2 * den)
        case Rounding.HALF_DOWN:
            return -((den - 2 * num) // (2 * den))


def cubic(distance: NDArray[np.float64], a: float = CUBIC) -> NDArray[np.float64]:
    """Keys' kernel, with the coefficient `a`."""
    d = distance
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))
