"""A case as an ONNX model, for the peers that read these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from onnx import TensorProto

from benchmarks.layers.cases import Case
from benchmarks.layers.formula import FOLDS, Constant, Formula, Line, Op, evaluate
from benchmarks.layers.taps import CUBIC
from benchmarks.onnx_writer import DTYPES, Writer
from benchmarks.peers import Model, Task
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

OPSET, IR_VERSION = 21, 10
KINDS = {
    Op.ADD: "Add",
    Op.SUB: "Sub",
    Op.MUL: "Mul",
    Op.DIV: "Div",
    Op.POW: "Pow",
    Op.SQRT: "Sqrt",
    Op.RECIP: "Reciprocal",
    Op.MEAN: "ReduceMean",
    Op.TOTAL: "ReduceSum",
}


def models(task: Task) -> dict[str, Callable[[], Model]]:
    """The case, where its input is of a half type also in float32 between two casts."""
    case: Case = task.case
    forms, dtype = {"": case}, case.input.dtype
    if dtype.is_float and dtype is not Element.F32:
        forms["in float32"] = replace(case, steps=(Cast(Element.F32), *case.steps, Cast(dtype)))
    return {label: partial(_model, task, form) for label, form in forms.items()}


def _model(task: Task, case: Case) -> Model:
    writer, name = Writer(), "x"
    for step, before in zip(case.steps, types(case.steps, case.input), strict=False):
        name = _add(writer, name, step, before)
    (output,) = task.outputs
    return Model(writer.model(case.name, task.given, output, OPSET, IR_VERSION), task.given, task.outputs)


def _add(to: Writer, x: str, step: Step, before: Tensor) -> str:
    match step:
        case Scale():
            return _scale(to, x, step, before)
        case Resize():
            return _resize(to, x, step, before)
        case Transpose(perm):
            return to.node("Transpose", x, perm=perm)
        case Reshape():
            return to.node("Reshape", x, to.array(np.array(infer(step, before).shape, np.int64)))
        case Norm():
            return _norm(to, x, step, before)
        case Silu():
            return to.node("Mul", x, to.node("Sigmoid", x))
        case Cast() | Dequantize() | Quantize():
            return _converted(to, x, step)
        case Formula():
            return _formula(to, x, step, before)


def _converted(to: Writer, x: str, step: Cast | Dequantize | Quantize) -> str:
    match step:
        case Cast(dtype):
            return to.node("Cast", x, to=DTYPES[dtype])
        case Dequantize(scale):
            return to.node("DequantizeLinear", x, *_codes(to, scale))
        case Quantize(scale):
            return to.node("QuantizeLinear", x, *_codes(to, scale))


def _codes(to: Writer, scale: float) -> tuple[str, str]:
    return to.array(np.array(scale, np.float32)), to.array(np.array(0, np.int8))


def _scale(to: Writer, x: str, step: Scale, before: Tensor) -> str:
    scale, shift = scale_values(step, before.shape)
    dtype = before.dtype.numpy
    if scale is not None:
        x = to.node("Mul", x, to.array(scale.astype(dtype)))
    if shift is not None:
        x = to.node("Add", x, to.array(shift.astype(dtype)))
    if step.power == 2:
        return to.node("Mul", x, x)
    if step.power == 0.5:
        return to.node("Sqrt", x)
    return x if step.power == 1 else to.node("Pow", x, to.array(np.array(step.power, dtype)))


def _resize(to: Writer, x: str, step: Resize, before: Tensor) -> str:
    sizes = to.array(np.array(infer(step, before).shape, np.int64))
    return to.node(
        "Resize", x, "", "", sizes, mode=step.mode.value, nearest_mode=step.rounding.value,
        coordinate_transformation_mode=step.grid.value, cubic_coeff_a=CUBIC,
    )  # fmt: skip


def _norm(to: Writer, x: str, step: Norm, before: Tensor) -> str:
    scale, bias = (a.astype(before.dtype.numpy) for a in norm_values(step, before.shape))
    rank = len(before.shape)
    match step.kind:
        case Statistics.LAYER:
            axis = norm_axes(step, rank)[0]
            rows = before.shape[axis:]
            affine = [to.array(a.reshape(rows)) for a in (scale, bias)]
            return to.node("LayerNormalization", x, *affine, axis=axis, epsilon=step.epsilon)
        case Statistics.GROUP:
            affine = [to.array(a.reshape(-1)) for a in (scale, bias)]
            return to.node("GroupNormalization", x, *affine, num_groups=step.groups, epsilon=step.epsilon)
        case Statistics.INSTANCE:
            affine = [to.array(a.reshape(-1)) for a in (scale, bias)]
            return to.node("InstanceNormalization", x, *affine, epsilon=step.epsilon)
        case Statistics.RMS:
            return _rms(to, x, step, before, scale)


def _rms(to: Writer, x: str, step: Norm, before: Tensor, scale: Array) -> str:
    """As a composition in float32, which peers fuse where they know it."""
    wide = x if before.dtype is Element.F32 else to.node("Cast", x, to=TensorProto.FLOAT)
    axes = to.array(np.array(norm_axes(step, len(before.shape)), np.int64))
    mean = to.node("ReduceMean", to.node("Pow", wide, to.array(np.array(2, np.float32))), axes, keepdims=1)
    root = to.node("Sqrt", to.node("Add", mean, to.array(np.array(step.epsilon, np.float32))))
    y = to.node("Mul", to.node("Div", wide, root), to.array(scale.astype(np.float32)))
    return y if before.dtype is Element.F32 else to.node("Cast", y, to=DTYPES[before.dtype])


def _formula(to: Writer, x: str, step: Formula, before: Tensor) -> str:
    def constant(wanted: Constant) -> str:
        return to.array(constant_values(wanted, before.shape).astype(before.dtype.numpy))

    def apply(line: Line, operands: tuple[str, ...]) -> str:
        if line.op in FOLDS:
            return to.node(KINDS[line.op], *operands, to.array(np.array([-1], np.int64)), keepdims=1)
        return to.node(KINDS[line.op], *operands)

    return evaluate(step, x, constant, apply)
