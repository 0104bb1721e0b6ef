"""Formats of memory: how the elements of a tensor with channels are laid out, for each `TensorFormat`.

Most formats group neighbouring channels to vectors. Either the vectors replace the axis of channels, and each
vector is a plane (CHW4), or channels become innermost (HWC8). A size that does not fill its vectors is
padded. Functions accept sizes that are numbers or symbols.

>>> in_memory(TensorFormat.CHW4, DataType.INT8, (2, 6, 5, 7))
(2, 2, 5, 7, 4)
>>> in_memory(TensorFormat.HWC8, DataType.HALF, (2, 6, 5, 7))
(2, 5, 7, 8)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from anyrt.core.dims import Dim, ceildiv, floordiv, mul
from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType, TensorFormat

Shape = tuple[Dim, ...]

LINE: Final = 64  # bytes to which a DLA pads a row of an image
IMAGE: Final = {1: 1, 3: 4, 4: 4}  # channels of an image, and the elements that a DLA reads of each pixel

_F32, _F16, _BF16, _FP8 = DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.FP8
_I8, _U8, _I64 = DataType.INT8, DataType.UINT8, DataType.INT64


@dataclass(frozen=True, slots=True)
class Layout:
    """`types`: element types. `channel`: the axis of channels, counted from the last one, or 0 for none.
    `vector`: channels in a vector. `innermost`: channels are innermost; otherwise vectors are an outer axis.
    `line`: rows are padded to LINE bytes. `image`: a vector has as many elements as IMAGE says."""

    types: frozenset[DataType]
    channel: int = 3
    vector: int = 1
    innermost: bool = False
    line: bool = False
    image: bool = False


def _of(*types: DataType) -> frozenset[DataType]:
    return frozenset(types)


LAYOUTS: Final = {
    TensorFormat.LINEAR: Layout(_of(*DataType), 0),
    TensorFormat.CHW2: Layout(_of(_F16, _BF16), vector=2),
    TensorFormat.HWC8: Layout(_of(_F16, _BF16), vector=8, innermost=True),
    TensorFormat.CHW4: Layout(_of(_F16, _I8), vector=4),
    TensorFormat.CHW16: Layout(_of(_F16), vector=16),
    TensorFormat.CHW32: Layout(_of(_F32, _F16, _I8), vector=32),
    TensorFormat.DHWC8: Layout(_of(_F16, _BF16), channel=4, vector=8, innermost=True),
    TensorFormat.CDHW32: Layout(_of(_F16, _I8), channel=4, vector=32),
    TensorFormat.HWC: Layout(_of(_F32, _F16, _BF16, _U8, _I64), innermost=True),
    TensorFormat.DLA_LINEAR: Layout(_of(_F16, _I8), line=True),
    TensorFormat.DLA_HWC4: Layout(_of(_F16, _I8), innermost=True, line=True, image=True),
    TensorFormat.HWC16: Layout(_of(_F16, _I8, _FP8), vector=16, innermost=True),
    TensorFormat.DHWC: Layout(_of(_F32), channel=4, innermost=True),
}


def misfit(format: TensorFormat, dtype: DataType, shape: Shape) -> str:
    """The requirement of `format` that this tensor does not meet; "" if it meets all."""
    layout = LAYOUTS[format]
    if dtype not in layout.types:
        return " or ".join(short_name(t) for t in sorted(layout.types, key=int))
    if len(shape) < layout.channel:
        return f"{layout.channel} dimensions or more"
    if layout.image and shape[-layout.channel] not in IMAGE:
        return f"{', '.join(map(str, IMAGE))} channels"
    return ""


def vector_axis(format: TensorFormat, shape: Shape) -> int:
    """The axis that is split into vectors; −1 for none."""
    return len(shape) - LAYOUTS[format].channel if vector_length(format, shape) > 1 else -1


def vector_length(format: TensorFormat, shape: Shape) -> int:
    """Elements of a vector, 1 where there are none."""
    layout = LAYOUTS[format]
    if not layout.image:
        return layout.vector
    channels = shape[-layout.channel]
    assert isinstance(channels, int), "images have so many channels"
    return IMAGE[channels]


def padded(format: TensorFormat, dtype: DataType, shape: Shape) -> Shape:
    """`shape` with whole vectors and, if the format requires them, whole lines."""
    layout, vector = LAYOUTS[format], vector_length(format, shape)
    sizes = list(shape)
    if vector > 1:
        sizes[-layout.channel] = _rounded(sizes[-layout.channel], vector)
    if layout.line:
        sizes[-1] = _rounded(sizes[-1], LINE // (vector * int(dtype.itemsize)))
    return tuple(sizes)


def _rounded(size: Dim, unit: int) -> Dim:
    return mul(ceildiv(size, unit), unit)


def splits(format: TensorFormat) -> bool:
    """Whether vectors are an outer axis, so that memory has one more axis, for the elements of a vector."""
    layout = LAYOUTS[format]
    return layout.vector > 1 and not layout.innermost


def order(format: TensorFormat, rank: int) -> tuple[int, ...]:
    """The axes in memory order, outermost first; if the format splits the axis of channels, that of its
    vectors."""
    layout = LAYOUTS[format]
    channel = rank - layout.channel
    if not layout.innermost:
        return tuple(range(rank))
    return (*(k for k in range(rank) if k != channel), channel)


def in_memory(format: TensorFormat, dtype: DataType, shape: Shape) -> Shape:
    """The sizes of the row-major array that holds a tensor of this shape."""
    whole, vector = list(padded(format, dtype, shape)), vector_length(format, shape)
    if splits(format):
        axis = vector_axis(format, shape)
        whole[axis] = floordiv(whole[axis], vector)
        return (*whole, vector)
    return tuple(whole[k] for k in order(format, len(shape)))
