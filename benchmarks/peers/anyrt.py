"""AnyRT through its public API, bound to memory; the cases with several shapes also with a dynamic engine."""

from __future__ import annotations

import math
import time
from functools import cache, partial

import numpy as np

import anyrt as trt
from benchmarks.cases import Case
from benchmarks.formula import FOLDS, Constant, Formula, Line, Op, evaluate
from benchmarks.peers import Kept, Peer, Way
from benchmarks.steps import (
    Cast,
    Dequantize,
    Element,
    Grid,
    Mode,
    Norm,
    Quantize,
    Reach,
    Reshape,
    Resize,
    Rounding,
    Scale,
    Shape,
    Silu,
    Statistics,
    Step,
    Tensor,
    Transpose,
    affine_shape,
    norm_axes,
    scale_shape,
    types,
)
from benchmarks.values import Array, aligned, constant_values, norm_values, scale_values

LOGGER = trt.Logger(trt.Logger.ERROR)
DTYPES = {
    Element.F32: trt.float32,
    Element.F16: trt.float16,
    Element.BF16: trt.bfloat16,
    Element.U8: trt.uint8,
    Element.I8: trt.int8,
}
REACHES = {
    Reach.UNIFORM: trt.ScaleMode.UNIFORM,
    Reach.CHANNEL: trt.ScaleMode.CHANNEL,
    Reach.ELEMENTWISE: trt.ScaleMode.ELEMENTWISE,
}
MODES = {
    Mode.NEAREST: trt.InterpolationMode.NEAREST,
    Mode.LINEAR: trt.InterpolationMode.LINEAR,
    Mode.CUBIC: trt.InterpolationMode.CUBIC,
}
GRIDS = {
    Grid.HALF_PIXEL: trt.ResizeCoordinateTransformation.HALF_PIXEL,
    Grid.ALIGN_CORNERS: trt.ResizeCoordinateTransformation.ALIGN_CORNERS,
    Grid.ASYMMETRIC: trt.ResizeCoordinateTransformation.ASYMMETRIC,
}
ROUNDINGS = {
    Rounding.FLOOR: trt.ResizeRoundMode.FLOOR,
    Rounding.CEIL: trt.ResizeRoundMode.CEIL,
    Rounding.HALF_UP: trt.ResizeRoundMode.HALF_UP,
    Rounding.HALF_DOWN: trt.ResizeRoundMode.HALF_DOWN,
}
BOTH = {
    Op.ADD: trt.ElementWiseOperation.SUM,
    Op.SUB: trt.ElementWiseOperation.SUB,
    Op.MUL: trt.ElementWiseOperation.PROD,
    Op.DIV: trt.ElementWiseOperation.DIV,
    Op.POW: trt.ElementWiseOperation.POW,
}
EACH = {Op.SQRT: trt.UnaryOperation.SQRT, Op.RECIP: trt.UnaryOperation.RECIP}
REDUCED = {Op.MEAN: trt.ReduceOperation.AVG, Op.TOTAL: trt.ReduceOperation.SUM}
LOADS = 5
DYNAMIC = "dynamic"


def prepare(case: Case, x: Array, threads: int) -> tuple[Way, ...]:
    """A static engine, and a dynamic one where the case has several shapes."""
    plan, build_s = _plan(case, "", threads)
    ways: tuple[Way, ...] = (
        bound(case, x, plan, "", (("build_s", build_s), ("load_s", _load_seconds(plan)))),
    )
    if case.dynamic:
        plan, build_s = _plan(case, DYNAMIC, threads)
        ways += (bound(case, x, plan, DYNAMIC, (("build_s", build_s),)),)
    return ways


def plain(case: Case, x: Array, threads: int) -> tuple[Way, ...]:
    """engine.run(x=array)."""
    engine = _load(_plan(case, "", threads)[0])
    call = Kept(lambda: engine.run(x=x))
    return (Way("plain", partial(engine.run, x=x), lambda: _kept(call)),)


