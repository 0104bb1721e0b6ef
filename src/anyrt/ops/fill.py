"""Fill: evenly spaced or random numbers.

add_fill((2, 3), FillOperation.RANDOM_UNIFORM)      # alpha 0 to beta 1
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np

from anyrt.core.dims import Dim, product
from anyrt.core.dtype import is_float, numpy_dtype, short_name
from anyrt.core.enums import DataType, FillOperation, LayerType
from anyrt.core.errors import ArgumentError, DTypeError, GraphError, ShapeError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Value
from anyrt.ops._check import Requirements, check_rank, checked, need, show
from anyrt.ops._elements import vector, with_counts
from anyrt.ops._record import (
    ABSENT,
    Array,
    Attrs,
    Case,
    Input,
    Kind,
    Layer,
    Method,
    Mistake,
    Op,
    Query,
    attr,
)
from anyrt.ops._types import FLOATS, INTS, OWN_NUMBERS, PACKED
from anyrt.prims._convert import limits
from anyrt.prims.build import cast, const, identity, iota, map_, reshape, scalar, slice_

LINSPACE, UNIFORM, NORMAL = FillOperation
SHAPE, ALPHA, BETA = range(3)
F: Final = DataType.FLOAT
COUNTED: Final = FLOATS | INTS | OWN_NUMBERS - PACKED
WORD: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class FillAttrs(Attrs):
    """Attributes of Fill. A connected operand of the same name replaces the attribute."""

    shape: tuple[int, ...] = attr(Kind.DIMS, "the shape of the output", drops=SHAPE)
    operation: FillOperation = attr(
        Kind.ENUM, "a linear sequence, or uniform or normal random numbers", enum=FillOperation
    )
    alpha: float = attr(Kind.NUMBER, "first value, minimum, or mean", 0.0, drops=ALPHA)
    beta: float = attr(Kind.NUMBER, "step, upper bound (exclusive), or standard deviation", 1.0, drops=BETA)
    to_type: DataType = attr(Kind.ENUM, "the element type of the output", F, enum=DataType)
    seed: int | None = attr(Kind.INT, "seed of the random numbers; unset: a hash of the layer's name", None)

    @property
    def is_int(self) -> bool:
        """Whether alpha or beta was assigned as an integer."""
        return any(isinstance(x, int) for x in (self.alpha, self.beta))


def expand(layer: Layer[FillAttrs]) -> tuple[Value, ...]:
    """LINSPACE: positions (`Iota`) times steps, summed. Random: each element hashes its position with the
    integer arithmetic of Squares. The top 24 bits are a uniform number; 56 bits make a normal one by Box and
    Muller: sqrt(-2 ln u) cos(2 pi v). Random numbers need no memory and fuse with their consumers."""
    shape, rules = _shape(layer)
    check_rank(layer.name, shape)
    dtype = _dtype(layer)
    if layer.attrs.operation is LINSPACE:
        y = _linspace(layer, shape, dtype)
    else:
        y = cast(_random(layer, shape), dtype)
    return (with_counts(layer, checked(y, rules), SHAPE),)


def _shape(layer: Layer[FillAttrs]) -> tuple[tuple[Dim, ...], Requirements]:
    operand = layer.optional(SHAPE)
    sizes = layer.attrs.shape if operand is None else vector(layer, SHAPE, "shape")
    rules: Requirements = ()
    for axis, size in enumerate(sizes):
        got, do = f"size {size} for axis {axis}", "set sizes of 0 or more"
        rules += need(layer.name, 0, Relation.LE, size, "AR120", got, "a size of 0 or more", do)
    return sizes, rules


def _dtype(layer: Layer[FillAttrs]) -> DataType:
    """The element type of the output: that of alpha and beta if they are connected."""
    alpha, beta = layer.optional(ALPHA), layer.optional(BETA)
    if (alpha is None) != (beta is None):
        got = f"input {ALPHA if beta is None else BETA} without input {BETA if beta is None else ALPHA}"
        raise GraphError("AR406", layer.name, got, "alpha and beta, or neither", "connect inputs 1 and 2")
    dtype = layer.attrs.to_type if alpha is None else alpha.dtype
    allowed = COUNTED if layer.attrs.operation is LINSPACE else FLOATS
    if dtype not in allowed:
        names = ", ".join(short_name(t) for t in sorted(allowed, key=int))
        got, wanted = f"{short_name(dtype)} for {layer.attrs.operation.name}", f"one of {names}"
        raise DTypeError("AR202", layer.name, got, wanted, "set to_type, or cast alpha and beta")
    return dtype


def _beta_axes(layer: Layer[FillAttrs]) -> str:
    """The axes of beta: one step per axis for LINSPACE, else a scalar."""
    if layer.attrs.operation is not LINSPACE:
        return ""
    return str(len(layer.attrs.shape)) if layer.optional(SHAPE) is None else "axes"


def _ends(layer: Layer[FillAttrs], dtype: DataType) -> tuple[Value, Value]:
    """alpha and beta, from operands or attributes."""
    alpha, beta = layer.optional(ALPHA), layer.optional(BETA)
    if alpha is not None and beta is not None:
        return alpha, beta
    a, b = (const(_number(layer, name, dtype), _wide(dtype)) for name in ("alpha", "beta"))
    return a, b


def _number(layer: Layer[FillAttrs], name: str, dtype: DataType) -> float:
    x = layer.attrs.alpha if name == "alpha" else layer.attrs.beta
    if not math.isfinite(x):
        raise ArgumentError("AR308", layer.name, f"{name} {x}", "a finite number", f"set a finite {name}")
    if is_float(dtype):
        return float(x)
    low, high = limits(dtype)
    if x != int(x) or not low <= x <= high:
        got, wanted = f"{name} {x} of type {short_name(dtype)}", f"a whole number, {low} to {high}"
        raise ArgumentError("AR304", layer.name, got, wanted, f"set {name} to one, or to_type to float32")
    return int(x)


def _linspace(layer: Layer[FillAttrs], shape: tuple[Dim, ...], dtype: DataType) -> Value:
    """alpha plus, for each axis, position times step."""
    rank, wide = len(shape), _wide(dtype)
    connected = layer.optional(BETA) is not None
    if rank > 1 and not connected:
        got, do = f"one step for the {rank} axes of {show(shape)}", "connect input 2 (beta)"
        raise ShapeError("AR124", layer.name, got, "at most 1 axis, or one step per axis", do)
    alpha, beta = _ends(layer, dtype)
    steps = cast(beta, wide) if connected else reshape(cast(beta, wide), (1,))
    total = reshape(cast(alpha, wide), (1,) * rank)
    for axis in range(rank):
        step = reshape(slice_(steps, (axis,), (1,), (1,)), (1,) * rank)
        at = cast(iota(shape, axis, dtype if wide is dtype else DataType.INT32), wide)
        total = map_("add", map_("mul", at, step), total)
    return identity(total) if total == alpha else cast(total, dtype)


def _wide(dtype: DataType) -> DataType:
    """The type of the computation: float32 for floats other than float64, else the type itself."""
    return F if is_float(dtype) and dtype is not DataType.DOUBLE else dtype


# ---- random numbers -----------------------------------------------------------------------------


def key_of(seed: int) -> int:
    """The Squares key for a seed: an odd number with irregular bits, by SplitMix64."""
    x = (seed + 0x9E3779B97F4A7C15) & WORD
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & WORD
    return (x ^ x >> 31) | 1


def _random(layer: Layer[FillAttrs], shape: tuple[Dim, ...]) -> Value:
    """Random numbers in float32: alpha + beta z, or alpha + (beta - alpha) u."""
    alpha, beta = (reshape(cast(x, F), (1,) * len(shape)) for x in _ends(layer, _dtype(layer)))
    seed = layer.attrs.seed
    high, low = _squares(shape, key_of(zlib.crc32(layer.name.encode()) if seed is None else seed))
    if layer.attrs.operation is UNIFORM:
        return map_("fma", _unit(high), map_("sub", beta, alpha), alpha)
    return map_("fma", _normal(high, low), beta, alpha)


def _squares(shape: tuple[Dim, ...], key: int) -> tuple[Value, Value]:
    """Two words for each position in row-major order, each in the upper half of an int64: the fourth and
    fifth round of B. Widynski, "Squares: A Fast Counter-Based RNG", arXiv:2004.06278v4."""
    count = reshape(iota((product(shape),), 0, DataType.INT64), shape)
    signed = key - (1 << 64) if key >> 63 else key
    y = map_("mul", count, scalar(signed, count))
    z = map_("add", y, scalar(signed, count))
    x = y
    for term in (y, z, y):
        x = _swapped(map_("add", map_("mul", x, x), term))
    fourth = map_("add", map_("mul", x, x), z)
    x = _swapped(fourth)
    fifth = map_("add", map_("mul", x, x), y)
    half = scalar(32, count)
    return fourth, map_("bit_xor", map_("shift_left", fourth, half), fifth)


def _swapped(x: Value) -> Value:
    """An int64 with its halves exchanged."""
    half = scalar(32, x)
    return map_("add", map_("shift_right", x, half), map_("shift_left", x, half))


def _top(x: Value, bits: int) -> Value:
    """The top bits, as a float32 that represents them exactly."""
    return cast(cast(map_("shift_right", x, scalar(64 - bits, x)), DataType.INT32), F)


def _unit(x: Value) -> Value:
    """A uniform number from 0 to 1 - 2^-24."""
    top = _top(x, 24)
    return map_("mul", top, scalar(2.0**-24, top))


def _normal(high: Value, low: Value) -> Value:
    """A normal number from two words. The smallest 2^-8 of all u have steps of 2^-32, so that numbers reach
    6.6 standard deviations instead of 5.8."""
    coarse = cast(map_("shift_right", high, scalar(40, high)), DataType.INT32)
    fine = map_("shift_right", map_("shift_left", high, scalar(8, high)), scalar(40, high))
    is_small = map_("lt", coarse, scalar(1 << 16, coarse))
    steps = map_("select", is_small, cast(fine, DataType.INT32), coarse)
    one = scalar(1, steps)
    least = map_("select", is_small, scalar(2.0**-32, cast(one, F)), scalar(2.0**-24, cast(one, F)))
    u = map_("mul", cast(map_("add", steps, one), F), least)
    radius = map_("sqrt", map_("mul", map_("log", u), scalar(-2.0, u)))
    turn = map_("sub", _unit(low), scalar(0.5, u))
    return map_("mul", radius, map_("cos", map_("mul", turn, scalar(2 * math.pi, u))))


# ---- the reference ------------------------------------------------------------------------------


def ref(attrs: FillAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Each word as in the paper, with Python integers; LINSPACE with np.indices."""
    shape, alpha, beta = (*arrays, ABSENT, ABSENT, ABSENT)[:3]
    sizes = attrs.shape if shape is ABSENT else tuple(int(n) for n in shape)
    pairs = ((alpha, attrs.alpha), (beta, attrs.beta))
    a, b = (np.array(y, np.float64) if x is ABSENT else x.astype(np.float64) for x, y in pairs)
    if attrs.operation is LINSPACE:
        y = a + np.tensordot(np.broadcast_to(b, len(sizes)), np.indices(sizes), 1)
        dtype = numpy_dtype(attrs.to_type) if alpha is ABSENT else alpha.dtype
        return (y.astype(dtype) if dtype.kind in "iu" else y,)
    words = [_word(i, key_of(attrs.seed or 0)) for i in range(math.prod(sizes))]
    one = np.array([w >> 40 for w in words], np.float64) / 2**24
    if attrs.operation is UNIFORM:
        return (np.asarray(a * (1 - one) + b * one).reshape(sizes),)
    fine = np.array([w >> 32 for w in words], np.float64)
    u = np.where(fine < 2**24, (fine + 1) / 2**32, (np.floor(fine / 256) + 1) / 2**24)
    v = np.array([(w & 0xFFFFFFFF) >> 8 for w in words], np.float64) / 2**24
    z = -np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)
    return (np.asarray(a + b * z).reshape(sizes),)


