"""NumPy, with memory for results given beforehand where it takes it; half types are computed in float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.layers.formula import Formula, Line, constants_of, evaluate, shapes_of
from benchmarks.layers.reference import OPS
from benchmarks.layers.taps import plans
from benchmarks.peers import Peer, Task, Way
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
from benchmarks.values import Array, aligned, constant_values, norm_values, scale_values

Run = Callable[[Array], Array]


def prepare(task: Task) -> tuple[Way, ...]:
    """The steps one after the other, the last copied to the output unless it is there already."""
    case, x = task.case, task.given["x"]
    tensors = types(case.steps, case.input)
    out = aligned(tensors[-1])
    pieces = [_step(s, t) for s, t in zip(case.steps, tensors, strict=False)]
    if isinstance(case.steps[-1], Scale) and tensors[-1].dtype is Element.F32:
        pieces[-1] = _scale(case.steps[-1], tensors[-2], out)
    if isinstance(case.steps[-1], Formula) and tensors[-1].dtype is Element.F32:
        pieces[-1] = _formula(case.steps[-1], tensors[-2], out)
    wide = case.input.dtype.is_float and case.input.dtype is not Element.F32

    def run() -> None:
        y = x.astype(np.float32) if wide else x
        for piece in pieces:
            y = piece(y)
        if y is not out:
            np.copyto(out, y, casting="unsafe")

    return (Way("", run, lambda: (out,)),)


def _step(step: Step, x: Tensor) -> Run:
    match step:
        case Scale():
            return _scale(step, x, np.empty(x.shape, np.float32))
        case Resize():
            return _resize(step, x)
        case Transpose(perm):
            return lambda y: y.transpose(perm)
        case Reshape():
            shape = infer(step, x).shape
            return lambda y: y.reshape(shape)
        case Norm():
            return _norm(step, x)
        case Silu():
            return lambda y: y / (1 + np.exp(-y))
        case Cast() | Dequantize() | Quantize():
            return _converted(step)
        case Formula():
            return _formula(step, x, np.empty(infer(step, x).shape, np.float32))


def _converted(step: Cast | Dequantize | Quantize) -> Run:
    match step:
        case Cast(dtype):
            return lambda y: y.astype(dtype.numpy)
        case Dequantize(scale):
            return lambda y: np.multiply(y, np.float32(scale), dtype=np.float32)
        case Quantize(scale):
            return lambda y: np.clip(np.rint(y / np.float32(scale)), -128, 127)


def _scale(step: Scale, x: Tensor, out: Array) -> Run:
    scale, shift = scale_values(step, x.shape)
    power = np.float32(step.power)

    def run(y: Array) -> Array:
        if scale is not None:
            y = np.multiply(y, scale, out=out)
        if shift is not None:
            y = np.add(y, shift, out=out)
        if step.power == 2:
            return np.square(y, out=out)
        if step.power == 0.5:
            return np.sqrt(y, out=out)
        return y if step.power == 1 else np.power(y, power, out=out)

    return run


def _resize(step: Resize, x: Tensor) -> Run:
    every = list(plans(step, x))

    def run(y: Array) -> Array:
        for axis, taps in every:
            (at, weights), *others = taps
            total = np.take(y, at, axis)
            if others:
                total = total * weights
                for at, weights in others:
                    total += np.take(y, at, axis) * weights
            y = total
        return y if x.dtype.is_float or len(every[0][1]) == 1 else np.clip(np.rint(y), 0, 255)

    return run


def _norm(step: Norm, x: Tensor) -> Run:
    scale, bias = norm_values(step, x.shape)
    axes = norm_axes(step, len(x.shape))
    rows: tuple[int, ...] = x.shape
    if step.kind is Statistics.GROUP:
        rows, axes = (x.shape[0], step.groups, -1), (2,)

    def centred(y: Array) -> Array:
        y = y.reshape(rows)
        y = y - y.mean(axes, keepdims=True)
        y *= 1 / np.sqrt(np.square(y).mean(axes, keepdims=True) + np.float32(step.epsilon))
        y = y.reshape(x.shape)
        y *= scale
        y += bias
        return y

    def root_mean_square(y: Array) -> Array:
        y = y * (1 / np.sqrt(np.square(y).mean(axes, keepdims=True) + np.float32(step.epsilon)))
        y *= scale
        return y

    return root_mean_square if step.kind is Statistics.RMS else centred


def _formula(step: Formula, x: Tensor, out: Array) -> Run:
    constants = {c: constant_values(c, x.shape) for c in constants_of(step)}
    made = {name: np.empty(shape, np.float32) for name, shape in shapes_of(step, x.shape).items()}
    made[step.lines[-1].name] = out

    def apply(line: Line, operands: tuple[Array, ...]) -> Array:
        return np.asarray(OPS[line.op](*operands, out=made[line.name]))

    return lambda y: evaluate(step, y, constants.__getitem__, apply)


PEER = Peer("NumPy", np.__version__, prepare)
