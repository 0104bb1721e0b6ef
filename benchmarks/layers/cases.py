"""The cases of layers. A new case is one line here.

Names: layer, kind (`u`, `c`, `e`: UNIFORM, CHANNEL, ELEMENTWISE; `hp`, `ac`, `as`: half-pixel, align-corners,
asymmetric; `rst`: resize, scale, transpose), type when it is not float32, then the shape of the input.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from benchmarks import steps
from benchmarks.layers import spellings
from benchmarks.layers.formula import Formula, Weights, constants_of
from benchmarks.layers.spellings import Mean, Root, Sheet, Spelling, Square
from benchmarks.steps import Cast, Element, Norm, Reshape, Resize, Scale, Shape, Silu, Step, Tensor, Transpose


class Layer(enum.Enum):
    """The layer that a case belongs to."""

    SCALE = "Scale"
    RESIZE = "Resize"
    SHUFFLE = "Shuffle"
    NORMALIZATION = "Normalization"
    CHAIN = "chains"
    SPELLED = "Normalisation in other spellings"


@dataclass(frozen=True, slots=True)
class Case:
    """A chain of steps over one input.

    dynamic: shapes of the input that one engine serves; () for a static case. low, high: range of the
    numbers. slack: permitted difference besides rounding. known: the time of a plain hand-written C kernel,
    as a multiple of the limit.
    """

    language: ClassVar[str] = "benchmarks.layers"
    name: str
    layer: Layer
    input: Tensor
    steps: tuple[Step, ...]
    low: float = -2.0
    high: float = 2.0
    slack: float = 0.0
    known: float | None = None
    dynamic: tuple[Shape, ...] = ()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The input, and the result of each step."""
        return steps.types(self.steps, self.input)

    @property
    def result(self) -> Tensor:
        """The result of the last step."""
        return self.tensors[-1]


def traffic(case: Case) -> tuple[int, int]:
    """(bytes read, bytes written) at least: input and coefficients, output."""
    tensors, read = case.tensors, case.input.nbytes
    for step, x in zip(case.steps, tensors, strict=False):
        match step:
            case Scale():
                read += 4 * (step.scale + step.shift) * math.prod(steps.scale_shape(step, x.shape))
            case Norm():
                read += 4 * 2 * math.prod(steps.affine_shape(step, x.shape))
            case Formula():
                read += 4 * x.shape[-1] * sum(isinstance(c, Weights) for c in constants_of(step))
            case Resize(mode=steps.Mode.NEAREST) if step is case.steps[0]:
                # Unneeded rows are not read; inside a row, each cache line is read.
                pairs = list(zip(x.shape, tensors[1].shape, strict=True))[:-2]
                read = int(read * math.prod(min(1.0, after / before) for before, after in pairs))
            case _:
                pass
    return read, tensors[-1].nbytes


F32, F16, BF16, U8, I8 = Element
U, C, E = steps.Reach
LN, RMS, GN, IN = (Norm(k) for k in steps.Statistics)
NEAREST, LINEAR, CUBIC = steps.Mode
HP, AC, AS = steps.Grid
FLOOR, CEIL, HALF_UP, HALF_DOWN = steps.Rounding
BIG, SMALL = (8, 64, 112, 112), (1, 3, 224, 224)
PHOTO = (1, 1080, 1920, 3)
TO_NHWC, TO_NCHW = Transpose((0, 2, 3, 1)), Transpose((0, 3, 1, 2))
TWICE = (1.0, 1.0, 2.0, 2.0)


