"""The error of a program's results relative to NumPy's, and whether they are right."""

from __future__ import annotations

import numpy as np

from benchmarks.families.case import Case, Family, expected_of, inputs
from benchmarks.families.cases import ALL
from benchmarks.language import Language
from benchmarks.values import Array

# Of the size of the numbers: many times the rounding of one operation, far less than any mistake makes.
TOLERANCE = {"float32": 1e-3, "float16": 8e-3, "bfloat16": 6e-2}
MOMENTS = 0.03  # permitted error of the mean and the deviation of random numbers
POSITIONS = 4  # times as much: rounding moves a position, by which an image of noise differs
CODES = 0.13  # of the size of a code, or one code: quotients may lie between two of them


def distance(case: Case, expected: tuple[Array, ...], got: tuple[Array, ...]) -> tuple[float, bool]:
    """(largest difference, whether all is right); integers may be of another width."""
    pairs = [
        (_sorted(a), _sorted(b)) if case.unordered else (a, b) for a, b in zip(expected, got, strict=True)
    ]
    distances = [_moments(a, b) if case.noise else _one(case, a, b) for a, b in pairs]
    return max(error for error, _ in distances), all(right for _, right in distances)


def _sorted(x: Array) -> Array:
    """The rows in a canonical order."""
    return x[np.lexsort(x.T[::-1])]


def _one(case: Case, expected: Array, got: Array) -> tuple[float, bool]:
    if expected.shape != got.shape:
        return float("inf"), False
    a, b = expected.astype(np.float64), got.astype(np.float64)
    off = np.abs(a - b)
    size = np.maximum(np.abs(a), np.sqrt(np.mean(np.square(a)))) if a.size else a
    most = TOLERANCE.get(expected.dtype.name, 0.0) * size * (POSITIONS if case.family is Family.SAMPLE else 1)
    if case.family is Family.CODE and expected.dtype.name not in TOLERANCE:
        most = np.maximum(
            CODES * size, 1.01 if expected.dtype.kind == "i" or expected.dtype.name == "int4" else 0.0
        )
    return float(np.max(off, initial=0.0)), bool((off <= most).all())


def _moments(expected: Array, got: Array) -> tuple[float, bool]:
    pairs = [(f(expected.astype(np.float64)), f(got.astype(np.float64))) for f in (np.mean, np.std)]
    off = float(max(abs(a - b) for a, b in pairs))
    return off, off < MOMENTS and expected.shape == got.shape


LANGUAGE = Language(
    {c.name: c for c in ALL},
    inputs=inputs,
    exact=expected_of,
    outputs=lambda case, exact: exact,
    distance=distance,
)
