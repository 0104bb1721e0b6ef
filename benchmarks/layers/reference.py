"""What a case should give, in float64, and how far a result is from it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.layers.cases import Case
from benchmarks.layers.formula import Constant, Formula, Line, Op, evaluate
from benchmarks.layers.taps import table
from benchmarks.steps import (
    Cast,
    Dequantize,
    Element,
    Norm,
    Quantize,
    Reshape,
    Resize,
    Scale,
    Silu,
    Statistics,
    Step,
    Tensor,
    Transpose,
    infer,
    norm_axes,
    types,
)
from benchmarks.values import Array, constant_values, norm_values, scale_values

Doubles: TypeAlias = NDArray[np.float64]
# What a result may differ from the reference, as a part of its size: many times the rounding of one
# operation, since peers compute half types step by step, and far less than any mistake makes.
TOLERANCE = {Element.F32: 1e-3, Element.F16: 8e-3, Element.BF16: 6e-2, Element.U8: 0.0, Element.I8: 0.0}
CODES = 1.01  # and of integer types: half a code is right, one and a half is not
FRACTION_BITS = {Element.F32: 23, Element.F16: 10, Element.BF16: 7}
OPS: dict[Op, Callable[..., Any]] = {  # Any: NumPy's functions give what they are given
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.DIV: np.divide,
    Op.POW: np.power,
    Op.SQRT: np.sqrt,
    Op.RECIP: np.reciprocal,
    Op.MEAN: partial(np.mean, axis=-1, keepdims=True),
    Op.TOTAL: partial(np.sum, axis=-1, keepdims=True),
}


def run(case: Case, x: Array) -> Doubles:
    """The result as real numbers; only what is stored as integers between steps is rounded."""
    tensors = types(case.steps, case.input)
    y = x.astype(np.float64)
    for step, before, after in zip(case.steps, tensors, tensors[1:], strict=False):
        y = _apply(step, before, y)
        is_last = step is case.steps[-1]
        if not after.dtype.is_float and not is_last:
            y = _saturated(y, after.dtype)
    return np.ascontiguousarray(y)


def error(case: Case, wanted: Doubles, got: Array) -> tuple[float, bool]:
    """(largest error in ulp, whether that is right).

    The ulp is that of the wanted number or, if that is larger, of the root mean square of all of them: what
    nearly cancels to 0 is judged by the size of the numbers it was made of.
    """
    return distance(types(case.steps, case.input)[-1].dtype, wanted, got, case.slack)


def distance(dtype: Element, wanted: Doubles, got: Array, slack: float = 0.0) -> tuple[float, bool]:
    """The same for a result of that type; slack: what it may differ beside rounding."""
    if got.shape != wanted.shape or got.dtype != dtype.numpy:
        return float("inf"), False
    difference = np.abs(got.astype(np.float64) - wanted)
    size = np.maximum(np.abs(wanted), np.sqrt(np.mean(np.square(wanted))))
    slack += 0.0 if dtype.is_float else CODES
    is_right = bool((difference <= TOLERANCE[dtype] * size + slack).all())  # not so for NaN
    ulp = np.ones(()) if not dtype.is_float else _ulp(size, dtype)
    return float(np.max(difference / ulp)), is_right


def _ulp(size: Doubles, dtype: Element) -> Doubles:
    exponent = np.frexp(size)[1] - 1
    return np.asarray(np.ldexp(1.0, exponent - FRACTION_BITS[dtype]))


def _saturated(y: Doubles, dtype: Element) -> Doubles:
    return np.clip(np.rint(y), *dtype.ends)


def _apply(step: Step, x: Tensor, y: Doubles) -> Doubles:
    match step:
        case Scale(power=power):
            scale, shift = scale_values(step, x.shape)
            y = y if scale is None else y * scale
            y = y if shift is None else y + shift
            return y if power == 1 else np.asarray(np.power(y, power), np.float64)
        case Resize():
            return _resized(step, x, y)
        case Transpose(perm):
            return y.transpose(perm)
        case Reshape():
            return y.reshape(infer(step, x).shape)
        case Norm():
            return _normalised(step, x, y)
        case Silu():
            return np.asarray(y / (1 + np.exp(-y)), np.float64)
        case Cast() | Dequantize() | Quantize():
            return _converted(step, y)
        case Formula():
            return _formula(step, x, y)


def _converted(step: Cast | Dequantize | Quantize, y: Doubles) -> Doubles:
    match step:
        case Cast(dtype):
            return y if dtype.is_float else np.trunc(y)
        case Dequantize(scale):
            return y * scale
        case Quantize(scale):
            return np.clip(y / scale, -128, 127)


def _formula(step: Formula, x: Tensor, y: Doubles) -> Doubles:
    def constant(wanted: Constant) -> Doubles:
        return constant_values(wanted, x.shape).astype(np.float64)

    def apply(line: Line, operands: tuple[Doubles, ...]) -> Doubles:
        return np.asarray(OPS[line.op](*operands), np.float64)

    return evaluate(step, y, constant, apply)


def _resized(step: Resize, x: Tensor, y: Doubles) -> Doubles:
    for axis, size in enumerate(infer(step, x).shape):
        if size != y.shape[axis]:
            positions, weights = table(step, y.shape[axis], size)
            shape = (size,) + (1,) * (y.ndim - axis - 1)
            taps = (
                np.take(y, positions[:, k], axis) * weights[:, k].reshape(shape)
                for k in range(weights.shape[1])
            )
            y = reduce(np.add, taps)
    return y if x.dtype.is_float else np.clip(y, *x.dtype.ends)


def _normalised(step: Norm, x: Tensor, y: Doubles) -> Doubles:
    scale, bias = norm_values(step, x.shape)
    axes = norm_axes(step, len(x.shape))
    rows = y
    if step.kind is Statistics.GROUP:
        rows = y.reshape(x.shape[0], step.groups, -1)
        axes = (2,)
    mean = 0.0 if step.kind is Statistics.RMS else rows.mean(axes, keepdims=True)
    variance = np.square(rows - mean).mean(axes, keepdims=True)
    done = np.asarray((rows - mean) / np.sqrt(variance + step.epsilon)).reshape(x.shape) * scale
    return np.asarray(done if step.kind is Statistics.RMS else done + bias, np.float64)
