"""The steps of a case as JAX functions, for XLA and, exported, for IREE."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.layers.cases import Case
from benchmarks.layers.formula import Constant, Formula, Line, Op, evaluate
from benchmarks.layers.taps import plans
from benchmarks.steps import (
    Cast,
    Dequantize,
    Element,
    Grid,
    Mode,
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
from benchmarks.values import constant_values, norm_values, scale_values

Run: TypeAlias = Callable[[jax.Array], jax.Array]
OPS: dict[Op, Callable[..., jax.Array]] = {
    Op.ADD: jnp.add,
    Op.SUB: jnp.subtract,
    Op.MUL: jnp.multiply,
    Op.DIV: jnp.divide,
    Op.POW: jnp.power,
    Op.SQRT: jnp.sqrt,
    Op.RECIP: jnp.reciprocal,
    Op.MEAN: partial(jnp.mean, axis=-1, keepdims=True),
    Op.TOTAL: partial(jnp.sum, axis=-1, keepdims=True),
}


def function(case: Case, resize: Callable[[Resize, Tensor], Run]) -> Run:
    """The whole case; `resize` is one of the two below."""
    tensors = types(case.steps, case.input)
    runs = [_step(s, t, resize) for s, t in zip(case.steps, tensors, strict=False)]

    def run(x: jax.Array) -> jax.Array:
        for piece in runs:
            x = piece(x)
        return x

    return run


def has_library_resize(case: Case) -> bool:
    """Whether `by_library` means the same: half-pixel, linear."""
    steps = [s for s in case.steps if isinstance(s, Resize)]
    return bool(steps) and all(s.grid is Grid.HALF_PIXEL and s.mode is Mode.LINEAR for s in steps)


def by_library(step: Resize, x: Tensor) -> Run:
    """jax.image.resize, which multiplies matrices."""
    after = infer(step, x)

    def run(y: jax.Array) -> jax.Array:
        wide = y if x.dtype.is_float else y.astype(jnp.float32)
        return _narrow(jax.image.resize(wide, after.shape, "bilinear", antialias=False), x.dtype)

    return run


def by_gather(step: Resize, x: Tensor) -> Run:
    """By index and weight, axis by axis."""
    every, weighs = list(plans(step, x)), step.mode is not Mode.NEAREST

    def run(y: jax.Array) -> jax.Array:
        for axis, taps in every:
            parts = [jnp.take(y, at, axis, mode="clip") for at, _ in taps]
            y = sum((p * w for p, (_, w) in zip(parts, taps, strict=True)), 0.0) if weighs else parts[0]
        return _narrow(y, x.dtype) if weighs else y

    return run


def _narrow(y: jax.Array, dtype: Element) -> jax.Array:
    if not dtype.is_float:
        y = jnp.clip(jnp.round(y), 0, 255)
    return y.astype(dtype.numpy)


def _step(step: Step, x: Tensor, resize: Callable[[Resize, Tensor], Run]) -> Run:
    match step:
        case Scale():
            return _scale(step, x)
        case Resize():
            return resize(step, x)
        case Transpose(perm):
            return lambda y: jnp.transpose(y, perm)
        case Reshape():
            shape = infer(step, x).shape
            return lambda y: jnp.reshape(y, shape)
        case Norm():
            return _norm(step, x)
        case Silu():
            return lambda y: jax.nn.silu(y)
        case Cast() | Dequantize() | Quantize():
            return _converted(step)
        case Formula():
            return _formula(step, x)


def _converted(step: Cast | Dequantize | Quantize) -> Run:
    match step:
        case Cast(dtype):
            return lambda y: y.astype(dtype.numpy)
        case Dequantize(scale):
            return lambda y: y.astype(jnp.float32) * scale
        case Quantize(scale):
            return lambda y: jnp.clip(jnp.round(y / scale), -128, 127).astype(jnp.int8)


def _scale(step: Scale, x: Tensor) -> Run:
    scale, shift = (None if a is None else a.astype(x.dtype.numpy) for a in scale_values(step, x.shape))

    def run(y: jax.Array) -> jax.Array:
        y = y if scale is None else y * scale
        y = y if shift is None else y + shift
        if step.power == 2:
            return jnp.square(y)
        if step.power == 0.5:
            return jnp.sqrt(y)
        return y if step.power == 1 else jnp.power(y, np.array(step.power, x.dtype.numpy))

    return run


def _norm(step: Norm, x: Tensor) -> Run:
    """Statistics in float32."""
    scale, bias = norm_values(step, x.shape)
    axes = norm_axes(step, len(x.shape))
    rows: tuple[int, ...] = x.shape
    if step.kind is Statistics.GROUP:
        rows, axes = (x.shape[0], step.groups, -1), (2,)
    is_rms = step.kind is Statistics.RMS

    def run(y: jax.Array) -> jax.Array:
        wide = y.astype(jnp.float32).reshape(rows)
        if not is_rms:
            wide = wide - jnp.mean(wide, axes, keepdims=True)
        spread = jax.lax.rsqrt(jnp.mean(jnp.square(wide), axes, keepdims=True) + step.epsilon)
        done = (wide * spread).reshape(x.shape) * scale
        return (done if is_rms else done + bias).astype(x.dtype.numpy)

    return run


def _formula(step: Formula, x: Tensor) -> Run:
    def constant(wanted: Constant) -> jax.Array:
        return jnp.asarray(constant_values(wanted, x.shape).astype(x.dtype.numpy))

    def apply(line: Line, operands: tuple[jax.Array, ...]) -> jax.Array:
        return OPS[line.op](*operands)

    return lambda y: evaluate(step, y, constant, apply)