def _word(counter: int, key: int) -> int:
    """squares64 of the paper."""
    y = x = counter * key & WORD
    z = (y + key) & WORD
    for term in (y, z, y):
        x = (x * x + term) & WORD
        x = (x >> 32 | x << 32) & WORD
    t = x = (x * x + z) & WORD
    x = (x >> 32 | x << 32) & WORD
    return t ^ ((x * x + y) & WORD) >> 32


def cases() -> tuple[Case[FillAttrs], ...]:
    """All operations, types, ranks; shape, alpha and beta as attributes and as operands."""
    a, i32, i64 = FillAttrs, DataType.INT32, DataType.INT64
    ints = (i64, i32, i32)
    linspace = tuple(
        Case(a((7,), LINSPACE, alpha, beta, t), ())
        for t, alpha, beta in (
            (F, 0.5, -0.25), (DataType.HALF, -1.0, 0.5), (DataType.BF16, 2, 2), (i32, -3.0, 2.0),
            (i64, 5, -7), (DataType.DOUBLE, 0.5, 2.0**-30), (DataType.INT16, 32000, -9000),
            (DataType.UINT16, 3, 8000), (DataType.UINT32, 2**31, 7), (DataType.UINT64, 2**40, 2**33)
        )
    )  # fmt: skip
    random = tuple(
        Case(a(shape, op, alpha, beta, t, 17), (), rtol=2e-6, atol=2e-6)
        for op in (UNIFORM, NORMAL)
        for t, shape, alpha, beta in (
            (F, (3, 5), 0.0, 1.0), (DataType.HALF, (300,), -2.0, 3.0), (DataType.BF16, (2, 1, 2, 3), 4, 2),
            (F, (), 1.0, 2.0), (F, (2, 0), 0.0, 1.0),
        )
    )  # fmt: skip
    sizes, at, steps = np.array([2, 3]), np.array(10), np.array([4, -1])
    return (
        *linspace,
        Case(a((), LINSPACE, 3.0), ()),
        Case(a((9,), LINSPACE), (None, (), (1,)), (DataType.DOUBLE,), rtol=0.0, atol=0.0),
        Case(a((9,), LINSPACE), (None, (), (1,)), (DataType.INT16,), (None, np.array(-7), np.array([11]))),
        Case(a((0,), LINSPACE), ()),
        Case(a((2, 3), LINSPACE), (None, (), (2,)), (F,)),
        Case(a((2, 3, 2, 2), LINSPACE), (None, (), (4,)), (i32,), (None, at, np.array([8, 5, 2, 1]))),
        Case(a((), LINSPACE), ((2,), (), (2,)), ints, (sizes, at, steps)),
        Case(a((), LINSPACE, 2, 5, i64), ((1,),), (i32,), (np.array([6]),)),
        Case(a((), LINSPACE), ((0,), (), (0,)), (i32, F, F), (np.array([], np.int32),), static_only=True),
        *random,
        Case(a((), UNIFORM, seed=3), ((2,),), (i32,), (np.array([33, 5]),)),
        Case(a((), UNIFORM, seed=-1), ((2,), (), ()), (i64, F, F), (sizes, np.array(-5), np.array(5))),
        Case(a((40,), NORMAL, seed=0), (None, (), ()), (DataType.HALF,), rtol=2e-3, atol=2e-3),
        Case(a((1000,), NORMAL, seed=2**40), (None, (), ()), (F,), rtol=2e-6, atol=2e-6),
    )  # fmt: skip


