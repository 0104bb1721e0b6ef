"""The steps of a case as layers of AnyRT."""

from __future__ import annotations

import math

import numpy as np

import anyrt as trt
from benchmarks import steps
from benchmarks.layers.cases import Case
from benchmarks.layers.formula import FOLDS, Constant, Formula, Line, Op, evaluate
from benchmarks.layers.spellings import rms_steps
from benchmarks.peers import DYNAMIC, Task
from benchmarks.peers.anyrt import DTYPES, Sizes, inputs_of
from benchmarks.steps import Element, Shape, Statistics, Step, Tensor
from benchmarks.values import Array, constant_values, norm_values, scale_values

BOTH = {
    Op.ADD: trt.ElementWiseOperation.SUM,
    Op.SUB: trt.ElementWiseOperation.SUB,
    Op.MUL: trt.ElementWiseOperation.PROD,
    Op.DIV: trt.ElementWiseOperation.DIV,
    Op.POW: trt.ElementWiseOperation.POW,
}
EACH = {Op.SQRT: trt.UnaryOperation.SQRT, Op.RECIP: trt.UnaryOperation.RECIP}
REDUCED = {Op.MEAN: trt.ReduceOperation.AVG, Op.TOTAL: trt.ReduceOperation.SUM}
FLAGS = 0


def engines(case: Case) -> tuple[str, ...]:
    """A dynamic engine if the case has several shapes."""
    return (DYNAMIC,) if case.dynamic else ()


def sizes(case: Case) -> dict[str, tuple[Shape, ...]]:
    """The minimum, optimum and maximum shape of the input."""
    columns = [sorted(column) for column in zip(*case.dynamic, strict=True)]
    return {"x": tuple(tuple(c[k] for c in columns) for k in (0, len(case.dynamic) // 2, -1))}


def add(network: trt.INetworkDefinition, task: Task, sizes: Sizes) -> dict[str, trt.ITensor]:
    """The steps as layers."""
    case, tensor = task.case, inputs_of(network, task, sizes)["x"]
    x = Tensor(case.dynamic[0], case.input.dtype) if -1 in tensor.shape else case.input
    return {"y": _chain(network, tensor, case.steps, x)}


def _chain(
    network: trt.INetworkDefinition, tensor: trt.ITensor, chain: tuple[Step, ...], x: Tensor
) -> trt.ITensor:
    for step, before in zip(chain, steps.types(chain, x), strict=False):
        tensor = _add(network, tensor, step, before)
    return tensor


def _add(network: trt.INetworkDefinition, x: trt.ITensor, step: Step, before: Tensor) -> trt.ITensor:
    match step:
        case steps.Scale():
            return _scale(network, x, step, before)
        case steps.Resize():
            return _resize(network, x, step)
        case steps.Transpose() | steps.Reshape():
            return _shuffle(network, x, step)
        case steps.Norm(kind=Statistics.RMS):
            return _chain(network, x, rms_steps(before), before)
        case steps.Norm():
            return _norm(network, x, step, before)
        case steps.Silu():
            gate = network.add_activation(x, trt.ActivationType.SIGMOID).get_output(0)
            return network.add_elementwise(x, gate, trt.ElementWiseOperation.PROD).get_output(0)
        case steps.Cast(dtype):
            return network.add_cast(x, DTYPES[dtype.numpy]).get_output(0)
        case steps.Dequantize(scale) | steps.Quantize(scale):  # a property of the tensor
            x.dynamic_range = (-127 * scale, 127 * scale)
            return x
        case Formula():
            return _formula(network, x, step, before)


def _scale(network: trt.INetworkDefinition, x: trt.ITensor, step: steps.Scale, before: Tensor) -> trt.ITensor:
    scale, shift = scale_values(step, before.shape)
    size = math.prod(steps.scale_shape(step, before.shape))
    power = None if step.power == 1 else np.full(size, step.power, np.float32)
    return network.add_scale_nd(x, trt.ScaleMode[step.reach.name], shift, scale, power, step.axis).get_output(
        0
    )


def _resize(network: trt.INetworkDefinition, x: trt.ITensor, step: steps.Resize) -> trt.ITensor:
    layer = network.add_resize(x)
    layer.resize_mode = trt.InterpolationMode[step.mode.name]
    layer.nearest_rounding = trt.ResizeRoundMode[step.rounding.name]
    layer.coordinate_transformation = trt.ResizeCoordinateTransformation[step.grid.name]
    if step.scales is not None:
        layer.scales = step.scales
    if step.size is not None:
        layer.shape = step.size
    return layer.get_output(0)


def _shuffle(
    network: trt.INetworkDefinition, x: trt.ITensor, step: steps.Transpose | steps.Reshape
) -> trt.ITensor:
    layer = network.add_shuffle(x)
    match step:
        case steps.Transpose(perm):
            layer.first_transpose = perm
        case steps.Reshape(shape):
            layer.reshape_dims = shape
    return layer.get_output(0)


def _norm(network: trt.INetworkDefinition, x: trt.ITensor, step: steps.Norm, before: Tensor) -> trt.ITensor:
    scale, bias = norm_values(step, before.shape)
    mask = sum(1 << axis for axis in steps.norm_axes(step, len(before.shape)))
    shape = steps.affine_shape(step, before.shape)
    gain, offset = (_constant(network, a, shape, before.dtype) for a in (scale, bias))
    layer = network.add_normalization_v2(x, gain, offset, mask)
    layer.epsilon = step.epsilon
    if step.kind is Statistics.GROUP:
        layer.num_groups = step.groups
    return layer.get_output(0)


def _constant(network: trt.INetworkDefinition, array: Array, shape: Shape, dtype: Element) -> trt.ITensor:
    weights = np.ascontiguousarray(array.astype(dtype.numpy))
    return network.add_constant(shape, trt.Weights(weights)).get_output(0)


def _formula(network: trt.INetworkDefinition, x: trt.ITensor, step: Formula, before: Tensor) -> trt.ITensor:
    rank = len(before.shape)

    def constant(symbol: Constant) -> trt.ITensor:
        """With a shuffle to the rank of the input, as ONNX parsers add it."""
        values = constant_values(symbol, before.shape)
        tensor = _constant(network, values, values.shape, before.dtype)
        if values.ndim == rank:
            return tensor
        layer = network.add_shuffle(tensor)
        layer.reshape_dims = (1,) * (rank - values.ndim) + values.shape
        return layer.get_output(0)

    def apply(line: Line, operands: tuple[trt.ITensor, ...]) -> trt.ITensor:
        a, *others = operands
        if line.op in FOLDS:
            return network.add_reduce(a, REDUCED[line.op], 1 << (rank - 1), True).get_output(0)
        if line.op in EACH:
            return network.add_unary(a, EACH[line.op]).get_output(0)
        return network.add_elementwise(a, others[0], BOTH[line.op]).get_output(0)

    return evaluate(step, x, constant, apply)
