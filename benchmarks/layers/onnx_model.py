"""A case as an ONNX model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from onnx import TensorProto

from benchmarks import steps
from benchmarks.layers.arrays import Library, Run, chained, functions
from benchmarks.layers.cases import Case
from benchmarks.layers.formula import FOLDS, Op
from benchmarks.layers.taps import CUBIC
from benchmarks.onnx_writer import DTYPES, Writer
from benchmarks.peers import Model, Task
from benchmarks.steps import Element, Statistics, Tensor
from benchmarks.values import Array, norm_values

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
    """The model of a case; with an input of a half type also in float32 between casts."""
    case: Case = task.case
    forms, dtype = {"": case}, case.input.dtype
    if dtype.is_float and dtype is not Element.F32:
        forms["in float32"] = replace(case, steps=(steps.Cast(Element.F32), *case.steps, steps.Cast(dtype)))
    return {label: partial(_model, task, form) for label, form in forms.items()}


def _model(task: Task, case: Case) -> Model:
    writer = Writer()
    chained(functions(case, _library(writer)))("x")
    (output,) = task.outputs
    return Model(writer.model(case.name, task.inputs, output, OPSET, IR_VERSION), task.inputs, task.outputs)


def _norm(to: Writer, x: str, step: steps.Norm, before: Tensor) -> str:
    scale, bias = (a.astype(before.dtype.numpy) for a in norm_values(step, before.shape))
    rank = len(before.shape)
    match step.kind:
        case Statistics.LAYER:
            axis = steps.norm_axes(step, rank)[0]
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


def _rms(to: Writer, x: str, step: steps.Norm, before: Tensor, scale: Array) -> str:
    """Several nodes in float32, which peers may fuse: ONNX Runtime only if the weights have one axis."""
    wide = x if before.dtype is Element.F32 else to.node("Cast", x, to=TensorProto.FLOAT)
    normalized = steps.norm_axes(step, len(before.shape))
    axes, weights = to.array(np.array(normalized, np.int64)), scale.astype(np.float32)
    factor = to.array(weights.reshape(-1) if len(normalized) == 1 else weights)
    mean = to.node("ReduceMean", to.node("Pow", wide, to.array(np.array(2, np.float32))), axes, keepdims=1)
    root = to.node("Sqrt", to.node("Add", mean, to.array(np.array(step.epsilon, np.float32))))
    y = to.node("Mul", to.node("Div", wide, root), factor)
    return y if before.dtype is Element.F32 else to.node("Cast", y, to=DTYPES[before.dtype])


def _library(to: Writer) -> Library:
    """Nodes as functions of names."""
    last = partial(to.array, np.array([-1], np.int64))

    def fold(kind: str, x: str) -> str:
        return to.node(kind, x, last(), keepdims=1)

    def resize(step: steps.Resize, x: Tensor, library: Library, out: None) -> Run:
        sizes = np.array(steps.infer(step, x).shape, np.int64)
        return lambda y: to.node(
            "Resize", y, "", "", to.array(sizes), mode=step.mode.value, nearest_mode=step.rounding.value,
            coordinate_transformation_mode=step.grid.value, cubic_coeff_a=CUBIC,
        )  # fmt: skip

    def reshape(step: steps.Reshape, x: Tensor, library: Library, out: None) -> Run:
        return lambda y: to.node("Reshape", y, to.array(np.array(steps.infer(step, x).shape, np.int64)))

    def coded(
        kind: str, step: steps.Dequantize | steps.Quantize, x: Tensor, library: Library, out: None
    ) -> Run:
        numbers = (np.array(step.scale, np.float32), np.array(0, np.int8))
        return lambda y: to.node(kind, y, *map(to.array, numbers))

    return Library(
        {op: partial(fold if op in FOLDS else to.node, kind) for op, kind in KINDS.items()},
        constant=lambda a, dtype: to.array(a.astype(dtype.numpy)),
        cast=lambda y, dtype: to.node("Cast", y, to=DTYPES[dtype]),
        own={
            steps.Resize: resize,
            steps.Reshape: reshape,
            steps.Norm: lambda step, x, library, out: lambda y: _norm(to, y, step, x),
            steps.Transpose: lambda step, x, library, out: lambda y: to.node("Transpose", y, perm=step.perm),
            steps.Silu: lambda step, x, library, out: lambda y: to.node("Mul", y, to.node("Sigmoid", y)),
            steps.Dequantize: partial(coded, "DequantizeLinear"),
            steps.Quantize: partial(coded, "QuantizeLinear"),
        },
    )