def scale_cases() -> Iterator[Case]:
    """Scale: reaches, powers, types, sizes by cache, ranks, layouts."""

    def case(name: str, shape: Shape, step: Scale, dtype: Element = F32, known: float | None = None) -> Case:
        low = -2.0 if step.power in (1.0, 2.0) else 0.25
        full = f"scale_{step.reach.value}_{name}_{steps.name_of(shape)}".replace("__", "_")
        return Case(full, Layer.SCALE, Tensor(shape, dtype), (step,), low=low, known=known)

    yield case("", BIG, Scale(U))
    yield case("", BIG, Scale(C), known=520 / 565.1)
    yield case("pow1.7", BIG, Scale(C, power=1.7), known=952 / 592.1)
    yield case("", BIG, Scale(E))
    yield case("", SMALL, Scale(C), known=4 / 3.6)
    yield case("pow2", SMALL, Scale(U, power=2.0))
    yield case("f16", BIG, Scale(C), F16)
    yield case("bf16", BIG, Scale(C), BF16)
    yield Case(
        "scale_c_i8qdq_8x64x112x112",
        Layer.SCALE,
        Tensor(BIG, I8),
        (steps.Dequantize(1 / 32), Scale(C), steps.Quantize(1 / 16)),
    )
    for power in (0.5, 2.0):
        yield case(f"pow{power:g}", BIG, Scale(C, power=power))
    yield case("onlyscale", BIG, Scale(C, shift=False))
    yield case("onlyshift", BIG, Scale(C, scale=False))
    yield case("L1", (1, 4, 32, 32), Scale(C))
    yield case("L2", (1, 16, 64, 64), Scale(C))
    yield case("L3", (1, 64, 112, 112), Scale(C))
    yield case("mem", (8, 256, 112, 112), Scale(C))
    yield case("nhwc", (8, 112, 112, 64), Scale(C, axis=3))
    yield case("nhwc", (1, 224, 224, 3), Scale(C, axis=3))
    yield case("odd", (1, 3, 223, 225), Scale(C))
    yield case("odd", (7, 13, 31, 33), Scale(E))
    yield case("rank5", (2, 16, 16, 56, 56), Scale(C))
    yield case("rank8", (2, 2, 2, 4, 8, 16, 16, 16), Scale(C, axis=4))
    yield case("f16", SMALL, Scale(C), F16)
    yield case("bf16", SMALL, Scale(C), BF16)
    yield from _dynamic(case("dyn", (1, 64, 56, 56), Scale(C)), ((4, 64, 56, 56), (8, 64, 56, 56)))


