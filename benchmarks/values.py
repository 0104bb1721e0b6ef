"""The numbers of cases: inputs and coefficients, equal in every run and for every peer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from benchmarks.layers.formula import Constant, Number, Weights, constant_shape
from benchmarks.steps import Norm, Scale, Shape, Statistics, Tensor, affine_shape, scale_shape

Array: TypeAlias = NDArray[Any]  # Any: of whatever element type a case has
Floats: TypeAlias = NDArray[np.float32]
ALIGNMENT = 4096
HALVES = tuple(np.dtype(t) for t in (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float4_e2m1fn))


def memory(shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Memory that begins at a page, so that addresses favour no program; already touched."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def aligned(tensor: Tensor) -> Array:
    """Page-aligned memory of a tensor's type and shape."""
    return memory(tensor.shape, tensor.dtype.numpy)


def like(tensor: Tensor) -> Array:
    """An array of a tensor's type and shape that occupies no memory."""
    return np.broadcast_to(np.zeros((), tensor.dtype.numpy), tensor.shape)


def placed(x: Array) -> Array:
    """A page-aligned copy."""
    out = memory(x.shape, x.dtype)
    out[...] = x
    return out


def room(like: Array) -> Array:
    """Memory for a result; two elements of a 4-bit type share a byte."""
    if like.dtype in HALVES:
        return memory((-(-like.size // 2),), np.dtype(np.uint8))
    return memory(like.shape, like.dtype)


def nbytes(x: Array) -> int:
    """Bytes in memory."""
    return -(-x.size // 2) if x.dtype in HALVES else x.nbytes


def packed(x: Array) -> Array:
    """The array as programs take it: two 4-bit elements in each byte, the first in the lower half."""
    if x.dtype not in HALVES:
        return x
    codes = x.astype(np.int8).reshape(-1).view(np.uint8)
    return placed((codes[::2] & 15) | (codes[1::2] << 4))


def fetched(held: tuple[Array, ...], like: tuple[Array, ...]) -> tuple[Array, ...]:
    """The content of memory from `room`, as arrays of these types."""
    return tuple(_unpacked(x, y) for x, y in zip(held, like, strict=True))


def _unpacked(held: Array, like: Array) -> Array:
    if like.dtype not in HALVES:
        return held
    codes = np.stack([held & 15, held >> 4], -1).reshape(-1)[: like.size]
    if like.dtype == HALVES[0]:
        return ((codes.astype(np.int8) ^ 8) - 8).astype(like.dtype).reshape(like.shape)
    return codes.view(like.dtype).reshape(like.shape)


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of a file that `np.savez` wrote."""
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def input_values(tensor: Tensor, low: float, high: float, seed: int = 7) -> Array:
    """Random numbers between `low` and `high`, or any codes of an integer type."""
    random = np.random.default_rng(seed)
    out = aligned(tensor)
    if tensor.dtype.is_float:
        out[...] = random.random(tensor.shape, np.float32) * np.float32(high - low) + np.float32(low)
    else:
        out[...] = random.integers(*tensor.dtype.ends, tensor.shape, endpoint=True).astype(out.dtype)
    return out


def scale_values(step: Scale, shape: Shape) -> tuple[Floats | None, Floats | None]:
    """(scale, shift); None if absent."""
    affine = scale_shape(step, shape)
    lowest = -64 if step.power in (1.0, 2.0) else 0  # other powers take positive numbers only
    scale = _sixty_fourths(affine, 32, 96, 1) if step.scale else None
    return scale, _sixty_fourths(affine, lowest, 64, 2) if step.shift else None


def norm_values(step: Norm, shape: Shape) -> tuple[Floats, Floats]:
    """(scale, bias)."""
    affine = affine_shape(step, shape)
    return _sixty_fourths(affine, 32, 96, 3), _sixty_fourths(affine, -64, 64, 4)


def constant_values(constant: Constant, shape: Shape) -> Floats:
    """A formula's constant beside an input of `shape`."""
    target = constant_shape(constant, shape)
    match constant:
        case Number(value):
            return np.full(target, value, np.float32)
        case Weights():
            scale, bias = norm_values(Norm(Statistics.LAYER), shape)
            return (scale if constant is Weights.SCALE else bias).reshape(target)


def _sixty_fourths(shape: Shape, low: int, high: int, seed: int) -> Floats:
    """Numbers that float16 and bfloat16 represent exactly, so that half-type peers are not wrong."""
    numbers = np.random.default_rng(seed).integers(low, high, math.prod(shape), endpoint=True)
    return np.asarray(numbers / 64, np.float32).reshape(shape)
