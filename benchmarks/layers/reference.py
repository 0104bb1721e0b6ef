"""The expected result of a case in float64, and the error of a result."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.language import Language
from benchmarks.layers.arrays import Library, function, operations
from benchmarks.layers.cases import ALL, Case
from benchmarks.steps import Element
from benchmarks.values import Array, input_values, like

Doubles: TypeAlias = NDArray[np.float64]
# Permitted difference from the reference, as a part of its size: many times the rounding of one operation,
# since peers compute half types step by step, and far less than the effect of a mistake.
TOLERANCE = {Element.F32: 1e-3, Element.F16: 8e-3, Element.BF16: 6e-2, Element.U8: 0.0, Element.I8: 0.0}
CODES = 1.01  # and of integer types: half a code is right, one and a half is not
FRACTION_BITS = {Element.F32: 23, Element.F16: 10, Element.BF16: 7}
# In float64: only integers between steps are rounded, by `run`.
LIBRARY = Library(
    operations(np),
    constant=lambda a, dtype: a.astype(np.float64),
    cast=lambda y, dtype: y if dtype.is_float else np.trunc(y),
    stored=lambda y, dtype: y if dtype.is_float else np.clip(y, *dtype.ends),
    taps=np.float64,
)


def run(case: Case, x: Array) -> Doubles:
    """The result in float64; only integers between steps are rounded."""
    y = x.astype(np.float64)
    for step, before, after in zip(case.steps, case.tensors, case.tensors[1:], strict=False):
        y = function(step, before, LIBRARY)(y)
        is_last = step is case.steps[-1]
        if not after.dtype.is_float and not is_last:
            y = np.clip(np.rint(y), *after.dtype.ends)
    return np.ascontiguousarray(y)


def error(case: Case, expected: Doubles, got: Array) -> tuple[float, bool]:
    """(largest error in ulp, whether that is right).

    The ulp is that of the expected number or, if that is larger, of the root mean square of all of them: a
    sum that nearly cancels is judged by the size of its terms.
    """
    return distance(case.result.dtype, expected, got, case.slack)


def distance(dtype: Element, expected: Doubles, got: Array, slack: float = 0.0) -> tuple[float, bool]:
    """The error of a result of this type; slack: permitted difference besides rounding."""
    if got.shape != expected.shape or got.dtype != dtype.numpy:
        return float("inf"), False
    difference = np.abs(got.astype(np.float64) - expected)
    size = np.maximum(np.abs(expected), np.sqrt(np.mean(np.square(expected))))
    slack += 0.0 if dtype.is_float else CODES
    is_right = bool((difference <= TOLERANCE[dtype] * size + slack).all())  # not so for NaN
    ulp = np.ones(()) if not dtype.is_float else _ulp(size, dtype)
    return float(np.max(difference / ulp)), is_right


def _ulp(size: Doubles, dtype: Element) -> Doubles:
    exponent = np.frexp(size)[1] - 1
    return np.asarray(np.ldexp(1.0, exponent - FRACTION_BITS[dtype]))


LANGUAGE = Language(
    {c.name: c for c in ALL},
    inputs=lambda case: {"x": input_values(case.input, case.low, case.high)},
    exact=lambda case, inputs: (run(case, inputs["x"]),),
    outputs=lambda case, exact: (like(case.result),),
    empty=lambda case: {"x": like(case.input)},
    distance=lambda case, exact, got: error(case, *exact, *got),
)
