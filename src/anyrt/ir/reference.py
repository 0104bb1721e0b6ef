"""The arrays of the NumPy interpreter: floats are float64, integers and bools have their own type.

References therefore compute in float64 and round only at a graph's outputs; integer arithmetic wraps as in a
kernel.

>>> widen(np.array([1.5], np.float16), DataType.HALF).dtype
dtype('float64')
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anyrt.core.dtype import held_dtype, is_float
from anyrt.core.enums import DataType

Array = npt.NDArray[np.generic]


def reference_dtype(t: DataType) -> np.dtype[np.generic]:
    """The NumPy type that holds elements of `t` in the interpreter; integers of fewer bits fill a byte."""
    if is_float(t):
        return np.dtype(np.float64)
    return held_dtype(t)


def widen(x: Array, t: DataType) -> Array:
    """`x`, stored as `t`, as the interpreter holds it."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return x.astype(reference_dtype(t), copy=False)