def _kept(call: Kept) -> Array:
    call()
    made = call.value
    assert isinstance(made, dict), "an engine gives a dict"
    return np.asarray(made["y"])


def bound(case: Case, x: Array, plan: bytes, label: str, facts: tuple[tuple[str, float], ...] = ()) -> Way:
    """The engine of a plan on memory of its own."""
    context = _load(plan).create_execution_context()
    assert context is not None, f"{case.name}: no context"
    assert context.set_input_shape("x", x.shape), f"{case.name}: shape {x.shape} is refused"
    out = aligned(types(case.steps, case.input)[-1])
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address("y", out.ctypes.data)
    return Way(label, partial(context.execute_async_v3, 0), lambda: out, facts)


def _load(plan: bytes) -> trt.ICudaEngine:
    engine = trt.Runtime(LOGGER).deserialize_cuda_engine(plan)
    assert engine is not None, "the plan is refused"
    return engine


def _load_seconds(plan: bytes) -> float:
    """The median time from bytes to a context, with a warm cache."""
    times = []
    for _ in range(LOADS):
        start = time.perf_counter()
        _load(plan).create_execution_context()
        times.append(time.perf_counter() - start)
    return sorted(times)[LOADS // 2]


@cache
def _plan(case: Case, label: str, threads: int) -> tuple[bytes, float]:
    """(plan, seconds)."""
    builder, network, config = described(case, label, threads)
    start = time.perf_counter()
    plan = builder.build_serialized_network(network, config)
    seconds = time.perf_counter() - start
    assert plan is not None, "the network is refused"
    return bytes(plan), seconds


def described(
    case: Case, label: str, threads: int
) -> tuple[trt.Builder, trt.INetworkDefinition, trt.IBuilderConfig]:
    """The case's network with its configuration, for the static engine or for the dynamic one."""
    shapes = case.dynamic if label == DYNAMIC else ()
    x = Tensor(shapes[0], case.input.dtype) if shapes else case.input
    builder = trt.Builder(LOGGER)
    network = builder.create_network()
    config = builder.create_builder_config()
    config.num_threads = threads
    columns = list(zip(*shapes, strict=True)) if shapes else [(d,) for d in x.shape]
    sizes = [c[0] if len(set(c)) == 1 else -1 for c in columns]
    if shapes:
        profile = builder.create_optimization_profile()
        profile.set_shape("x", *(tuple(f(c) for c in columns) for f in (min, _middle, max)))
        config.add_optimization_profile(profile)
    tensor = network.add_input("x", DTYPES[x.dtype], sizes)
    for step, before in zip(case.steps, types(case.steps, x), strict=False):
        tensor = _add(network, tensor, step, before)
    tensor.name = "y"
    network.mark_output(tensor)
    return builder, network, config


def _middle(column: tuple[int, ...]) -> int:
    return sorted(column)[len(column) // 2]


def _add(network: trt.INetworkDefinition, x: trt.ITensor, step: Step, before: Tensor) -> trt.ITensor:
    match step:
        case Scale():
            return _scale(network, x, step, before)
        case Resize():
            return _resize(network, x, step)
        case Transpose() | Reshape():
            return _shuffle(network, x, step)
        case Norm():
            return _norm(network, x, step, before)
        case Silu():
            gate = network.add_activation(x, trt.ActivationType.SIGMOID).get_output(0)
            return network.add_elementwise(x, gate, trt.ElementWiseOperation.PROD).get_output(0)
        case Cast(dtype):
            return network.add_cast(x, DTYPES[dtype]).get_output(0)
        case Dequantize(scale) | Quantize(scale):  # a property of the tensor: what its codes mean
            x.dynamic_range = (-127 * scale, 127 * scale)
            return x
        case Formula():
            return _formula(network, x, step, before)


def _scale(network: trt.INetworkDefinition, x: trt.ITensor, step: Scale, before: Tensor) -> trt.ITensor:
    scale, shift = scale_values(step, before.shape)
    size = math.prod(scale_shape(step, before.shape))
    power = None if step.power == 1 else np.full(size, step.power, np.float32)
    return network.add_scale_nd(x, REACHES[step.reach], shift, scale, power, step.axis).get_output(0)


def _resize(network: trt.INetworkDefinition, x: trt.ITensor, step: Resize) -> trt.ITensor:
    layer = network.add_resize(x)
    layer.resize_mode, layer.nearest_rounding = MODES[step.mode], ROUNDINGS[step.rounding]
    layer.coordinate_transformation = GRIDS[step.grid]
    if step.scales is not None:
        layer.scales = step.scales
    if step.size is not None:
        layer.shape = step.size
    return layer.get_output(0)


def _shuffle(network: trt.INetworkDefinition, x: trt.ITensor, step: Transpose | Reshape) -> trt.ITensor:
    layer = network.add_shuffle(x)
    match step:
        case Transpose(perm):
            layer.first_transpose = perm
        case Reshape(shape):
            layer.reshape_dims = shape
    return layer.get_output(0)


def _norm(network: trt.INetworkDefinition, x: trt.ITensor, step: Norm, before: Tensor) -> trt.ITensor:
    scale, bias = norm_values(step, before.shape)
    if step.kind is Statistics.RMS:
        return _rms(network, x, step, before, scale)
    mask = sum(1 << axis for axis in norm_axes(step, len(before.shape)))
    shape = affine_shape(step, before.shape)
    gain, offset = (_constant(network, a, shape, before.dtype) for a in (scale, bias))
    layer = network.add_normalization_v2(x, gain, offset, mask)
    layer.epsilon = step.epsilon
    if step.kind is Statistics.GROUP:
        layer.num_groups = step.groups
    return layer.get_output(0)


def _constant(network: trt.INetworkDefinition, array: Array, shape: Shape, dtype: Element) -> trt.ITensor:
    weights = np.ascontiguousarray(array.astype(dtype.numpy))
    return network.add_constant(shape, trt.Weights(weights)).get_output(0)


def _rms(
    network: trt.INetworkDefinition, x: trt.ITensor, step: Norm, before: Tensor, scale: Array
) -> trt.ITensor:
    """x / √(mean x² + ε) · scale, in float32."""
    ops = trt.ElementWiseOperation
    rank, axes = len(before.shape), sum(1 << a for a in norm_axes(step, len(before.shape)))

    def both(a: trt.ITensor, b: trt.ITensor, op: trt.ElementWiseOperation) -> trt.ITensor:
        return network.add_elementwise(a, b, op).get_output(0)

    wide = x if before.dtype is Element.F32 else network.add_cast(x, trt.float32).get_output(0)
    square = both(wide, wide, ops.PROD)
    mean = network.add_reduce(square, trt.ReduceOperation.AVG, axes, True).get_output(0)
    epsilon = _constant(network, np.full(1, step.epsilon), (1,) * rank, Element.F32)
    root = network.add_unary(both(mean, epsilon, ops.SUM), trt.UnaryOperation.SQRT).get_output(0)
    weights = _constant(network, scale, affine_shape(step, before.shape), Element.F32)
    y = both(both(wide, root, ops.DIV), weights, ops.PROD)
    return y if before.dtype is Element.F32 else network.add_cast(y, DTYPES[before.dtype]).get_output(0)


def _formula(network: trt.INetworkDefinition, x: trt.ITensor, step: Formula, before: Tensor) -> trt.ITensor:
    rank = len(before.shape)

    def constant(wanted: Constant) -> trt.ITensor:
        """With a shuffle to the rank of the others, as ONNX parsers add it."""
        values = constant_values(wanted, before.shape)
        made = _constant(network, values, values.shape, before.dtype)
        if values.ndim == rank:
            return made
        layer = network.add_shuffle(made)
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


PEER = Peer("AnyRT", trt.__anyrt_version__, prepare, plain)
