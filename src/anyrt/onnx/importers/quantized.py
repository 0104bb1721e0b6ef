"""Quantization to narrow types, and exact products of codes.

y = dequantized(node, q, scale, zero)       # (q − zero) · scale
q = quantized(node, y, scale, zero)         # round(y / scale) + zero, saturated
Layers use int8 codes; uint8 codes are shifted by 128, and back unless only DequantizeLinear reads them.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np

from anyrt.api.compose.tensor import Tensor
from anyrt.api.compose.windows import Windows, channels_of
from anyrt.core.dtype import is_float, short_name
from anyrt.core.enums import DataType, ReduceOperation, UnaryOperation
from anyrt.core.errors import ArgumentError, DTypeError, ShapeError
from anyrt.onnx.importers.windows import (
    filtered,
    kernel_size,
    windows_of,
    with_channels,
)
from anyrt.onnx.node import Node, importer

D = DataType
FLOAT, INT32, INT8, UINT8 = D.FLOAT, D.INT32, D.INT8, D.UINT8
NATIVE = frozenset(
    {INT8, UINT8, D.INT4, D.FP8, D.FP4}
)  # types of Quantize, and types that differ from them by one step
REALS = frozenset({FLOAT, D.HALF, D.BF16})
UNCAST = frozenset({D.INT4, D.FP8, D.FP4})  # types that casts do not support
LARGEST = {D.FP8E5M2: 57344.0, D.FP8E5M2FNUZ: 57344.0, D.FP8E4M3FNUZ: 240.0}
MOVED = 128  # from uint8 to int8
FIRST = 8  # from uint4 to int4


@dataclass(frozen=True, slots=True)
class Grain:
    """The granularity of scales: per tensor, per axis, or per block along an axis."""

    axis: int = 1
    block: int = 0


def grain_of(node: Node) -> Grain:
    """The granularity that the attributes specify, with an axis from 0 on; a scale per tensor has no axis."""
    x, scale = node.input(0), node.input(1)
    slices = x.rank > 1 and scale.rank > 0 and scale.sizes != (1,)
    grain = Grain(node.axis(x, default=1) if slices else 0, node.attr("block_size", 0))
    if grain.block < 0:
        got, do = f"block_size {grain.block}", "set the number of elements that share a scale"
        raise ArgumentError("AR304", node.where, got, "0 (no blocks) or more", do)
    if not is_float(scale.dtype):
        got, do = f"a scale of {short_name(scale.dtype)}", "pass the scale as floats"
        raise DTypeError("AR202", node.where, got, "a floating-point type", do)
    if grain.block and slices:
        zero = node.optional(2)
        _check_blocks(node, x, "scale", scale, grain)
        if zero is not None and zero.rank:
            _check_blocks(node, x, "zero point", zero, grain)
    return grain


def _check_blocks(node: Node, x: Tensor, what: str, scale: Tensor, grain: Grain) -> None:
    """Raise AR123 unless there is one value for each block; the last block may be incomplete."""
    block, axis = grain.block, grain.axis
    each = tuple(-(-d // block) if k == axis else d for k, d in enumerate(x.sizes))
    known = -1 not in (*each, *scale.sizes)
    if scale.rank != x.rank or (known and scale.sizes != each):
        got = f"a {what} of shape {scale.sizes} for {x.sizes} in blocks of {block} along axis {axis}"
        raise ShapeError("AR123", node.where, got, f"shape {each}", "pass one value for each block")


def zero_of(node: Node, narrow: DataType, others: Container[DataType] = ()) -> Tensor | None:
    """The zero point, input 2, which has the type of the codes."""
    zero = node.optional(2)
    if zero is not None and zero.dtype is not narrow and zero.dtype not in others:
        got = f"a zero point of {short_name(zero.dtype)} for codes of {short_name(narrow)}"
        raise DTypeError("AR203", node.where, got, short_name(narrow), "use the type of the codes")
    return zero


def numbers(x: Tensor) -> Tensor:
    """Convert elements of any type to FLOAT."""
    if x.dtype in UNCAST:
        return x.layers.layer("add_dequantize", _ranked(x), _one(x), FLOAT).reshape(x.sizes if not x.rank else
                                                                                   x.shape())  # fmt: skip
    return x.cast(FLOAT)


def stored(y: Tensor, to: DataType) -> Tensor:
    """Round FLOAT numbers to a type, with saturation."""
    if to in UNCAST:
        return y.layers.layer("add_quantize", _ranked(y), _one(y), to).reshape(y.shape())
    if is_float(to):
        most = LARGEST.get(to)
        return (y if most is None else y.clip(-most, most)).cast(to)
    return y.nearest(to)


def _one(x: Tensor) -> Tensor:
    return x.layers.constant(np.float32(1))


def _ranked(x: Tensor) -> Tensor:
    return x if x.rank else x.reshape((1,))


def beside(v: Tensor, x: Tensor, grain: Grain) -> Tensor:
    """Reshape a scale or zero point so that it broadcasts with `x`."""
    layers, k = x.layers, grain.axis
    if grain.block and v.rank == x.rank and v.rank:
        wide = numbers(v) if v.dtype in UNCAST else v
        if -1 not in v.sizes and x.sizes[k] == grain.block * v.sizes[k]:  # repeated in place
            one = wide.reshape([*v.sizes[: k + 1], 1, *v.sizes[k + 1 :]])
            each = [*v.sizes[: k + 1], grain.block, *v.sizes[k + 1 :]]
            return layers.expand(one, each).reshape([*v.sizes[:k], x.sizes[k], *v.sizes[k + 1 :]])
        wide = numbers(wide) if v.dtype.is_extension else wide
        return layers.gather(wide, layers.counted(x.size(k)) // grain.block, k)
    if v.rank == 1 and v.sizes[0] != 1 and x.rank > 1:
        return v.reshape([-1 if k == grain.axis else 1 for k in range(x.rank)])
    return v.reshape((1,) * x.rank) if v.rank != x.rank else v


def quantized(
    node: Node, x: Tensor, scale: Tensor, zero: Tensor | None, to: DataType, grain: Grain | None = None
) -> Tensor:
    """round(x / scale) + zero."""
    grain = grain or Grain()
    native = _ends(x, scale, grain) and _is_native(node, x, to, scale, zero)
    if native and x.dtype in REALS and scale.dtype in (x.dtype, FLOAT):
        narrow, at = (INT8, _moved(node, zero, scale)) if to is UINT8 else (to, zero)
        codes = _layer(node, "add_quantize", x, scale, at, narrow, grain)
        if to is narrow:
            return codes
        if node.moved is None:
            return (codes.cast(INT32) + MOVED).cast(UINT8)
        node.moved.add(codes.it)
        return codes
    steps = numbers(x) / beside(scale, x, grain).cast(FLOAT)
    if zero is not None and not is_float(to):
        steps = node.unary(UnaryOperation.ROUND, steps) + numbers(beside(zero, x, grain))
    return stored(steps, to)


def dequantized(
    node: Node,
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    to: DataType = FLOAT,
    grain: Grain | None = None,
) -> Tensor:
    """(x − zero) · scale."""
    grain = grain or Grain()
    x, zero = (x, _moved(node, zero, scale)) if _is_moved(node, x) else _signed(node, x, zero)
    native = _ends(x, scale, grain) and _is_native(node, x, x.dtype, scale, zero)
    if native and to in REALS and scale.dtype in REALS:
        if x.dtype is not UINT8:
            return _layer(node, "add_dequantize", x, scale, zero, to, grain)
        codes = (x.cast(INT32) - MOVED).cast(INT8)
        return _layer(node, "add_dequantize", codes, scale, _moved(node, zero, scale), to, grain)
    steps = numbers(x) if zero is None else numbers(x) - numbers(beside(zero, x, grain))
    return (steps * beside(scale, x, grain).cast(FLOAT)).cast(to)


def _is_moved(node: Node, x: Tensor) -> bool:
    return node.moved is not None and x.it in node.moved


def _signed(node: Node, x: Tensor, zero: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Convert constant uint4 weights with zero points to the equivalent int4 weights."""
    held = [None if v is None or v.dtype is not D.UINT4 else node.held(v) for v in (x, zero)]
    if held[0] is None or zero is None or held[1] is None:
        return x, zero
    codes = (np.asarray(w.elements()).astype(np.int8) - FIRST for w in held if w is not None)
    weights, less = (node.constant(a.reshape(v.sizes), D.INT4) for a, v in zip(codes, (x, zero), strict=True))
    return weights, less


