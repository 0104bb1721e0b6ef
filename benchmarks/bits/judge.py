"""How far results are from float64: the largest error as a part of the largest magnitude, and the cosine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.bits.files import Form
from benchmarks.bits.rows import Ask, Entry
from benchmarks.values import Array

# The least cosine of right results, by the contents of the file and the program's option. Random weights of
# int8 networks have no structure that codes could preserve: single outputs are wrong, not all of them.
EXACT, ROUNDED, CODES = 0.99999, 0.99, 0.9
LEAST = {
    Form.F32: EXACT, Form.BF16: ROUNDED, Form.QDQ: CODES, Form.QOPERATOR: CODES, Form.DYNAMIC: CODES,
    Form.I2: EXACT, Form.I4: EXACT, Form.I4_LEVEL4: 0.999, Form.I8: EXACT, Form.I8_LEVEL4: 0.999,
}  # fmt: skip
ALLOWED = {Ask.BF16: ROUNDED, Ask.FP16: 0.999, Ask.CALIBRATED: CODES}


@dataclass(frozen=True, slots=True)
class Distance:
    """The error and the cosine of the worst output."""

    error: float
    cosine: float


def least_cosine(entry: Entry) -> float:
    """The smallest cosine that an entry may have."""
    return min(LEAST[entry.form], ALLOWED.get(entry.ask, 1.0))


def distance(results: Sequence[Array], expected: Sequence[Array]) -> Distance:
    """The distance of results from the expected ones. Other shapes, NaN and infinity have a cosine of -1.

    >>> distance([np.array([2.0, 0.0])], [np.array([1.0, 0.0])])
    Distance(error=1.0, cosine=1.0)
    """
    if [x.shape for x in results] != [y.shape for y in expected]:
        return Distance(float("inf"), -1.0)
    pairs = [_pair(x.astype(np.float64).ravel(), y.ravel()) for x, y in zip(results, expected, strict=True)]
    return Distance(max(p.error for p in pairs), min(p.cosine for p in pairs))


def _pair(x: Array, y: Array) -> Distance:
    if not np.isfinite(x).all():
        return Distance(float("inf"), -1.0)
    error = np.abs(x - y).max() / max(np.abs(y).max(), 1e-300)
    cosine = (x @ y) / max(np.sqrt((x @ x) * (y @ y)), 1e-300)
    return Distance(float(error), float(cosine))
