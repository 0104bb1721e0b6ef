"""DynamicQuantize: numbers as codes, with a scale for each block, computed from its largest magnitude.

add_dynamic_quantize(x, 1, 32, DataType.FP8, DataType.E8M0)           # MXFP8
add_dynamic_quantize_v2(x, (1, -1), DataType.INT8, DataType.FLOAT)    # a scale for each row
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import Dim, product
from anyrt.core.dtype import is_integer, numpy_dtype, short_name
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ArgumentError, DTypeError, ShapeError
from anyrt.ir.graph import Value
from anyrt.ops._check import check_axis, is_constant, show
from anyrt.ops._quantized import LARGEST, check_scale, codes
from anyrt.ops._record import ABSENT, Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS
from anyrt.prims.build import cast, map_, reduce_, reshape, scalar

FLOAT, FP8, FP4, INT8, E8M0 = (*(DataType.FLOAT, DataType.FP8, DataType.FP4, DataType.INT8, DataType.E8M0),)
SCALES = {FLOAT: None, FP8: "to_fp8", E8M0: "to_e8m0"}
DOUBLE = 1


@dataclass(frozen=True, slots=True)
class DynamicQuantizeAttrs(Attrs):
    """Attributes of DynamicQuantize."""

    to_type: DataType = attr(Kind.ENUM, "the type of the codes: FP4, FP8 or INT8", enum=DataType)
    scale_type: DataType = attr(Kind.ENUM, "the type of the scales: FP8, E8M0 or FLOAT", enum=DataType)
    axis: int = attr(Kind.INT, "the axis that blocks divide; -1: not set", -1)
    block_size: int = attr(Kind.INT, "elements of a block along that axis; -1: all of them", -1)
    block_shape: tuple[int, ...] | None = attr(
        Kind.DIMS,
        "the sizes of a block, -1 for a whole axis; it replaces axis and block_size",
        None,
    )


def expand(layer: Layer[DynamicQuantizeAttrs]) -> tuple[Value, ...]:
    """A `Reduce` to the largest magnitude of each block, for the scale; codes are the quotients."""
    x, attrs = layer.input(0), layer.attrs
    _check_types(layer)
    split, inside, blocks = _split(layer, _block(layer))
    parts = cast(reshape(x, split), FLOAT)
    most = reduce_("max", map_("abs", parts), inside)
    if not all(isinstance(split[k], int) and split[k] != 0 for k in inside):
        most = map_("max", most, scalar(0.0, most))  # the maximum of an empty block
    stored = map_("div", most, scalar(LARGEST[attrs.to_type], most))
    double, rounding = _double(layer, stored), SCALES[attrs.scale_type]
    stored = stored if double is None else map_("div", stored, double)
    stored = stored if rounding is None else map_(rounding, stored)
    step = stored if double is None else map_("mul", stored, double)
    none = scalar(0.0, parts)
    steps = map_("select", map_("eq", step, none), none, map_("div", parts, step))
    scale = reshape(cast(stored, attrs.scale_type), blocks)
    return codes(reshape(steps, x.shape), attrs.to_type), scale


def _check_types(layer: Layer[DynamicQuantizeAttrs]) -> None:
    attrs = layer.attrs
    for dtype, allowed, what in (
        (attrs.to_type, (FP8, FP4, INT8), "codes"),
        (attrs.scale_type, tuple(SCALES), "scales"),
    ):
        if dtype not in allowed:
            names = ", ".join(short_name(t) for t in sorted(allowed, key=int))
            got, do = f"{short_name(dtype)} for the {what}", "choose one of these"
            raise DTypeError("AR206", layer.name, got, f"one of {names}", do)


def _block(layer: Layer[DynamicQuantizeAttrs]) -> tuple[int, ...]:
    """The sizes of a block, −1 for a whole axis."""
    attrs, rank = layer.attrs, layer.input(0).type.rank
    if rank == 0:
        raise ShapeError("AR101", layer.name, "a scalar", "rank 1 or more", "give it a dimension of size 1")
    if attrs.block_shape is None:
        check_axis(layer.name, attrs.axis, rank)
        block = tuple(attrs.block_size if k == attrs.axis else 1 for k in range(rank))
    else:
        block = attrs.block_shape
    if len(block) != rank:
        got = f"block_shape {show(block)}"
        raise ShapeError("AR108", layer.name, got, f"{rank} sizes", "give one for each axis of the input")
    if any(b < 1 and b != -1 for b in block):
        got = f"blocks of {show(block)}"
        raise ArgumentError("AR304", layer.name, got, "sizes above 0, or -1", "use -1 for a whole axis")
    return block


def _split(
    layer: Layer[DynamicQuantizeAttrs], block: tuple[int, ...]
) -> tuple[tuple[Dim, ...], tuple[int, ...], tuple[Dim, ...]]:
    """The input's sizes with separate axes for elements of blocks, the indices of these axes, and the numbers
    of blocks."""
    split, inside, blocks = list[Dim](), list[int](), list[Dim]()
    for k, (size, b) in enumerate(zip(layer.input(0).shape, block, strict=True)):
        if b == 1:
            split.append(size)
            blocks.append(size)
            continue
        many = 1 if b == -1 else _count(layer, k, size, b)
        inside.append(len(split) + 1)
        split += [many, size if b == -1 else b]
        blocks.append(many)
    return tuple(split), tuple(inside), tuple(blocks)


def _count(layer: Layer[DynamicQuantizeAttrs], axis: int, size: Dim, block: int) -> int:
    got = f"{size} elements along axis {axis}"
    if not isinstance(size, int):
        do = "fix this size in the input"
        raise ShapeError("AR117", layer.name, got, "a static size for an axis that blocks divide", do)
    if size % block:
        raise ShapeError(
            "AR118", layer.name, got, f"a multiple of {block}", "pad the input, or change the block"
        )
    return size // block


def _double(layer: Layer[DynamicQuantizeAttrs], like: Value) -> Value | None:
    """`double_quant_scale`, the factor of all scales, with the axes of `like`."""
    double = layer.optional(DOUBLE)
    if double is None:
        return None
    if product(double.shape) != 1:
        got = f"double_quant_scale of shape {show(double.shape)}"
        raise ShapeError("AR123", layer.name, got, "one element", "pass one number")
    if not is_constant(double):
        got, do = "a double_quant_scale that is not constant", "use add_constant"
        raise ShapeError("AR121", layer.name, got, "a build-time constant", do)
    if double.dtype not in (FLOAT, layer.input(0).dtype):
        got = f"{short_name(double.dtype)} for double_quant_scale"
        raise DTypeError("AR203", layer.name, got, "float32, or the input's type", "cast it")
    check_scale(layer.name, double)
    return cast(reshape(double, (1,) * like.type.rank), FLOAT)


def ref(attrs: DynamicQuantizeAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Block by block."""
    x = arrays[0].astype(np.float64)
    operand = arrays[DOUBLE] if len(arrays) > DOUBLE else ABSENT
    double = 1.0 if operand is ABSENT else float(operand.reshape(-1)[0])
    named = attrs.block_shape or tuple(attrs.block_size if k == attrs.axis else 1 for k in range(x.ndim))
    block = tuple(d if b == -1 else b for d, b in zip(x.shape, named, strict=True))
    counts = tuple(1 if b == -1 else d // b for d, b in zip(x.shape, named, strict=True))
    scale, steps = np.zeros(counts), np.zeros(x.shape)
    for at in np.ndindex(counts):
        here = tuple(slice(i * b, (i + 1) * b) for i, b in zip(at, block, strict=True))
        most = np.abs(x[here]).max(initial=0.0)
        scale[at] = _stored(attrs.scale_type, most / LARGEST[attrs.to_type] / double)
        step = scale[at] * double
        with np.errstate(all="ignore"):
            steps[here] = 0.0 if step == 0 else x[here] / step
    if is_integer(attrs.to_type):
        steps = np.where(np.isnan(steps), -128.0, steps)
    return steps, scale


def _stored(to: DataType, scale: float) -> float:
    if to is E8M0 and not np.isnan(scale):
        return float(2.0 ** np.ceil(np.log2(min(max(scale, 2.0**-127), 2.0**127))))
    return float(np.array(min(scale, 448.0), numpy_dtype(to))) if to is FP8 else scale


def _numbers(*shape: int) -> NDArray[np.float64]:
    """Numbers of many magnitudes; the last block is all 0."""
    n = np.arange(int(np.prod(shape)), dtype=np.float64)
    out = (n * 37 % 101 - 50) * np.exp2(n // 16 % 5) / 8
    out[-32:] = 0
    return out.reshape(shape)


def cases() -> tuple[Case[DynamicQuantizeAttrs], ...]:
    """Every type; blocks along any axis, of two axes, of whole axes; all zero, NaN and infinity."""
    a = DynamicQuantizeAttrs
    nv, mx = a(FP4, FP8, 1, 16), a(FP8, E8M0, 1, 32)
    out = [Case(a(to, s, 1, 32), ((3, 64),), (t,), (_numbers(3, 64),), ((0,),))
           for to in (INT8, FP8, FP4) for s in SCALES for t in sorted(FLOATS, key=int)]  # fmt: skip
    special = _numbers(2, 64)
    special[0, 3], special[1, 5] = np.nan, 1e-30
    infinite = np.where(np.arange(64) == 40, np.inf, 1.5).reshape(1, 64)
    out += [Case(replace(c, scale_type=s), ((2, 64),), (FLOAT,), (special,), ((0,),))
            for c in (nv, mx) for s in SCALES]  # fmt: skip
    out += [Case(c, ((1, 64),), (FLOAT,), (infinite,), ((0,),)) for c in (nv, mx)]
    kinds = ((FLOAT, FLOAT, (1,)), (DataType.HALF, DataType.HALF, ()), (DataType.BF16, FLOAT, ()))
    out += [Case(nv, ((2, 32), shape), (t, d), (None, np.array(0.01)), ((0,), ())) for t, d, shape in kinds]
    return (
        *out,
        Case(a(FP4, FP8, 0, 16), ((32, 5),), dynamic=((1,),)),
        Case(a(FP8, E8M0, 1, 32), ((2, 64, 3),), dynamic=((0, 2),)),
        Case(a(FP8, FLOAT, block_shape=(2, 4)), ((4, 8),), dynamic=((),)),
        Case(a(INT8, FLOAT, block_shape=(1, -1)), ((3, 7),)),
        Case(a(INT8, FLOAT, block_shape=(-1, -1)), ((3, 7),)),
        Case(a(INT8, FLOAT, block_shape=(1, 1)), ((3, 5),)),
        Case(a(FP8, FLOAT, block_shape=(1, 1, 2, 2)), ((2, 3, 4, 6),), dynamic=((0, 1),)),
        Case(nv, ((0, 32),), dynamic=((0,),)),
        Case(a(INT8, FLOAT, block_shape=(1, -1)), ((3, 0),)),
    )


def mistakes() -> tuple[Mistake[DynamicQuantizeAttrs], ...]:
    """Types, axes, blocks, the scale of scales."""
    a = DynamicQuantizeAttrs(FP4, FP8, 1, 16)
    x, two = ((2, 32),), ((2, 32), ())
    computed = ((2, 32), (2,))
    return (
        Mistake("AR206", "an unsupported type of codes", replace(a, to_type=DataType.INT4), x),
        Mistake("AR206", "an unsupported type of scales", replace(a, scale_type=DataType.HALF), x),
        Mistake("AR202", "an input that is not float", a, x, (DataType.INT32,)),
        Mistake("AR101", "a scalar", a, ((),)),
        Mistake("AR303", "an axis outside the rank", replace(a, axis=2), x),
        Mistake("AR304", "a block size below 1", replace(a, block_size=0), x),
        Mistake("AR108", "a block_shape of the wrong rank", replace(a, block_shape=(16,)), x),
        Mistake("AR304", "a size of block_shape below 1", replace(a, block_shape=(1, -2)), x),
        Mistake("AR118", "a size that blocks do not divide", a, ((2, 40),)),
        Mistake("AR117", "a dynamic size that blocks divide", a, x, dynamic=True),
        Mistake("AR123", "more than one double_quant_scale", a, computed),
        Mistake("AR203", "a double_quant_scale of the wrong type", a, two, (FLOAT, DataType.HALF)),
        Mistake("AR304", "a double_quant_scale that is not above 0", a, two, (FLOAT,), (None, np.array(0.0))),
    )


DOC = (
    "Returns codes, and a scale for each block of elements. The scale is the largest magnitude of the block "
    "divided by the largest number of the codes (6, 448, 127). If `double_quant_scale`, a factor of all "
    "scales, is connected, the scale is divided by it. Then it is rounded to `scale_type`: to the nearest "
    "fp8 number, up to a power of two (e8m0), or not at all. Codes are the elements divided by the rounded "
    "scale times that factor, rounded half to even and saturated; 0 if the divisor is 0. NaN makes the scale "
    "of its block NaN; then codes are NaN (fp8), 6 (fp4) and −128 (int8). Blocks along any axis, of any rank "
    "and size, are an extension. `add_dequantize` converts the codes back to numbers, with the scales that "
    "`double_quant_scale` dequantises."
)
OPS = (
    Op(
        layer=LayerType.DYNAMIC_QUANTIZE,
        cls="IDynamicQuantizeLayer",
        methods=(
            Method(
                "add_dynamic_quantize",
                ("input", "axis", "block_size", "output_type", "scale_type"),
                renamed=(("output_type", "to_type"),),
                example="layer = network.add_dynamic_quantize(x, 3, 4, trt.fp8, trt.e8m0)  # blocks of 4\n"
                "codes, scales = layer.get_output(0), layer.get_output(1)",
            ),
            Method(
                "add_dynamic_quantize_v2",
                ("input", "block_shape", "output_type", "scale_type"),
                renamed=(("output_type", "to_type"),),
                example="layer = network.add_dynamic_quantize_v2(x, (1, 1, 1, -1), trt.int8, trt.float32)",
            ),
        ),
        inputs=(
            Input("input", FLOATS),
            Input("double_quant_scale", FLOATS, required=False, build_time=True),
        ),
        attrs=DynamicQuantizeAttrs,
        expand=expand,
        ref=ref,
        doc=DOC,
        cases=cases,
        mistakes=mistakes,
        outputs=("output_data", "output_scale"),
        source="operator page DynamicQuantize",
    ),
)