def _is_native(node: Node, x: Tensor, narrow: DataType, scale: Tensor, zero: Tensor | None) -> bool:
    """Whether a layer supports this type of codes, these scales and these zero points."""
    held = node.held(scale)
    fine = held is None or bool((np.asarray(held.elements()).astype(np.float64) > 0).all())
    known = zero is None or (node.held(zero) is not None and zero.dtype is narrow)
    if narrow is UINT8:
        known = known and (scale.rank < 2 or zero is not None)
    return narrow in NATIVE and fine and known and x.rank > 0 and -1 not in scale.sizes


def _ends(x: Tensor, scale: Tensor, grain: Grain) -> bool:
    """Whether the last block is complete: layers support only complete blocks."""
    return not grain.block or scale.rank != x.rank or max(x.sizes[grain.axis], 0) % grain.block == 0


def _moved(node: Node, zero: Tensor | None, scale: Tensor) -> Tensor:
    """Convert a zero point from uint8 to int8."""
    held = None if zero is None else node.held(zero)
    if zero is not None and held is None:
        return (zero.cast(INT32) - MOVED).cast(INT8)
    shape = scale.sizes if zero is None else zero.sizes
    codes = np.zeros(shape) if held is None else np.asarray(held.elements()).astype(np.float64).reshape(shape)
    return node.constant(codes - MOVED, INT8)