def resize_cases() -> Iterator[Case]:
    """Resize: modes, coordinate transformations, roundings, axes, types, layouts, sizes by cache."""

    def case(
        name: str, shape: Shape, size: Shape, mode: steps.Mode = LINEAR, grid: steps.Grid = HP,
        dtype: Element = F32, rounding: steps.Rounding = FLOOR, known: float | None = None,
    ) -> Case:  # fmt: skip
        step = Resize(mode, size, grid=grid, rounding=rounding)
        return Case(f"resize_{name}", Layer.RESIZE, Tensor(shape, dtype), (step,), 0.0, 1.0, known=known)

    mid, mid2 = (8, 64, 56, 56), (8, 64, 112, 112)
    up, up2 = (1, 3, 224, 224), (1, 3, 320, 320)
    one, odd = (1, 64, 56, 56), (1, 64, 100, 100)
    cube, cube2 = (1, 32, 16, 56, 56), (1, 32, 32, 112, 112)
    yield case("nearest2x_1x320x64x64", (1, 320, 64, 64), (1, 320, 128, 128), NEAREST, AS, known=184 / 110.6)
    yield case("bilinear_hp_1x3x224to320", up, up2, known=24 / 7.5)
    yield case("bilinear_hp_8x64x56to112", mid, mid2, known=618 / 134.1)
    yield case("bilinear_hp_1080p_to640_u8_nhwc", PHOTO, (1, 640, 640, 3), dtype=U8)
    yield case("bicubic_hp_1x3x224to320", up, up2, CUBIC)
    yield case("trilinear_hp_1x32x16x56x56_2x", cube, cube2)
    yield case("bilinear_hp_f16_8x64x56to112", mid, mid2, dtype=F16)
    yield case("bilinear_hp_bf16_8x64x56to112", mid, mid2, dtype=BF16)
    for rounding in steps.Rounding:
        yield case(f"nearest_hp_{rounding.name.lower()}_1x64x56to100", one, odd, NEAREST, rounding=rounding)
    yield case("nearest_as_1x64x56to100", one, odd, NEAREST, AS)
    yield case("nearest_ac_half_up_1x64x56to100", one, odd, NEAREST, AC, rounding=HALF_UP)
    yield case("nearest_as_1080p_to640_u8_nhwc", PHOTO, (1, 640, 640, 3), NEAREST, AS, U8)
    yield case("nearest_as_bf16_2x_1x320x64x64", (1, 320, 64, 64), (1, 320, 128, 128), NEAREST, AS, BF16)
    yield case("nearest_as_3axes_1x32x16x56x56_2x", cube, cube2, NEAREST, AS)
    yield case("bilinear_ac_1x3x224to320", up, up2, grid=AC)
    yield case("bilinear_as_1x3x224to320", up, up2, grid=AS)
    yield case("bilinear_ac_8x64x56to112", mid, mid2, grid=AC)
    yield case("bilinear_as_8x64x56to112", mid, mid2, grid=AS)
    yield case("bilinear_hp_1x64x56to112", one, (1, 64, 112, 112))
    yield case("bilinear_hp_1x3x512to224", (1, 3, 512, 512), up)
    yield case("bilinear_hp_8x64x112to56", mid2, mid)
    yield case("linear_hp_w_8x64x32x64_2x", (8, 64, 32, 64), (8, 64, 32, 128))
    yield case("linear_hp_h_8x64x32x64_2x", (8, 64, 32, 64), (8, 64, 64, 64))
    yield case("linear_hp_rank3_8x64x1024to1500", (8, 64, 1024), (8, 64, 1500))
    yield case("trilinear_ac_1x8x16x40to24x60", (1, 8, 16, 40, 40), (1, 8, 24, 60, 60), grid=AC)
    yield case("bicubic_hp_1x3x512to224", (1, 3, 512, 512), up, CUBIC)
    yield case("bicubic_ac_1x3x224to320", up, up2, CUBIC, AC)
    yield case("bicubic_as_1x3x224to320", up, up2, CUBIC, AS)
    yield case("bicubic_hp_8x64x56to112", mid, mid2, CUBIC)
    yield case("cubic_hp_w_8x64x32x64_2x", (8, 64, 32, 64), (8, 64, 32, 128), CUBIC)
    yield case("bicubic_hp_bf16_1x3x224to320", up, up2, CUBIC, dtype=BF16)
    yield case("bilinear_hp_nhwc_8x56x56x64to112", (8, 56, 56, 64), (8, 112, 112, 64))
    yield case("bilinear_hp_u8_nchw_1x3x1080pto640", (1, 3, 1080, 1920), (1, 3, 640, 640), dtype=U8)
    yield case("bilinear_hp_L1_1x4x16to32", (1, 4, 16, 16), (1, 4, 32, 32))
    yield case("bilinear_hp_L2_1x16x32to64", (1, 16, 32, 32), (1, 16, 64, 64))
    yield case("bilinear_hp_mem_8x64x112to224", (8, 64, 112, 112), (8, 64, 224, 224))
    yield case("bilinear_hp_odd_1x3x223x225to321x317", (1, 3, 223, 225), (1, 3, 321, 317))
    twice = Resize(LINEAR, scales=TWICE)
    first = Case("resize_bilinear_hp_dyn_2x", Layer.RESIZE, Tensor((1, 64, 28, 28), F32), (twice,))
    yield from _dynamic(first, ((1, 64, 56, 56), (8, 64, 56, 56)))


