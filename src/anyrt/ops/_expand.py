"""From a layer to primitives: `expand_layer` checks operands, interprets INT8 tensors, and expands the layer.

INT8 with dynamic ranges: an element q of a tensor with scale s (range / 127; 1 without a range) represents
q·s. Layers that compute (`Op.real_int8`) use these real numbers in float32. The result is divided by the
scale of the output, rounded half to even and saturated to −128 … 127; NaN becomes −128. Layers that only move
elements copy the codes, after converting every operand to the scale of the output. An output without a range
then has the scale of the first INT8 operand. Quantize and Dequantize (`Op.coded`) have scales of their own:
they write and read codes, whatever the ranges.
"""

from __future__ import annotations

from dataclasses import replace

from anyrt.core.counts import highest
from anyrt.core.dims import always_le, product
from anyrt.core.dtype import is_float, short_name
from anyrt.core.enums import DataType
from anyrt.core.errors import AnyrtError, DTypeError, GraphError, ShapeError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Value
from anyrt.ops._axes import with_axes
from anyrt.ops._check import check_dtype, check_rank, checked, need, show
from anyrt.ops._quantized import codes as to_codes
from anyrt.ops._record import A, Layer, Op
from anyrt.ops._scales import Scale, over, ratio, times
from anyrt.prims.build import cast, converted

DLA_TYPES = frozenset({DataType.HALF, DataType.INT8})
DLA_BATCH, DLA_SIZE = 4096, 8192


def expand_layer(
    op: Op[A],
    layer: Layer[A],
    in_scales: tuple[Scale, ...] = (),
    out_scale: Scale | None = None,
    out_type: DataType | None = None,
) -> tuple[Value, ...]:
    """The outputs of `layer` as values of the graph; every error names the layer.

    in_scales: scale of each operand, 1 if missing. out_scale: None if the output has no dynamic range.
    out_type: the type requested for output 0 (set_output_type of weakly typed networks).
    """
    try:
        _check_operands(op, layer)
        layer = with_axes(op, layer)
        staged = _stage_int8(op, layer, in_scales, out_scale)
        outputs = _limited(op, layer, op.expand(staged))
    except AnyrtError as e:
        raise e if e.where == layer.name else e.at(layer.name) from e
    if out_type is DataType.E8M0:
        raise DTypeError("AR206", layer.name, "e8m0 for an output", "a type that layers compute or store")
    first = outputs[0]
    dtype = DataType.INT8 if staged.int8 and first.dtype is DataType.FLOAT else first.dtype
    return (
        _convert(op, layer, first, out_type or dtype, 1.0 if out_scale is None else out_scale),
        *outputs[1:],
    )


def output_scale(op: Op[A], layer: Layer[A], in_scales: tuple[Scale, ...], out_scale: Scale | None) -> Scale:
    """The scale of an INT8 output."""
    if out_scale is not None:
        return out_scale
    if op.real_int8(layer.attrs):
        return 1.0
    return next((_scale(in_scales, i) for i, v in enumerate(layer.inputs) if _is_int8(v)), 1.0)


def dla_reason(op: Op[A], layer: Layer[A], types: frozenset[DataType] = DLA_TYPES) -> str | None:
    """The reason why DLA cannot run `layer`, or None. `types`: the element types that the layer may use."""
    try:
        reason, outputs = op.dla(layer), expand_layer(op, layer)
    except AnyrtError as e:
        return f"the layer is invalid: {e}"
    if reason is not None:
        return reason
    operands = [v for i, v in enumerate(layer.inputs) if v is not None and not op.operand(i).shape_values]
    for value in (*operands, *outputs):
        if value.dtype not in types:
            return f"DLA computes in float16 and int8, not in {short_name(value.dtype)}"
        if not all(isinstance(d, int) for d in value.shape):
            return f"DLA takes no dynamic dimensions, got {show(value.shape)}"
        if any(not always_le(d, DLA_SIZE if i else DLA_BATCH) for i, d in enumerate(value.shape)):
            return f"DLA takes batches to {DLA_BATCH} and other sizes to {DLA_SIZE}, got {show(value.shape)}"
    return None