def _layer(
    node: Node, method: str, x: Tensor, scale: Tensor, zero: Tensor | None, to: DataType, grain: Grain
) -> Tensor:
    layer = node.add(method, x, scale, to)
    if scale.rank:
        layer.axis = grain.axis
    if grain.block and scale.rank == x.rank:
        layer.block_shape = tuple(grain.block if k == grain.axis else 1 for k in range(x.rank))
    return node.with_inputs(layer, {2: zero})


@importer("QuantizeLinear")
def quantize_linear(node: Node) -> Tensor:
    """QuantizeLinear: codes of the type of the zero point."""
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    to = node.dtype("output_dtype", UINT8 if zero is None else zero.dtype)
    return quantized(node, x, scale, zero, to, grain_of(node))


@importer("DequantizeLinear")
def dequantize_linear(node: Node) -> Tensor:
    """DequantizeLinear: numbers of the type of the scale."""
    x, scale = node.input(0), node.input(1)
    to = node.dtype("output_dtype", scale.dtype)
    narrow = UINT8 if _is_moved(node, x) else x.dtype
    return dequantized(node, x, scale, zero_of(node, narrow), to, grain_of(node))


# ---- products of codes ----------------------------------------------------------------------------


def whole(x: Tensor, zero: Tensor | None, rows: bool = False) -> Tensor:
    """Codes minus their zero point, as INT32; rows: a vector of zero points has one for each row."""
    y = x.cast(INT32)
    if zero is None:
        return y
    zero = zero.cast(INT32)
    return y - (zero.reshape((-1, 1)) if rows and zero.rank == 1 and zero.sizes[0] != 1 else zero)


def real(x: Tensor, zero: Tensor | None) -> Tensor:
    """Floating-point codes minus their zero point."""
    return numbers(x) if zero is None else numbers(x) - numbers(zero)


