"""The numbers that cases work with: inputs and coefficients, the same in every run and for every peer."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.formula import Constant, Number, Weights, constant_shape
from benchmarks.steps import Norm, Scale, Shape, Statistics, Tensor, affine_shape, scale_shape

Array: TypeAlias = NDArray[Any]  # Any: of whatever element type a case has
Floats: TypeAlias = NDArray[np.float32]
ALIGNMENT = 4096


def aligned(tensor: Tensor) -> Array:
    """Memory for a tensor that begins at a page, so that nobody is lucky with addresses; already touched."""
    raw = np.zeros(tensor.nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + tensor.nbytes].view(tensor.dtype.numpy).reshape(tensor.shape)


def input_values(tensor: Tensor, low: float, high: float, seed: int = 7) -> Array:
    """Random numbers: between `low` and `high`, or any codes of an integer type."""
    random = np.random.default_rng(seed)
    out = aligned(tensor)
    if tensor.dtype.is_float:
        out[...] = random.random(tensor.shape, np.float32) * np.float32(high - low) + np.float32(low)
    else:
        out[...] = random.integers(*tensor.dtype.ends, tensor.shape, endpoint=True).astype(out.dtype)
    return out


def scale_values(step: Scale, shape: Shape) -> tuple[Floats | None, Floats | None]:
    """(scale, shift), None for what is absent."""
    wanted = scale_shape(step, shape)
    lowest = -64 if step.power in (1.0, 2.0) else 0  # other powers take positive numbers only
    scale = _sixty_fourths(wanted, 32, 96, 1) if step.scale else None
    return scale, _sixty_fourths(wanted, lowest, 64, 2) if step.shift else None


def norm_values(step: Norm, shape: Shape) -> tuple[Floats, Floats]:
    """(scale, bias)."""
    wanted = affine_shape(step, shape)
    return _sixty_fourths(wanted, 32, 96, 3), _sixty_fourths(wanted, -64, 64, 4)


def constant_values(constant: Constant, shape: Shape) -> Floats:
    """A formula's constant beside an input of `shape`."""
    wanted = constant_shape(constant, shape)
    match constant:
        case Number(value):
            return np.full(wanted, value, np.float32)
        case Weights():
            scale, bias = norm_values(Norm(Statistics.LAYER), shape)
            return (scale if constant is Weights.SCALE else bias).reshape(wanted)


def _sixty_fourths(shape: Shape, low: int, high: int, seed: int) -> Floats:
    """Numbers that float16 and bfloat16 hold exactly: peers that compute in these are not wrong for that."""
    numbers = np.random.default_rng(seed).integers(low, high, math.prod(shape), endpoint=True)
    return np.asarray(numbers / 64, np.float32).reshape(shape)
