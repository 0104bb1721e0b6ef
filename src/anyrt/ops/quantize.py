"""Quantize and Dequantize: numbers to codes of a narrow type, and codes to numbers.

add_quantize(x, scale, DataType.INT8)        # clamp(round(x / scale)), −128 … 127
add_dequantize(q, scale, DataType.FLOAT)     # q · scale
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dtype import is_integer, short_name
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ArgumentError, DTypeError, ShapeError
from anyrt.ir.graph import Value
from anyrt.ops._check import constant_of, held
from anyrt.ops._quantized import NARROW, SCALES, Grain, beside, check_scale, codes, numbers
from anyrt.ops._record import ABSENT, Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS
from anyrt.prims._convert import limits
from anyrt.prims.build import cast, map_
from anyrt.prims.const import Const

SCALE, ZERO = 1, 2
INT8, FLOAT = DataType.INT8, DataType.FLOAT


@dataclass(frozen=True, slots=True)
class QuantizeAttrs(Attrs):
    """Attributes of Quantize and Dequantize."""

    to_type: DataType = attr(Kind.ENUM, "the type of the output", enum=DataType)
    axis: int = attr(Kind.INT, "axis whose slices have one scale each; -1: not set", -1)
    block_shape: tuple[int, ...] | None = attr(
        Kind.DIMS,
        "block shape, -1 for a whole axis; unset: the shape of the input divided by that of the scale",
        None,
    )


def expand_quantize(layer: Layer[QuantizeAttrs]) -> tuple[Value, ...]:
    """A quotient, rounded and clamped."""
    x, to = layer.input(0), layer.attrs.to_type
    _check_target(layer, NARROW)
    dtype = layer.input(SCALE).dtype
    if dtype in FLOATS - {FLOAT, x.dtype}:
        got = f"a scale of {short_name(dtype)} for an input of {short_name(x.dtype)}"
        wanted = f"{short_name(x.dtype)}, float32 or e8m0"
        raise DTypeError("AR203", layer.name, got, wanted, "cast the scale")
    scale, zero = _beside(layer, to)
    return (codes(map_("div", cast(x, FLOAT), scale), to, zero),)


def expand_dequantize(layer: Layer[QuantizeAttrs]) -> tuple[Value, ...]:
    """A product."""
    _check_target(layer, FLOATS)
    scale, zero = _beside(layer, layer.input(0).dtype)
    return (cast(map_("mul", numbers(layer.input(0), zero), scale), layer.attrs.to_type),)


def _check_target(layer: Layer[QuantizeAttrs], allowed: frozenset[DataType]) -> None:
    to = layer.attrs.to_type
    if to not in allowed:
        names = ", ".join(short_name(t) for t in sorted(allowed, key=int))
        do = "use add_cast to convert without a scale"
        raise DTypeError("AR206", layer.name, f"{short_name(to)} for the output", f"one of {names}", do)


def _beside(layer: Layer[QuantizeAttrs], narrow: DataType) -> tuple[Value, Value | None]:
    """The scale (FLOAT) and the zero point, broadcast along the axes of the input."""
    x, scale, zero = layer.input(0), layer.input(SCALE), layer.optional(ZERO)
    if x.type.rank == 0:
        raise ShapeError("AR101", layer.name, "a scalar", "rank 1 or more", "add a dimension of size 1")
    check_scale(layer.name, scale)
    grain = Grain(layer.name, layer.attrs.axis, layer.attrs.block_shape)
    laid = cast(beside(grain, scale, x, "scale"), FLOAT)
    if zero is None or _is_nothing(zero):
        return laid, None
    _check_zero(layer, zero, narrow)
    return laid, beside(grain, zero, x, "zero point") if is_integer(narrow) else None


def _is_nothing(zero: Value) -> bool:
    """Whether a zero point is a constant of float32 zeros, which means no zero point."""
    return zero.dtype is FLOAT and isinstance(zero.op, Const) and not np.any(held(zero))


def _check_zero(layer: Layer[QuantizeAttrs], zero: Value, narrow: DataType) -> None:
    if zero.dtype is not narrow:
        got, do = f"a zero point of {short_name(zero.dtype)} for {short_name(narrow)}", "cast it"
        raise DTypeError("AR203", layer.name, got, short_name(narrow), do)
    constant = constant_of(zero)
    if constant is None:
        got, do = "a zero point that is not constant", "use add_constant"
        raise ShapeError("AR121", layer.name, got, "build-time constants", do)
    constant.blob.fixed()
    if not is_integer(narrow) and np.any(held(zero) != 0):
        got = f"a nonzero zero point of {short_name(narrow)}"
        raise ArgumentError("AR304", layer.name, got, "0", "remove it")


# ---- references -----------------------------------------------------------------------------------


def ref_quantize(attrs: QuantizeAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The quotients, which the caller rounds."""
    x, scale, zero = _laid(attrs, arrays)
    with np.errstate(all="ignore"):
        steps = x / scale
    if not is_integer(attrs.to_type):
        return (steps,)
    low, _ = limits(attrs.to_type)
    return (np.where(np.isnan(steps), float(low), steps + zero),)