def summed(node: Node, a: Tensor, a_zero: Tensor | None, b: Tensor, b_zero: Tensor | None) -> Tensor:
    """The matrix product of codes: INT32, or FLOAT for floating-point codes."""
    if is_float(a.dtype):
        return node.matmul(real(a, a_zero), real(b, b_zero))
    return node.matmul(whole(a, a_zero, rows=True), whole(b, b_zero))


@importer("MatMulInteger")
def matmul_integer(node: Node) -> Tensor:
    """Exact sums of products."""
    return summed(node, node.input(0), node.optional(2), node.input(1), node.optional(3))


@importer("QLinearMatMul")
def qlinear_matmul(node: Node) -> Tensor:
    """Sums of products of codes, quantized."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (node.input(i) for i in range(8))
    sums = summed(node, a, a_zero, b, b_zero).cast(FLOAT)
    rows = a_scale.cast(FLOAT)
    rows = rows.reshape((-1, 1)) if rows.rank == 1 and rows.sizes[0] != 1 else rows
    worth = rows * b_scale.cast(FLOAT) / y_scale.cast(FLOAT)
    return coded(node, sums * worth, y_zero)


def coded(node: Node, steps: Tensor, zero: Tensor) -> Tensor:
    """Quantize steps with scale 1 to the type of the zero point; kernels compute it like Quantize."""
    if is_float(zero.dtype):
        return stored(steps, zero.dtype)
    if zero.dtype in (INT8, UINT8) and zero.sizes in ((), (1,)):
        return quantized(node, steps, node.constant(np.ones(zero.sizes), FLOAT), zero, zero.dtype)
    return stored(node.unary(UnaryOperation.ROUND, steps) + numbers(zero), zero.dtype)


def convolved(
    node: Node, x: Tensor, x_zero: Tensor | None, kernel: Tensor, kernel_zero: Tensor | None
) -> Tensor:
    """The convolution of codes, exact, as INT32."""
    by: Windows = windows_of(node, kernel_size(node, kernel))
    maps, each = (channels_of(node, kernel, k) for k in (0, 1))
    x = with_channels(node, x, each * node.attr("group", 1))
    if kernel_zero is not None and kernel_zero.rank == 1:
        kernel_zero = kernel_zero.reshape([-1, *(1 for _ in kernel.sizes[1:])])
    if x_zero is not None:
        x_zero = x_zero.reshape((1,) * x.rank)
    return filtered(node, "add_convolution_nd", whole(x, x_zero), whole(kernel, kernel_zero), None, by, maps)


@importer("ConvInteger")
def conv_integer(node: Node) -> Tensor:
    """Exact sums of products."""
    return convolved(node, node.input(0), node.optional(2), node.input(1), node.optional(3))


@importer("QLinearConv")
def qlinear_conv(node: Node) -> Tensor:
    """Sums of products of codes, quantized."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (node.input(i) for i in range(8))
    sums, bias = convolved(node, x, x_zero, w, w_zero), node.optional(8)
    each = [-1, *(1 for _ in w.sizes[2:])]
    if bias is not None:
        sums = sums + bias.reshape(each)
    worth = w_scale.reshape(each) * x_scale.reshape((1,)) / y_scale.reshape((1,))
    return coded(node, sums.cast(FLOAT) * worth, y_zero)


@importer("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node) -> list[Tensor]:
    """uint8 codes with the scale and zero point of the actual numbers."""
    return list(measured(node, node.input(0)))


def measured(node: Node, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """uint8 codes, their scale, and their zero point; the range includes 0 and all numbers."""
    every = range(x.rank)
    low = node.reduce(ReduceOperation.MIN, x, every, keep=False).minimum(0.0)
    high = node.reduce(ReduceOperation.MAX, x, every, keep=False).maximum(0.0)
    scale = (high - low) / 255.0
    zero = stored((0.0 - low / scale).clip(0.0, 255.0), UINT8)
    steps = node.unary(UnaryOperation.ROUND, x / scale) + zero.cast(FLOAT)
    return stored(steps, UINT8), scale, zero
