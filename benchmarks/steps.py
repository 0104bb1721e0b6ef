"""The language of cases: a tensor passes through a chain of steps, which every peer translates.

>>> infer(Resize(Mode.LINEAR, scales=(1, 1, 2, 2)), Tensor((1, 3, 8, 8), Element.F32))
Tensor(shape=(1, 3, 16, 16), dtype=<Element.F32: 'float32'>)
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from benchmarks.layers.formula import Formula, shape_of

Shape: TypeAlias = tuple[int, ...]


class Element(enum.Enum):
    """An element type, by its NumPy name."""

    F32 = "float32"
    F16 = "float16"
    BF16 = "bfloat16"
    U8 = "uint8"
    I8 = "int8"

    @property
    def numpy(self) -> np.dtype[Any]:  # Any: whichever it is
        """The NumPy type."""
        dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16 if self is Element.BF16 else self.value)
        return dtype

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self in (Element.F32, Element.F16, Element.BF16)

    @property
    def ends(self) -> tuple[int, int]:
        """The lowest and the highest code of an integer type."""
        return (-128, 127) if self is Element.I8 else (0, 255)


@dataclass(frozen=True, slots=True)
class Tensor:
    """Shape and element type."""

    shape: Shape
    dtype: Element

    @property
    def nbytes(self) -> int:
        """Its size in memory."""
        return math.prod(self.shape) * self.dtype.numpy.itemsize


class Reach(enum.Enum):
    """The elements that share a coefficient of Scale."""

    UNIFORM = "u"
    CHANNEL = "c"
    ELEMENTWISE = "e"


@dataclass(frozen=True, slots=True)
class Scale:
    """(x · scale + shift) ^ power; coefficients run along `axis`, with ELEMENTWISE also along later axes."""

    reach: Reach
    axis: int = 1
    scale: bool = True
    shift: bool = True
    power: float = 1.0


class Mode(enum.Enum):
    """How Resize interpolates."""

    NEAREST = "nearest"
    LINEAR = "linear"
    CUBIC = "cubic"


class Grid(enum.Enum):
    """How Resize maps positions, by ONNX's names."""

    HALF_PIXEL = "half_pixel"
    ALIGN_CORNERS = "align_corners"
    ASYMMETRIC = "asymmetric"


class Rounding(enum.Enum):
    """How nearest Resize rounds positions, by ONNX's names."""

    FLOOR = "floor"
    CEIL = "ceil"
    HALF_UP = "round_prefer_ceil"
    HALF_DOWN = "round_prefer_floor"


@dataclass(frozen=True, slots=True)
class Resize:
    """Interpolation to `size`, or by `scales`; cubic with the coefficient −0.75."""

    mode: Mode
    size: Shape | None = None
    scales: tuple[float, ...] | None = None
    grid: Grid = Grid.HALF_PIXEL
    rounding: Rounding = Rounding.FLOOR


@dataclass(frozen=True, slots=True)
class Transpose:
    """Output axis i is input axis perm[i]."""

    perm: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reshape:
    """0 copies the size at its position, −1 is inferred."""

    shape: Shape


class Statistics(enum.Enum):
    """The axes of mean and variance: LAYER and RMS those from `Norm.axis`, the others those after 1."""

    LAYER = "ln"
    RMS = "rms"
    GROUP = "gn"
    INSTANCE = "in"


@dataclass(frozen=True, slots=True)
class Norm:
    """Normalisation, then a multiply-add: for each channel (GROUP, INSTANCE) or each element of a row."""

    kind: Statistics
    groups: int = 32
    axis: int = -1
    epsilon: float = 1e-5


@dataclass(frozen=True, slots=True)
class Silu:
    """x · sigmoid(x)."""


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast to another element type."""

    dtype: Element


@dataclass(frozen=True, slots=True)
class Dequantize:
    """int8 codes times `scale`, as float32."""

    scale: float


@dataclass(frozen=True, slots=True)
class Quantize:
    """float32 divided by `scale`, rounded half to even, saturated to int8."""

    scale: float


Step: TypeAlias = Scale | Resize | Transpose | Reshape | Norm | Silu | Cast | Dequantize | Quantize | Formula


def infer(step: Step, x: Tensor) -> Tensor:
    """Shape and type of the result of a step."""
    match step:
        case Resize(size=size, scales=scales):
            factors = scales or (1.0,) * len(x.shape)
            return Tensor(size or tuple(int(d * f) for d, f in zip(x.shape, factors, strict=True)), x.dtype)
        case Transpose(perm):
            return Tensor(tuple(x.shape[i] for i in perm), x.dtype)
        case Reshape(shape):
            return Tensor(_filled(shape, x.shape), x.dtype)
        case Cast(dtype):
            return Tensor(x.shape, dtype)
        case Dequantize():
            return Tensor(x.shape, Element.F32)
        case Quantize():
            return Tensor(x.shape, Element.I8)
        case Formula():
            return Tensor(shape_of(step, x.shape), x.dtype)
        case _:
            return x


def name_of(shape: Shape) -> str:
    """A shape in the name of a case: 8x64x112x112."""
    return "x".join(map(str, shape))


def types(steps: tuple[Step, ...], x: Tensor) -> tuple[Tensor, ...]:
    """The input, and the result of each step."""
    out = [x]
    for step in steps:
        out.append(infer(step, out[-1]))
    return tuple(out)


def _filled(shape: Shape, before: Shape) -> Shape:
    copied = tuple(before[i] if d == 0 else d for i, d in enumerate(shape))
    known = math.prod(d for d in copied if d != -1)
    return tuple(math.prod(before) // known if d == -1 else d for d in copied)


def norm_axes(step: Norm, rank: int) -> tuple[int, ...]:
    """The axes of the statistics; for GROUP those after the channels."""
    per_row = step.kind in (Statistics.LAYER, Statistics.RMS)
    return tuple(range(step.axis % rank if per_row else 2, rank))


def affine_shape(step: Norm, shape: Shape) -> Shape:
    """The shape of scale and bias, of the input's rank."""
    rank = len(shape)
    axes = norm_axes(step, rank) if step.kind in (Statistics.LAYER, Statistics.RMS) else (1,)
    return tuple(d if i in axes else 1 for i, d in enumerate(shape))


def scale_shape(step: Scale, shape: Shape) -> Shape:
    """The shape of the coefficients, of the input's rank."""
    rank, axis = len(shape), step.axis
    match step.reach:
        case Reach.UNIFORM:
            return (1,) * rank
        case Reach.CHANNEL:
            return tuple(d if i == axis else 1 for i, d in enumerate(shape))
        case Reach.ELEMENTWISE:
            return tuple(d if i >= axis else 1 for i, d in enumerate(shape))
