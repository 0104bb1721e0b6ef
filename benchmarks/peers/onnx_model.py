"""A case as an ONNX model, for the peers that read these."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.cases import Case
from benchmarks.formula import FOLDS, Constant, Formula, Line, Op, evaluate
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
from benchmarks.taps import CUBIC
from benchmarks.values import Array, constant_values, norm_values, scale_values

OPSET, IR_VERSION = 21, 10
DTYPES = {
    Element.F32: TensorProto.FLOAT,
    Element.F16: TensorProto.FLOAT16,
    Element.BF16: TensorProto.BFLOAT16,
    Element.U8: TensorProto.UINT8,
    Element.I8: TensorProto.INT8,
}
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


def model_of(case: Case) -> bytes:
    """The model: input x, output y."""
    tensors = types(case.steps, case.input)
    writer = _Writer()
    name = "x"
    for step, before in zip(case.steps, tensors, strict=False):
        name = _add(writer, name, step, before)
    ends = [
        helper.make_tensor_value_info(n, DTYPES[t.dtype], t.shape)
        for n, t in (("x", tensors[0]), ("y", tensors[-1]))
    ]
    writer.nodes[-1].output[0] = "y"
    graph = helper.make_graph(writer.nodes, case.name, ends[:1], ends[1:], writer.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def widened(case: Case) -> Case | None:
    """The same in float32 between two casts, where the input is of a half type."""
    dtype = case.input.dtype
    if not dtype.is_float or dtype is Element.F32:
        return None
    return replace(case, steps=(Cast(Element.F32), *case.steps, Cast(dtype)))


@dataclass(slots=True)
class _Writer:
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:  # Any: as make_node takes them
        """Add a node; the name of its output."""
        out = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def constant(self, array: Array) -> str:
        """Add an initialiser; its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name


def _add(to: _Writer, x: str, step: Step, before: Tensor) -> str:
    match step:
        case Scale():
            return _scale(to, x, step, before)
        case Resize():
            return _resize(to, x, step, before)
        case Transpose(perm):
            return to.node("Transpose", x, perm=perm)
        case Reshape():
            return to.node("Reshape", x, to.constant(np.array(infer(step, before).shape, np.int64)))
        case Norm():
            return _norm(to, x, step, before)
        case Silu():
            return to.node("Mul", x, to.node("Sigmoid", x))
        case Cast() | Dequantize() | Quantize():
            return _converted(to, x, step)
        case Formula():
            return _formula(to, x, step, before)


def _converted(to: _Writer, x: str, step: Cast | Dequantize | Quantize) -> str:
    match step:
        case Cast(dtype):
            return to.node("Cast", x, to=DTYPES[dtype])
        case Dequantize(scale):
            return to.node("DequantizeLinear", x, *_codes(to, scale))
        case Quantize(scale):
            return to.node("QuantizeLinear", x, *_codes(to, scale))


def _codes(to: _Writer, scale: float) -> tuple[str, str]:
    return to.constant(np.array(scale, np.float32)), to.constant(np.array(0, np.int8))


def _scale(to: _Writer, x: str, step: Scale, before: Tensor) -> str:
    scale, shift = scale_values(step, before.shape)
    dtype = before.dtype.numpy
    if scale is not None:
        x = to.node("Mul", x, to.constant(scale.astype(dtype)))
    if shift is not None:
        x = to.node("Add", x, to.constant(shift.astype(dtype)))
    if step.power == 2:
        return to.node("Mul", x, x)
    if step.power == 0.5:
        return to.node("Sqrt", x)
    return x if step.power == 1 else to.node("Pow", x, to.constant(np.array(step.power, dtype)))


def _resize(to: _Writer, x: str, step: Resize, before: Tensor) -> str:
    sizes = to.constant(np.array(infer(step, before).shape, np.int64))
    return to.node(
        "Resize", x, "", "", sizes, mode=step.mode.value, nearest_mode=step.rounding.value,
        coordinate_transformation_mode=step.grid.value, cubic_coeff_a=CUBIC,
    )  # fmt: skip


def _norm(to: _Writer, x: str, step: Norm, before: Tensor) -> str:
    scale, bias = (a.astype(before.dtype.numpy) for a in norm_values(step, before.shape))
    rank = len(before.shape)
    match step.kind:
        case Statistics.LAYER:
            axis = norm_axes(step, rank)[0]
            rows = before.shape[axis:]
            affine = [to.constant(a.reshape(rows)) for a in (scale, bias)]
            return to.node("LayerNormalization", x, *affine, axis=axis, epsilon=step.epsilon)
        case Statistics.GROUP:
            affine = [to.constant(a.reshape(-1)) for a in (scale, bias)]
            return to.node("GroupNormalization", x, *affine, num_groups=step.groups, epsilon=step.epsilon)
        case Statistics.INSTANCE:
            affine = [to.constant(a.reshape(-1)) for a in (scale, bias)]
            return to.node("InstanceNormalization", x, *affine, epsilon=step.epsilon)
        case Statistics.RMS:
            return _rms(to, x, step, before, scale)


def _rms(to: _Writer, x: str, step: Norm, before: Tensor, scale: Array) -> str:
    """As a composition in float32, which peers fuse where they know it."""
    wide = x if before.dtype is Element.F32 else to.node("Cast", x, to=TensorProto.FLOAT)
    axes = to.constant(np.array(norm_axes(step, len(before.shape)), np.int64))
    mean = to.node("ReduceMean", to.node("Pow", wide, to.constant(np.array(2, np.float32))), axes, keepdims=1)
    root = to.node("Sqrt", to.node("Add", mean, to.constant(np.array(step.epsilon, np.float32))))
    y = to.node("Mul", to.node("Div", wide, root), to.constant(scale.astype(np.float32)))
    return y if before.dtype is Element.F32 else to.node("Cast", y, to=DTYPES[before.dtype])


def _formula(to: _Writer, x: str, step: Formula, before: Tensor) -> str:
    def constant(wanted: Constant) -> str:
        return to.constant(constant_values(wanted, before.shape).astype(before.dtype.numpy))

    def apply(line: Line, operands: tuple[str, ...]) -> str:
        if line.op in FOLDS:
            return to.node(KINDS[line.op], *operands, to.constant(np.array([-1], np.int64)), keepdims=1)
        return to.node(KINDS[line.op], *operands)

    return evaluate(step, x, constant, apply)