def shuffle_cases() -> Iterator[Case]:
    """Shuffle: transposes, layouts, heads, pixels, channels, windows, reshapes; types, ranks, sizes."""

    def case(name: str, shape: Shape, *chain: Step, dtype: Element = F32, known: float | None = None) -> Case:
        return Case(f"shuffle_{name}", Layer.SHUFFLE, Tensor(shape, dtype), chain, known=known)

    def flat(name: str, rows: int, columns: int, dtype: Element = F32, known: float | None = None) -> Case:
        return case(f"t2d_{name}", (rows, columns), Transpose((1, 0)), dtype=dtype, known=known)

    heads = Transpose((0, 2, 1, 3))
    yield case("nchw2nhwc_8x64x112x112", BIG, TO_NHWC, known=449 / 308.4)
    yield case("nhwc2nchw_8x112x112x64", (8, 112, 112, 64), TO_NCHW, known=746 / 599.8)
    yield case("nchw2nhwc_1x3x224x224", SMALL, TO_NHWC)
    yield case("heads_8x128x12x64", (8, 128, 12, 64), heads)
    yield case("pixelshuffle2_1x256x64x64", (1, 256, 64, 64), *_pixel_shuffle(64, 64, 64))
    yield flat("4096", 4096, 4096, known=3356 / 2051.0)
    yield flat("bf16_4096", 4096, 4096, BF16)
    yield flat("512", 512, 512, known=14 / 7.9)
    yield case("u8_hwc2chw_1080p", (1080, 1920, 3), Transpose((2, 0, 1)), dtype=U8, known=55 / 51.3)
    yield flat("L1_64", 64, 64)
    yield flat("L2_256", 256, 256)
    yield flat("L3_1024", 1024, 1024)
    yield flat("odd_1023x1025", 1023, 1025)
    yield flat("u8_4096", 4096, 4096, U8)
    yield flat("f16_1024", 1024, 1024, F16)
    yield case("nhwc2nchw_1x224x224x3", (1, 224, 224, 3), TO_NCHW)
    yield case("nchw2nhwc_f16_8x64x112x112", BIG, TO_NHWC, dtype=F16)
    yield case("nchw2nhwc_i8_8x64x112x112", BIG, TO_NHWC, dtype=I8)
    yield case("nchw2nhwc_odd_7x13x31x33", (7, 13, 31, 33), TO_NHWC)
    yield case("chw2hwc_u8_1080p", (3, 1080, 1920), Transpose((1, 2, 0)), dtype=U8)
    yield case("rank3_021_8x512x768", (8, 512, 768), Transpose((0, 2, 1)))
    yield case("rank5_02341_2x32x16x28x28", (2, 32, 16, 28, 28), Transpose((0, 2, 3, 4, 1)))
    yield case("rank6_reversed_8x9x10x11x12x13", (8, 9, 10, 11, 12, 13), Transpose((5, 4, 3, 2, 1, 0)))
    yield case("unheads_8x12x128x64", (8, 12, 128, 64), heads, Reshape((0, 0, -1)))
    yield case("channelshuffle4_8x256x28x28", (8, 256, 28, 28), Reshape((0, 4, 64, 28, 28)),
               Transpose((0, 2, 1, 3, 4)), Reshape((0, -1, 28, 28)))  # fmt: skip
    yield case("windows7_8x56x56x96", (8, 56, 56, 96), Reshape((0, 8, 7, 8, 7, 96)),
               Transpose((0, 1, 3, 2, 4, 5)), Reshape((-1, 49, 96)))  # fmt: skip
    yield case("spacetodepth2_1x64x128x128", (1, 64, 128, 128), Reshape((0, 0, 64, 2, 64, 2)),
               Transpose((0, 3, 5, 1, 2, 4)), Reshape((0, -1, 64, 64)))  # fmt: skip
    yield case("reshape_8x64x112x112", BIG, Reshape((0, -1)))
    yield case("reshape_1x3x224x224", SMALL, Reshape((0, -1)))
    yield from _dynamic(case("nchw2nhwc_dyn", (1, 64, 56, 56), TO_NHWC), ((4, 64, 56, 56), (8, 64, 112, 112)))


