"""Layers of weakly typed networks in another type than that of their tensors.

In a half type, operands and results are rounded to it. In int8, the tensor of a product is rounded to steps
of its range and multiplied by its weights as codes, with 127 steps up to the largest weight of each output;
sums are exact, and results are floats again.

in_type(layer, DataType.HALF)           # a layer that computes in float16
in_codes(layer, 0.05)                   # … on codes that are worth 0.05 each
"""

from __future__ import annotations

from dataclasses import fields, replace
from math import prod
from typing import Final

import numpy as np

from anyrt.core.enums import BuilderFlag, DataType, LayerType, MatrixOperation
from anyrt.core.machine import Machine
from anyrt.ir.graph import Graph, Shape, Value, apply, users
from anyrt.ir.interpret import interpret
from anyrt.ir.rewrite import transformed
from anyrt.ops._filters import FilterAttrs
from anyrt.ops._product import coded
from anyrt.ops._quantized import codes
from anyrt.ops._record import EMPTY_BLOB, Attrs, Layer, Op
from anyrt.ops._scales import Scale, number
from anyrt.ops._types import FLOATS
from anyrt.ops.fully_connected import FullyConnectedAttrs
from anyrt.ops.matrix_multiply import MatrixMultiplyAttrs
from anyrt.passes.round_layers import rounded
from anyrt.prims.build import cast, const, map_
from anyrt.prims.const import Blob, Const
from anyrt.prims.map import CAST, Map, fn_of
from anyrt.prims.reshape import Reshape
from anyrt.prims.view import View

FLOAT, HALF, BF16, INT8 = DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.INT8
LARGEST_HALF: Final = 65504.0
HALVED: Final = (LayerType.MATRIX_MULTIPLY, LayerType.CONVOLUTION)
LEAST: Final = 1 << 17  # products of a layer that half types make faster, as measured
USUAL: Final = 64
EXCESS: Final = (BuilderFlag.EXCESS_PRECISION, BuilderFlag.FP16, BuilderFlag.BF16)
CONSTRAINTS: Final = (
    BuilderFlag.OBEY_PRECISION_CONSTRAINTS,
    BuilderFlag.PREFER_PRECISION_CONSTRAINTS,
)
# The contractions of layers, which other types make faster.
PRODUCTS: Final = (FilterAttrs, FullyConnectedAttrs, MatrixMultiplyAttrs)


def rounds_tensors(is_strong: bool, flags: int) -> bool:
    """Whether tensors are rounded to their types everywhere: unless a flag disables it, or the network is
    weakly typed and allows half types without precision constraints."""
    flagged = _flagged(flags)
    is_fixed = is_strong or BuilderFlag.OBEY_PRECISION_CONSTRAINTS in flagged
    return flagged.isdisjoint(EXCESS[:1] if is_fixed else EXCESS)


def _flagged(flags: int) -> frozenset[BuilderFlag]:
    return frozenset(flag for flag in BuilderFlag if flags >> int(flag) & 1)


def is_faster(dtype: DataType, machine: Machine, layer: Layer[Attrs]) -> bool:
    """Whether a layer is faster with products of a half type: bfloat16 if there are dots of it, float16 if
    tiles of bfloat16 sum its products, as four each, except for a few channels in groups; not with few
    products, whose operands take longer to convert."""
    groups = layer.attrs.num_groups if isinstance(layer.attrs, FilterAttrs) else 1
    if products(layer) < LEAST or (dtype is HALF and groups not in (1, layer.input(0).shape[1])):
        return False
    return dtype in machine.halves


