"""The arrays of the NumPy interpreter: float types are held as float64, integers and bools as their own type.

So references compute in float64 and round only where a graph's output is made; integer arithmetic wraps as it
does in a kernel.

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