def normalization_cases() -> Iterator[Case]:
    """Normalization: kinds, types, short and long rows, few and many, layouts, sizes by cache."""

    def case(name: str, shape: Shape, step: Norm, dtype: Element = F32, known: float | None = None) -> Case:
        kind = step.kind.value + (str(step.groups) if step.kind is steps.Statistics.GROUP else "")
        full = f"norm_{kind}_{name}_{steps.name_of(shape)}".replace("__", "_")
        return Case(full, Layer.NORMALIZATION, Tensor(shape, dtype), (step,), known=known)

    yield case("", (8, 512, 768), LN, known=188 / 131.9)
    yield case("f16", (8, 512, 768), LN, F16)
    yield case("", (1, 512, 4096), RMS)
    yield case("", (2, 320, 64, 64), GN, known=134 / 94.6)
    yield case("bf16", (2, 320, 64, 64), GN, BF16)
    yield case("", (4, 64, 128, 128), IN, known=312 / 228.6)
    yield case("bf16", (8, 512, 768), LN, BF16)
    yield case("L1", (1, 8, 768), LN)
    yield case("L2", (1, 64, 768), LN)
    yield case("mem", (32, 1024, 768), LN)
    yield case("short", (8, 4096, 64), LN)
    yield case("long", (4, 262144), LN)
    yield case("onerow", (1, 1, 768), LN)
    yield case("fewrows", (1, 16, 4096), LN)
    yield case("odd", (7, 33, 771), LN)
    yield case("nhwc", (8, 56, 56, 96), LN)
    yield case("axes123", (8, 64, 28, 28), replace(LN, axis=1))
    yield case("f16", (1, 512, 4096), RMS, F16)
    yield case("bf16", (1, 512, 4096), RMS, BF16)
    yield case("onerow", (1, 1, 4096), RMS)
    yield case("", (8, 320, 64, 64), GN)
    yield case("odd", (1, 30, 33, 35), replace(GN, groups=5))
    yield case("", (1, 64, 128, 128), IN)
    yield case("f16", (4, 64, 128, 128), IN, F16)
    yield case("rank5", (1, 16, 16, 56, 56), IN)
    yield from _dynamic(case("dyn", (1, 64, 768), LN), ((1, 256, 768), (8, 512, 768)))


def chain_cases() -> Iterator[Case]:
    """Chains of layers that should become one kernel."""

    def photo(name: str, shape: Shape, *chain: Step, known: float | None = None) -> Case:
        # Resizing in uint8, as OpenCV does, may be one code off, times the largest scale.
        return Case(name, Layer.CHAIN, Tensor(shape, U8), chain, slack=1.6, known=known)

    def chain(name: str, shape: Shape, *chain: Step, dtype: Element = F32) -> Case:
        return Case(f"chain_{name}", Layer.CHAIN, Tensor(shape, dtype), chain)

    nhwc, nchw = Resize(LINEAR, (1, 640, 640, 3)), Resize(LINEAR, (1, 3, 640, 640))
    up, floats, last = Resize(LINEAR, scales=TWICE), Cast(F32), Scale(C, axis=3)
    stem, half = "chain_preproc_1080p", Resize(LINEAR, (8, 224, 224, 3))
    yield photo(f"{stem}_rst", PHOTO, floats, nhwc, last, TO_NCHW, known=90 / 50.7)
    yield photo(f"{stem}_trs", PHOTO, floats, TO_NCHW, nchw, Scale(C), known=364 / 49.6)
    yield photo(f"{stem}_u8resize", PHOTO, nhwc, floats, last, TO_NCHW)
    norm = (GN, Scale(C), Silu())
    yield chain("gn_scale_silu_resize2x_nhwc_1x320x64x64", (1, 320, 64, 64), *norm, up, TO_NHWC)
    heads = (Reshape((0, 0, 12, 64)), Scale(E, axis=2), Transpose((0, 2, 1, 3)))
    yield chain("ln_scale_heads_8x128x768", (8, 128, 768), LN, *heads)
    yield chain("gn_silu_2x320x64x64", (2, 320, 64, 64), GN, Silu())
    yield chain("gn_silu_bf16_2x320x64x64", (2, 320, 64, 64), GN, Silu(), dtype=BF16)
    yield chain(
        "gn_scale_silu_resize2x_nhwc_bf16_1x320x64x64", (1, 320, 64, 64), *norm, up, TO_NHWC, dtype=BF16
    )
    yield chain("ln_scale_heads_bf16_8x128x768", (8, 128, 768), LN, *heads, dtype=BF16)
    yield chain("scale_reshape_scale_8x64x112x112", BIG, Scale(C), Reshape((0, 64, -1, 1)), Scale(C))
    yield chain("resize2x_scale_silu_nhwc_8x64x56x56", (8, 64, 56, 56), up, Scale(C), Silu(), TO_NHWC)
    yield photo("chain_preproc_8x480x640_to224_rst", (8, 480, 640, 3), floats, half, last, TO_NCHW)
    first = photo("chain_preproc_dyn_rst", (1, 720, 1280, 3), floats, nhwc, last, TO_NCHW)
    yield from _dynamic(first, ((1, 1080, 1920, 3), (1, 480, 640, 3)))


