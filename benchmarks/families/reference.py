"""Whether a program's results are right, and how far they are from NumPy's."""

from __future__ import annotations

import numpy as np

from benchmarks.families.case import Case, Family, inputs, wanted
from benchmarks.families.cases import ALL
from benchmarks.language import Language
from benchmarks.values import Array

# Of the size of the numbers: many times the rounding of one operation, far less than any mistake makes.
TOLERANCE = {"float32": 1e-3, "float16": 8e-3, "bfloat16": 6e-2}
MOMENTS = 0.03  # what the mean and the deviation of random numbers may be off
POSITIONS = 4  # times as much: rounding moves a position, by which an image of noise differs
CODES = 0.13  # of the size of a code, or one code: quotients may lie between two of them


def distance(case: Case, wanted: tuple[Array, ...], got: tuple[Array, ...]) -> tuple[float, bool]:
    """(largest difference, whether all is right); integers may be of another width."""
    pairs = [(_sorted(a), _sorted(b)) if case.unordered else (a, b) for a, b in zip(wanted, got, strict=True)]
    found = [_moments(a, b) if case.noise else _one(case, a, b) for a, b in pairs]
    return max(error for error, _ in found), all(right for _, right in found)


def _sorted(x: Array) -> Array:
    """The rows in one order."""
    return x[np.lexsort(x.T[::-1])]


def _one(case: Case, wanted: Array, got: Array) -> tuple[float, bool]:
    if wanted.shape != got.shape:
        return float("inf"), False
    a, b = wanted.astype(np.float64), got.astype(np.float64)
    off = np.abs(a - b)
    size = np.maximum(np.abs(a), np.sqrt(np.mean(np.square(a)))) if a.size else a
    most = TOLERANCE.get(wanted.dtype.name, 0.0) * size * (POSITIONS if case.family is Family.SAMPLE else 1)
    if case.family is Family.CODE and wanted.dtype.name not in TOLERANCE:
        most = np.maximum(
            CODES * size, 1.01 if wanted.dtype.kind == "i" or wanted.dtype.name == "int4" else 0.0
        )
    return float(np.max(off, initial=0.0)), bool((off <= most).all())


def _moments(wanted: Array, got: Array) -> tuple[float, bool]:
    pairs = [(f(wanted.astype(np.float64)), f(got.astype(np.float64))) for f in (np.mean, np.std)]
    off = float(max(abs(a - b) for a, b in pairs))
    return off, off < MOMENTS and wanted.shape == got.shape


LANGUAGE = Language(
    {c.name: c for c in ALL}, given=inputs, exact=wanted, outputs=lambda case, exact: exact, distance=distance
)