def mistakes() -> tuple[Mistake[FillAttrs], ...]:
    """Dimensions, types, values, incompatible operands."""
    a, h, i32, i64 = FillAttrs, DataType.HALF, DataType.INT32, DataType.INT64
    below = (np.array([2, -1]),)
    return (
        Mistake("AR120", "a negative size", a((2, -1), UNIFORM), ()),
        Mistake("AR120", "a negative size at run time", a((), UNIFORM), ((2,),), (i32,), below, dynamic=True),
        Mistake("AR111", "more than 2^31 - 1 elements", a((1 << 16, 1 << 15), UNIFORM), ()),
        Mistake("AR115", "more than 8 axes", a((1,) * 9, UNIFORM), ()),
        Mistake("AR123", "a shape operand of rank 2", a((), UNIFORM), ((1, 2),), (i32,)),
        Mistake("AR124", "LINSPACE of several axes with one step", a((2, 3), LINSPACE), ()),
        Mistake("AR123", "alpha of a rank other than 0", a((3,), UNIFORM), (None, (1,), ())),
        Mistake("AR123", "numbers of steps and axes that differ", a((2, 3), LINSPACE), (None, (), (3,))),
        Mistake("AR406", "alpha without beta", a((3,), UNIFORM), (None, ())),
        Mistake("AR406", "beta without alpha", a((3, 2), LINSPACE), (None, None, (2,))),
        Mistake("AR202", "a type that LINSPACE does not support", a((3,), LINSPACE, 0, 1, DataType.BOOL), ()),
        Mistake("AR202", "random integers", a((3,), NORMAL, 0, 1, i64), ()),
        Mistake("AR202", "a shape operand of floats", a((), UNIFORM), ((2,),)),
        Mistake("AR203", "alpha and beta of different types", a((3,), UNIFORM), (None, (), ()), (i32, F, h)),
        Mistake("AR304", "a fractional step for integers", a((3,), LINSPACE, 0, 0.5, i32), ()),
        Mistake("AR308", "alpha that is not finite", a((3,), UNIFORM, math.inf), ()),
    )  # fmt: skip