def ref_dequantize(attrs: QuantizeAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The real numbers of the codes."""
    x, scale, zero = _laid(attrs, arrays)
    return ((x - zero) * scale,)


def _laid(
    attrs: QuantizeAttrs, arrays: tuple[Array, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The input, and the scale and zero point of each of its elements."""
    x, scale = arrays[0].astype(np.float64), arrays[SCALE].astype(np.float64)
    operand = arrays[ZERO] if len(arrays) > ZERO else ABSENT
    zero = np.zeros(scale.shape) if operand is ABSENT else operand.astype(np.float64)
    return x, _everywhere(attrs, scale, x.shape), _everywhere(attrs, zero, x.shape)


def _everywhere(attrs: QuantizeAttrs, v: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    out = np.empty(shape)
    for at in np.ndindex(shape):
        if v.size == 1:
            out[at] = v.reshape(-1)[0]
        elif v.ndim == 1 and attrs.axis >= 0:
            out[at] = v[at[attrs.axis]]
        else:
            out[at] = v[tuple(i * s // d for i, s, d in zip(at, v.shape, shape, strict=True))]
    return out


# ---- cases ----------------------------------------------------------------------------------------

SPECIAL = np.array([0.0, -0.0, 0.4, -0.6, 126.6, 127.4, 1e9, -1e9, np.inf, -np.inf, np.nan, 5.6, -5.6, 1e-30])


def _scales(*shape: int) -> NDArray[np.float64]:
    """Powers of two from 1/4 to 2."""
    powers = np.arange(int(np.prod(shape))) % 4 - 2
    return np.exp2(powers.astype(np.float64)).reshape(shape)


def _case(to: DataType, shape: tuple[int, ...], scale: Array, dtype: DataType = FLOAT,
          scales: DataType = FLOAT, axis: int = -1, block: tuple[int, ...] | None = None,
          zero: Array | None = None, low: float = -20.0, high: float = 20.0,
          narrow: DataType | None = None,
          dynamic: tuple[tuple[int, ...], ...] = ()) -> Case[QuantizeAttrs]:  # fmt: skip
    """`narrow`: the type of the zero point. A scale of one element stays static."""
    if not dynamic and scale.size == 1:
        dynamic = (tuple(range(len(shape))), (), ())
    attrs = QuantizeAttrs(to, axis, block)
    shapes = (shape, scale.shape) if zero is None else (shape, scale.shape, zero.shape)
    kinds = (dtype, scales, *(() if zero is None else (narrow or to,)))
    data = (None, scale, *(() if zero is None else (zero,)))
    return Case(attrs, shapes, kinds, data, dynamic, low, high)


def _grains(make: Callable[..., Case[QuantizeAttrs]]) -> list[Case[QuantizeAttrs]]:
    """Scales per tensor, per axis and per block, with static and dynamic dimensions, and empty tensors."""
    fixed = ((), ())
    return [
        make((3, 5), _scales()),
        make((3, 5), _scales(1), axis=1),
        make((2, 3, 2), _scales(1, 1, 1)),
        make((3, 5), _scales(3), axis=0),
        make((2, 3, 4), _scales(4), axis=2),
        make((4,), _scales(4), axis=0),
        make((0, 3), _scales(3), axis=1),
        make((2, 64), _scales(2, 2), dynamic=fixed),
        make((64, 3), _scales(2, 3), dynamic=fixed),
        make((2, 4, 6), _scales(2, 2, 1), dynamic=((), ())),
        make((6,), _scales(2), dynamic=fixed),
        make((2, 64), _scales(2, 2), block=(1, 32)),
        make((4, 6), _scales(2, 2), block=(2, 3)),
        make((2, 4, 6), _scales(1, 2, 1), block=(-1, 2, -1)),
        make((0, 8), _scales(0, 2), block=(1, 4)),
        make((1, 2, 1, 2, 1, 3, 1, 2), _scales(2), axis=3),
    ]


def cases_quantize() -> tuple[Case[QuantizeAttrs], ...]:
    """Every type of input, scale and output; all scale layouts; zero points; saturation and NaN."""

    def make(shape: tuple[int, ...], scale: Array, **more: object) -> Case[QuantizeAttrs]:
        case: Callable[..., Case[QuantizeAttrs]] = _case
        return case(INT8, shape, scale, **more)

    narrow, some = sorted(NARROW, key=int), sorted(FLOATS, key=int)
    out = [_case(to, (3, 17), _scales(), t, t) for to in narrow for t in some]
    out += [_case(INT8, (3, 17), _scales(17), t, s, axis=1)
            for t in some for s in (FLOAT, DataType.E8M0)]  # fmt: skip
    out += [replace(_case(to, (14,), _scales()), data=(SPECIAL, np.array(1.0))) for to in narrow]
    out += [_case(to, (4, 32), _scales(4, 2), block=(1, 16)) for to in narrow]
    out += [_case(to, (3, 5), _scales(3), axis=0, zero=np.array([0, 3, -5])) for to in (INT8, DataType.INT4)]
    out += [_case(to, (5,), _scales(), zero=np.array(0.0)) for to in narrow]
    out += [_case(INT8, (3, 5), _scales(3), axis=0, zero=np.zeros(3), narrow=FLOAT)]
    return (*out, *_grains(make))


def cases_dequantize() -> tuple[Case[QuantizeAttrs], ...]:
    """Every type of input, scale and output; all scale layouts; zero points."""

    def make(shape: tuple[int, ...], scale: Array, **more: object) -> Case[QuantizeAttrs]:
        case: Callable[..., Case[QuantizeAttrs]] = _case
        return case(FLOAT, shape, scale, INT8, **more)

    narrow, some = sorted(NARROW, key=int), sorted(FLOATS, key=int)
    out = [_case(to, (3, 17), _scales(), t, s, low=-6, high=6)
           for to in some for t in narrow for s in some]  # fmt: skip
    out += [_case(to, (3, 17), _scales(17), INT8, DataType.E8M0, axis=1) for to in some]
    out += [_case(FLOAT, (4, 32), _scales(4, 2), t, block=(1, 16), low=-6, high=6) for t in narrow]
    out += [_case(FLOAT, (3, 5), _scales(3), t, axis=0, zero=np.array([0, 3, -5]), low=-8, high=7, narrow=t)
            for t in (INT8, DataType.INT4)]  # fmt: skip
    out += [_case(FLOAT, (5,), _scales(), INT8, zero=np.array(0.0), low=-6, high=6, narrow=FLOAT)]
    out += [_case(FLOAT, (5,), _scales(), t, zero=np.array(0.0), low=-6, high=6, narrow=t) for t in narrow]
    return (*out, *_grains(make))


def _mistakes(to: DataType, x: DataType, wrong: DataType) -> tuple[Mistake[QuantizeAttrs], ...]:
    """The errors of both. `x`: the type of the input; `wrong`: an unsupported output type."""
    a = QuantizeAttrs(to)
    one, three, kinds = ((3, 4), ()), ((3, 4), (3,)), (x, FLOAT)
    narrow = INT8 if x is INT8 else to

    def scale(*numbers: float) -> tuple[None, Array]:
        return None, np.array(numbers)

    return (
        Mistake("AR206", "an unsupported output type", replace(a, to_type=wrong), one, kinds),
        Mistake("AR202", "an unsupported input type", a, one, (DataType.INT32, FLOAT)),
        Mistake("AR202", "a scale that is not a float", a, one, (x, DataType.INT32)),
        Mistake("AR101", "a scalar", a, ((), ()), kinds),
        Mistake("AR303", "an axis outside the rank", replace(a, axis=2), three, kinds),
        Mistake("AR303", "an axis below -1", replace(a, axis=-2), three, kinds),
        Mistake("AR306", "a scale per slice without an axis", a, three, kinds),
        Mistake("AR123", "a wrong number of scales", replace(a, axis=1), three, kinds),
        Mistake("AR123", "a wrong number of scales at run time", replace(a, axis=1), three, kinds,
                dynamic=True),
        Mistake("AR123", "a scale of a wrong rank", a, ((3, 4), (1, 3, 4)), kinds),
        Mistake("AR123", "dimensions not divisible by the blocks", a, ((3, 4), (3, 3)), kinds),
        Mistake("AR117", "dynamic dimensions without block_shape", a, ((3, 4), (3, 2)), kinds, dynamic=True),
        Mistake("AR108", "a block_shape of a wrong length",
                replace(a, block_shape=(1, 2, 2)), ((3, 4), (3, 2)), kinds),
        Mistake("AR304", "a block size below 1", replace(a, block_shape=(1, 0)), ((3, 4), (3, 2)), kinds),
        Mistake("AR123", "a wrong block_shape for the scale", replace(a, block_shape=(1, 4)),
                ((3, 4), (3, 2)), kinds),
        Mistake("AR123", "a wrong block_shape for the scale at run time", replace(a, block_shape=(1, 4)),
                ((3, 4), (3, 2)), kinds, dynamic=True),
        Mistake("AR123", "block_shape with a scale per slice", replace(a, block_shape=(1, 4)), three, kinds),
        Mistake("AR203", "a zero point of a different type than the codes", a, (*one, ()),
                (*kinds, DataType.FP8)),
        Mistake("AR123", "a zero point of a wrong size", replace(a, axis=1), (*one, (5,)), (*kinds, narrow)),
    )  # fmt: skip


def mistakes_quantize() -> tuple[Mistake[QuantizeAttrs], ...]:
    """Wrong types, axes, blocks and zero points."""
    fp8, half = QuantizeAttrs(DataType.FP8), QuantizeAttrs(INT8)
    kinds, data = (FLOAT, FLOAT, DataType.FP8), (None, None, np.array(1.0))
    mixed = (FLOAT, DataType.HALF)
    return (
        *_mistakes(INT8, FLOAT, FLOAT),
        Mistake("AR203", "a float16 scale with an input of a different type", half, ((3,), ()), mixed),
        Mistake("AR304", "a nonzero zero point of fp8", fp8, ((3,), (), ()), kinds, data),
    )


def mistakes_dequantize() -> tuple[Mistake[QuantizeAttrs], ...]:
    """Wrong types, axes, blocks and zero points."""
    a, shapes = QuantizeAttrs(FLOAT), ((3,), (), ())
    kinds, data = (DataType.FP8, FLOAT, DataType.FP8), (None, None, np.array(1.0))
    return (
        *_mistakes(FLOAT, INT8, INT8),
        Mistake("AR304", "a nonzero zero point of fp8", a, shapes, kinds, data),
    )


GRAINS = (
    "The scale is per tensor (one element), per slice along `axis` (a vector), or per block (a tensor of "
    "the input's rank). The shape of a block is that of the input divided by that of the scale, unless "
    "`block_shape` is set. Scales may be computed; constant scales must be above 0. A vector of scales for "
    "activations and nonzero zero points of int8 and int4 are extensions. Dynamic ranges are ignored."
)
CODED = "The arithmetic is in float32. "
STEPS = (
    Input("scale", SCALES),
    Input("zero_point", NARROW | {FLOAT}, required=False, build_time=True),  # FLOAT zeros mean none
)
OPS = (
    Op(
        layer=LayerType.QUANTIZE,
        cls="IQuantizeLayer",
        methods=(
            Method(
                "add_quantize",
                ("input", "scale", "output_type"),
                defaults=(("output_type", INT8),),
                renamed=(("output_type", "to_type"),),
                example="scale = network.add_constant((), np.float32([0.05])).get_output(0)\n"
                "layer = network.add_quantize(x, scale, trt.int8)",
            ),
        ),
        inputs=(Input("input", FLOATS), *STEPS),
        attrs=QuantizeAttrs,
        expand=expand_quantize,
        ref=ref_quantize,
        doc="Computes clamp(round(x / scale) + zero point) in int8, int4, fp8 or fp4, rounded half to even "
        "and saturated at the limits of the type: −128 and 127, −8 and 7, ±448, ±6. fp8 and fp4 round to the "
        "nearest number of the type. A zero point of float32 zeros means no zero point. "
        "NaN becomes the lowest code in an integer type, NaN in fp8, and 6 in fp4. "
        + CODED
        + GRAINS,
        cases=cases_quantize,
        mistakes=mistakes_quantize,
        onnx=("QuantizeLinear",),
        source="operator page Quantize",
        coded=True,
    ),
    Op(
        layer=LayerType.DEQUANTIZE,
        cls="IDequantizeLayer",
        methods=(
            Method(
                "add_dequantize",
                ("input", "scale", "output_type"),
                defaults=(("output_type", FLOAT),),
                renamed=(("output_type", "to_type"),),
                example="scale = network.add_constant((), np.float32([0.05])).get_output(0)\n"
                "codes = network.add_quantize(x, scale, trt.int8).get_output(0)\n"
                "layer = network.add_dequantize(codes, scale, trt.float32)",
            ),
        ),
        inputs=(Input("input", NARROW), *STEPS),
        attrs=QuantizeAttrs,
        expand=expand_dequantize,
        ref=ref_dequantize,
        doc="Computes (x − zero point) · scale in float32, float16 or bfloat16. A sum of products of two "
        "dequantized operands is computed exactly from int8 codes if scales are equal along the summed axes. "
        + CODED
        + GRAINS,
        cases=cases_dequantize,
        mistakes=mistakes_dequantize,
        onnx=("DequantizeLinear",),
        source="operator page Dequantize",
        coded=True,
    ),
)  # fmt: skip