def _check_operands(op: Op[A], layer: Layer[A]) -> None:
    count = len(layer.inputs) if op.methods[0].variadic else len(op.inputs)
    for i in range(max(count, 1 if op.inputs else 0)):
        allowed, value = op.operand(i), layer.optional(i)
        if value is None and allowed.required:
            raise GraphError("AR406", layer.name, f"no input {i} ({allowed.name})", "a tensor", "connect it")
        if value is None:
            continue
        check_dtype(layer.name, value.dtype, allowed.dtypes, f"input {i} ({allowed.name})")
        if allowed.same_as is not None and (other := layer.optional(allowed.same_as)) is not None:
            _check_same_type(layer.name, other, value, i, allowed.same_as)
    for value in filter(None, layer.inputs):
        volume = highest(product(value.shape))
        if isinstance(volume, int) and volume > op.volume_limit:
            raise ShapeError(
                "AR111", layer.name, f"{volume} elements", f"at most {op.volume_limit}", "split the tensor"
            )


def _check_same_type(where: str, first: Value, value: Value, i: int, j: int) -> None:
    if value.dtype is not first.dtype:
        got = f"{short_name(value.dtype)} for input {i} and {short_name(first.dtype)} for input {j}"
        raise DTypeError("AR203", where, got, "one type", "insert a cast")


def _limited(op: Op[A], layer: Layer[A], outputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """The outputs, checked for the maximum rank. Outputs that may be larger than every operand are also
    checked for the maximum number of elements."""
    volumes = [product(v.shape) for v in layer.inputs if v is not None]
    out = []
    for value in outputs:
        check_rank(layer.name, value.shape)
        volume = highest(product(value.shape))
        if any(always_le(volume, size) for size in volumes):
            out.append(value)
            continue
        got, wanted = f"{volume} elements in {show(value.shape)}", f"at most {op.volume_limit}"
        rule = need(
            layer.name, volume, Relation.LE, op.volume_limit, "AR111", got, wanted, "make the output smaller"
        )
        out.append(checked(value, rule))
    return tuple(out)


def _stage_int8(
    op: Op[A], layer: Layer[A], in_scales: tuple[Scale, ...], out_scale: Scale | None
) -> Layer[A]:
    if out_scale is not None and op.becomes_codes(layer.attrs) and is_float(layer.input(0).dtype):
        code = _quantize(cast(layer.input(0), DataType.FLOAT), out_scale)
        return replace(layer, inputs=(code, *layer.inputs[1:]))
    if op.coded or not any(map(_is_int8, layer.inputs)):
        return layer
    real = op.real_int8(layer.attrs)
    target = output_scale(op, layer, in_scales, out_scale)
    inputs, codes = [], list[tuple[Value, Scale] | None]()
    for i, value in enumerate(layer.inputs):
        scale = _scale(in_scales, i)
        codes.append((value, scale) if real and value is not None and _is_int8(value) else None)
        if value is None or not _is_int8(value) or (not real and scale == target):
            inputs.append(value)
        elif real:
            inputs.append(_dequantize(value, scale))
        else:  # one multiplication: two roundings would lose the ties that a ratio of 2 produces
            inputs.append(_quantize(_dequantize(value, ratio(scale, target)), 1.0))
    return replace(layer, inputs=tuple(inputs), int8=real, codes=tuple(codes))


def _scale(scales: tuple[Scale, ...], i: int) -> Scale:
    return scales[i] if i < len(scales) else 1.0


def _is_int8(value: Value | None) -> bool:
    return value is not None and value.dtype is DataType.INT8


def _convert(op: Op[A], layer: Layer[A], value: Value, dtype: DataType, scale: Scale) -> Value:
    if dtype is DataType.INT8 and value.dtype is not DataType.INT8 and op.real_int8(layer.attrs):
        return _quantize(cast(value, DataType.FLOAT), scale)
    return converted(value, dtype)


def _dequantize(value: Value, scale: Scale) -> Value:
    return times(cast(value, DataType.FLOAT), scale)


def _quantize(real: Value, scale: Scale) -> Value:
    return to_codes(over(real, scale), DataType.INT8)