def products(layer: Layer[Attrs]) -> int:
    """The approximate number of products of a layer; strides of windows are ignored."""
    x, attrs, other = layer.input(0), layer.attrs, layer.optional(1)
    if isinstance(attrs, FilterAttrs):
        kernel = attrs.kernel.size or (_size(other.shape) if other is not None else 0)
        return _size(x.shape) // max(_size(x.shape[1:2]), 1) * kernel
    if isinstance(attrs, FullyConnectedAttrs):
        return _size(x.shape) * attrs.num_output_channels
    assert isinstance(attrs, MatrixMultiplyAttrs), f"{layer.name} sums no products"
    b = layer.input(1).shape[-1 if attrs.op1 is MatrixOperation.VECTOR else -2 :]
    return _size(x.shape) * (_size(b) // max(_size(b[_summed(attrs.op1, 1) :][:1]), 1))


def _size(shape: Shape) -> int:
    """The elements of a shape, with typical sizes along dynamic axes."""
    return prod(d if isinstance(d, int) else USUAL for d in shape)


def takes(op: Op[Attrs], layer: Layer[Attrs], dtype: DataType) -> bool | None:
    """Whether all float operands of a layer may be of `dtype`; None if there are none."""
    floats = [op.operand(i) for i, v in enumerate(layer.inputs) if v is not None and v.dtype in FLOATS]
    return all(dtype in operand.dtypes for operand in floats) if floats else None


def fits_half(layer: Layer[Attrs], most: float | None) -> bool:
    """Whether float16 represents the weights of a layer, and the numbers up to `most` of its tensor, if
    known."""
    factor = weights_of(layer)
    # Refittable ones are checked at the refit, which rejects numbers that become infinite.
    known = factor is not None and factor[1].size and factor[1].is_known
    held = float(np.abs(_real(factor[1])).max()) if factor is not None and known else 0.0
    return held <= LARGEST_HALF and (most is None or most <= LARGEST_HALF)


def halves_weights(layer: Layer[Attrs], kind: LayerType) -> Layer[Attrs] | None:
    """The layer with its weights rounded to float16, as a plan stores them; None if these are not a float32
    matrix, or the kernel of a 1 × 1 convolution: convolutions with larger windows use Winograd tiles, whose
    weights differ (passes/winograd.py)."""
    factor = weights_of(layer)
    if factor is None or factor[1].dtype is not FLOAT or layer.input(factor[0]).dtype is not FLOAT:
        return None
    at, inputs, attrs = 1 - factor[0], [*layer.inputs], layer.attrs
    if isinstance(attrs, FilterAttrs) and kind is LayerType.CONVOLUTION:
        inputs = [inputs[0], _one_position(layer, attrs), *inputs[2:]]
        attrs = replace(attrs, kernel=EMPTY_BLOB)
    held = inputs[at] if kind in HALVED else None
    if held is None:
        return None
    inputs[at] = cast(cast(held, HALF), FLOAT)
    return replace(layer, attrs=attrs, inputs=tuple(inputs))


def _one_position(layer: Layer[Attrs], attrs: FilterAttrs) -> Value | None:
    """The kernel of a 1 × 1 convolution in one group, as an operand; None for others."""
    channels = layer.input(0).shape[1:2]
    shape = (attrs.num_output_maps, *channels, *attrs.kernel_size_nd)
    whole = [d for d in shape if isinstance(d, int)]
    kernel, count = layer.optional(1), attrs.kernel.size
    plain = attrs.num_groups == 1 and set(attrs.kernel_size_nd) == {1} and len(whole) == len(shape)
    if not plain or count != (prod(whole) if kernel is None else 0):
        return None
    return apply(Const(attrs.kernel, tuple(whole))) if kernel is None else kernel


def in_type(layer: Layer[Attrs], dtype: DataType, rounds: bool) -> Layer[Attrs]:
    """The layer with operands of `dtype` in place of other floats, rounded to it even if they are not
    stored."""
    inputs = list(layer.inputs)
    for i, v in enumerate(inputs):
        if v is not None and v.dtype in FLOATS and v.dtype is not dtype:
            inputs[i] = rounded(cast(v, dtype)) if rounds else cast(v, dtype)
    return replace(layer, attrs=_widened(layer.attrs, dtype), inputs=tuple(inputs))


def stored_once(graph: Graph, is_strong: bool, flags: int) -> Graph:
    """`graph`, in which float32 values that are also cast to bfloat16, for products, are bfloat16 for
    elementwise functions to float32, too: memory holds them once, in half the bytes. This needs permission
    for bfloat16 and no precisions as constraints or preferences. Outputs keep their numbers."""
    outputs, readers = {v for _, v in graph.outputs}, users(graph)

    def is_twice(v: Value) -> bool:
        narrow = [fn_of(r) == CAST and r.dtype is BF16 for r in readers[v]]
        return v.dtype is FLOAT and v not in outputs and any(narrow) and not all(narrow)

    def change(old: Value, new: Value) -> Value:
        if not isinstance(old.op, Map) or old.dtype is not FLOAT:  # comparisons and indices stay exact
            return new
        pairs = zip(old.args, new.args, strict=True)
        return apply(old.op, *(cast(cast(x, BF16), FLOAT) if is_twice(v) else x for v, x in pairs))

    flagged = _flagged(flags)
    is_free = not is_strong and BuilderFlag.BF16 in flagged and flagged.isdisjoint(CONSTRAINTS)
    return transformed(graph, change) if is_free else graph


def _widened(attrs: Attrs, dtype: DataType) -> Attrs:
    """Attributes with float32 in place of weights that are neither that nor of `dtype`."""
    held = {f.name: getattr(attrs, f.name) for f in fields(attrs)}
    other = FLOATS - {dtype, FLOAT}
    changed = {n: Blob(_real(x), FLOAT) for n, x in held.items() if isinstance(x, Blob) and x.dtype in other}
    return replace(attrs, **changed)


def weights_of(layer: Layer[Attrs]) -> tuple[int, Blob] | None:
    """The constant factor of a product of float32, and which operand the other one is; None if there is
    none."""
    attrs = layer.attrs
    if isinstance(attrs, FilterAttrs | FullyConnectedAttrs) and attrs.kernel.size:
        return 0, attrs.kernel
    places = (1, 0) if isinstance(attrs, MatrixMultiplyAttrs) else (1,)
    for i in places:
        blob, other = _constant(layer.optional(i)), layer.optional(1 - i)
        if blob is not None and other is not None and _constant(other) is None:
            return 1 - i, blob
    return None


def takes_codes(layer: Layer[Attrs]) -> int | None:
    """The operand of a product of float32 that int8 may replace, since the other one is constant."""
    factor = weights_of(layer)
    if factor is None or layer.input(factor[0]).dtype is not FLOAT or factor[1].dtype is not FLOAT:
        return None
    return factor[0] if not factor[1].is_known or bool(np.isfinite(factor[1].data).all()) else None


def in_codes(layer: Layer[Attrs], step: Scale) -> Layer[Attrs]:
    """The layer on codes with the scale `step` of its one tensor, and of its weights."""
    factor = weights_of(layer)
    assert factor is not None, f"{layer.name} has no constant factor"
    (at, blob), inputs, attrs = factor, list(layer.inputs), layer.attrs
    x = layer.input(at)
    inputs[at] = codes(map_("div", x, number(step, x)), INT8)
    if isinstance(attrs, MatrixMultiplyAttrs):
        steps = cast(inputs[at] or x, FLOAT)
        inputs[at] = map_("mul", steps, number(step, steps))
        how = attrs.op0 if at else attrs.op1
        inputs[1 - at] = _numbers(layer.name, blob, layer.input(1 - at).shape, _summed(how, 1 - at))
    elif isinstance(attrs, FilterAttrs) and len(inputs) > 1 and inputs[1] is not None:
        attrs, inputs[1] = replace(attrs, kernel=blob), None
    return replace(layer, attrs=attrs, inputs=tuple(inputs))


def _constant(value: Value | None) -> Blob | None:
    """The numbers of a value, if it is a constant, perhaps moved and cast."""
    source = value
    while source is not None and (isinstance(source.op, Reshape | View) or (fn_of(source) == CAST)):
        (source,) = source.args
    if value is None or source is None or not isinstance(source.op, Const):
        return None
    if source is value:
        return source.op.blob
    if not all(isinstance(d, int) for d in value.shape):
        return None
    array = interpret(Graph((), (("weights", value),)), {}, {})["weights"]
    return Blob(np.ascontiguousarray(array).reshape(-1), value.dtype, origin=source.op.blob.origin)


def _real(blob: Blob) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return blob.array.astype(np.float32)


def _numbers(where: str, blob: Blob, shape: tuple[object, ...], summed: int) -> Value:
    """A constant matrix rounded to codes, with a scale for each column or row that is an output's."""
    real = blob.fixed().astype(np.float32).reshape([d for d in shape if isinstance(d, int)])
    held, step = coded(where, real, (real.ndim + summed,))
    return map_("mul", cast(const(held, INT8), FLOAT), const(step, FLOAT))


def _summed(how: MatrixOperation, i: int) -> int:
    """The axis of factor `i` that is summed over, from the end."""
    if how is MatrixOperation.VECTOR:
        return -1
    return -2 if (how is MatrixOperation.NONE) == bool(i) else -1