OPS = (
    Op(
        layer=LayerType.FILL,
        cls="IFillLayer",
        methods=(
            Method(
                "add_fill",
                ("shape", "op", "output_type"),
                defaults=(("output_type", F),),
                renamed=(("op", "operation"), ("output_type", "to_type")),
                example="layer = network.add_fill((2, 3), trt.FillOperation.RANDOM_NORMAL)\nlayer.seed = 1",
            ),
        ),
        inputs=(
            Input("shape", INTS, required=False, shape_values=True, axes="axes"),
            Input("alpha", COUNTED, required=False, axes=""),
            Input("beta", COUNTED, required=False, same_as=ALPHA, axes=_beta_axes),
        ),
        attrs=FillAttrs,
        expand=expand,
        ref=ref,
        doc="Fills a tensor with a linear sequence or random numbers. LINSPACE: alpha, plus beta for each "
        "step along an axis. RANDOM_UNIFORM: uniform numbers from alpha to beta; beta itself occurs only if "
        "a sum rounds to it. RANDOM_NORMAL: normal numbers with mean alpha and standard deviation beta, at "
        "most 6.7 standard deviations from the mean. Random numbers come from Squares (B. Widynski, "
        "arXiv:2004.06278), a hash of each element's position and a key that is derived from the seed. "
        "Every inference returns the same numbers on every processor, except for the rounding of normal "
        "numbers. The default seed is a hash of the layer's name. Setting `seed` is an extension. Input 0 "
        "is the shape. Inputs 1 and 2 are alpha and beta; connect both or neither. If they are connected, "
        "the output has their type. Without input 2 there is one step, so that LINSPACE has at most one "
        "axis. LINSPACE supports floats, int32 and int64, which wraps; random numbers are floats. bfloat16 "
        "is an extension, as are float16, float64, int16, uint16, uint32 and uint64 of LINSPACE.",
        cases=cases,
        mistakes=mistakes,
        queries=(
            Query(
                "is_alpha_beta_int64",
                "True when alpha or beta was assigned as an int.",
                lambda attrs: attrs.is_int,
            ),
        ),
        onnx=("Range", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
        source="operator page Fill; C++ header",
    ),
)