def spelled_cases() -> Iterator[Case]:
    """RMS, LayerNorm and variance from elementary layers, with each spelling of each part at least once."""
    mul, pow_, full = Square
    avg, total = Mean
    sqrt, power, inverse, recip = Root
    words, rows = (8, 512, 768), (1, 512, 4096)

    def rms(shape: Shape, how: Spelling, dtype: Element = F32) -> Case:
        return _spelled("rms", how.root.value, shape, spellings.rms, how, dtype, widened=True)

    def layer_norm(shape: Shape, how: Spelling, dtype: Element = F32) -> Case:
        return _spelled("ln", how.root.value, shape, spellings.layer_norm, how, dtype)

    def variance(shape: Shape, how: Spelling, dtype: Element = F32) -> Case:
        return _spelled("var", "", shape, spellings.variance, how, dtype)

    yield rms(rows, Spelling(pow_, avg, sqrt))
    yield rms(rows, Spelling(pow_, avg, recip))
    yield rms(rows, Spelling(pow_, avg, recip), BF16)
    yield rms(rows, Spelling(mul, total, power))
    yield rms(words, Spelling(full, avg, inverse))
    yield rms(words, Spelling(mul, avg, sqrt))
    yield layer_norm(words, Spelling(pow_, avg, sqrt))
    yield layer_norm(words, Spelling(pow_, avg, sqrt), F16)
    yield layer_norm(words, Spelling(pow_, avg, sqrt, twice=True))
    yield layer_norm(words, Spelling(mul, total, power, twice=True))
    yield layer_norm(rows, Spelling(mul, avg, recip))
    yield layer_norm(rows, Spelling(full, total, inverse))
    yield variance(words, Spelling(mul, avg))
    yield variance(words, Spelling(mul, avg), F16)
    yield variance(rows, Spelling(pow_, avg))
    yield variance(rows, Spelling(mul, total, twice=True))


def _spelled(
    name: str, root: str, shape: Shape, spell: Callable[[Sheet, int, Spelling], None], how: Spelling,
    dtype: Element, widened: bool = False,
) -> Case:  # fmt: skip
    """widened: half types are computed in float32, as language models write RMS."""
    half = "" if dtype is F32 else dtype.name.lower()
    spelled = ("twice" if how.twice else "", how.square.value, how.mean.value, root)
    parts = (name, *spelled, half, steps.name_of(shape))
    spell(to := Sheet(), shape[-1], how)
    chain: tuple[Step, ...] = (Formula(tuple(to.lines)),)
    if half and widened:
        chain = (Cast(F32), *chain, Cast(dtype))
    return Case("_".join(("spelled", *filter(None, parts))), Layer.SPELLED, Tensor(shape, dtype), chain)


def _pixel_shuffle(channels: int, height: int, width: int) -> tuple[Step, ...]:
    return (
        Reshape((0, channels, 2, 2, height, width)),
        Transpose((0, 1, 4, 2, 5, 3)),
        Reshape((0, channels, 2 * height, 2 * width)),
    )


def _dynamic(first: Case, others: tuple[Shape, ...]) -> Iterator[Case]:
    """The case at its own shape and at others, which one engine serves."""
    shapes = (first.input.shape, *others)
    for shape in shapes:
        stem = first.name.removesuffix("_" + steps.name_of(first.input.shape))
        name = f"{stem}_{steps.name_of(shape)}"
        yield replace(first, name=name, input=Tensor(shape, first.input.dtype), dynamic=shapes)


CASES: tuple[Case, ...] = (
    *scale_cases(),
    *resize_cases(),
    *shuffle_cases(),
    *normalization_cases(),
    *chain_cases(),
)
# Normalisation in other spellings has tables of its own.
SPELLED: tuple[Case, ...] = tuple(spelled_cases())
ALL: tuple[Case, ...] = (*CASES, *SPELLED)
# The smallest network, for the overhead of a call.
TINY = Case("call_1x1x3x3", Layer.SCALE, Tensor((1, 1, 3, 3), F32), (Scale(U),))
