"""Convolutions by explicit windows, and those whose elements lie at offsets.

y = convolved(layers, "add_convolution_nd", x, kernel, bias, Windows(size, …), maps, groups)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from anyrt.api.compose.boxes import number
from anyrt.api.compose.layers import INT64, Layers
from anyrt.api.compose.normalizations import wide
from anyrt.api.compose.sizes import Size, length, volume
from anyrt.api.compose.tensor import Tensor
from anyrt.api.model.layer import ILayer
from anyrt.core.enums import PaddingMode, SampleMode
from anyrt.core.errors import NotSupportedError

DOWN = PaddingMode.EXPLICIT_ROUND_DOWN


@dataclass(frozen=True, slots=True)
class Windows:
    """How windows slide; `mode` None: borders are explicit."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    mode: PaddingMode | None = None

    @property
    def reach(self) -> tuple[int, ...]:
        """Positions from the first to the last element of a window, along each axis."""
        return tuple(1 + d * (s - 1) for s, d in zip(self.size, self.dilation, strict=True))


def convolved(
    layers: Layers,
    method: str,
    x: Tensor,
    kernel: Tensor,
    bias: Tensor | None,
    by: Windows,
    maps: int,
    groups: int,
) -> Tensor:
    """A convolution, or a deconvolution, of `maps` channels; constants are weights of the layer."""
    weights, added = (None if v is None else layers.held(v) for v in (kernel, bias))
    layer = layers.add(method, x, maps, by.size, weights, added)
    for name, value in (("stride_nd", by.stride), ("dilation_nd", by.dilation)):
        setattr(layer, name, value)
    set_borders(layer, by)
    layer.num_groups = groups
    return layers.with_inputs(
        layer, {1: None if weights is not None else kernel, 2: None if added is not None else bias}
    )


def set_borders(layer: ILayer, by: Windows, mode: PaddingMode = DOWN) -> None:
    """What lies around the input of a layer."""
    layer.padding_mode = by.mode or mode
    layer.pre_padding, layer.post_padding = by.before, by.after


def channels_of(layers: Layers, kernel: Tensor, axis: int) -> int:
    """The number of channels that a kernel has along this axis; NotSupportedError AR901 if it is dynamic."""
    if kernel.sizes[axis] < 0:
        got = "a kernel with a dynamic number of channels"
        raise NotSupportedError("AR901", layers.where, got, "a static number", "give it a fixed shape")
    return kernel.sizes[axis]


# ---- windows that data move -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Offsets:
    """How far elements of windows move, (batch, 2 · groups · elements, rows, columns), y before x, for
    `groups` parts of the channels; mask: what each counts then, with one number for two."""

    moved: Tensor
    groups: int
    mask: Tensor | None


def deformed(
    layers: Layers,
    x: Tensor,
    kernel: Tensor,
    bias: Tensor | None,
    by: Windows,
    offsets: Offsets,
    groups: int,
) -> Tensor:
    """A convolution whose elements lie at offsets, between four neighbours: samples, then a contraction."""
    moved, parts, count = offsets.moved, offsets.groups, prod(by.size)
    batch, rows, columns = (length(moved, k) for k in (0, 2, 3))
    moved = moved.reshape([batch * parts, count, 2, volume(moved, (2, 3))])
    sizes = [_power(length(x, 2 + k)) for k in range(2)]
    grid = [_places(layers, by, moved, k, rows, columns, sizes[k]) for k in (1, 0)]
    maps, each = channels_of(layers, kernel, 0), channels_of(layers, kernel, 1)
    channels = each * groups
    x = layers.slice(x, [0] * 4, [batch, channels, *sizes], mode=SampleMode.FILL)
    planes = x.reshape([batch * parts, channels // parts, *sizes])
    at = layers.concat(grid, 3)
    y = layers.layer("add_grid_sample", planes, at, sample_mode=SampleMode.FILL, align_corners=False)
    if offsets.mask is not None:
        y = y * offsets.mask.reshape([batch * parts, 1, count, rows * columns])
    y = y.reshape([batch, channels, count, rows, columns])
    flat = _flat(layers, kernel, (maps, each, count, 1, 1))
    point = Windows((count, 1, 1), (1,) * 3, (1,) * 3, (0,) * 3, (0,) * 3)
    return convolved(layers, "add_convolution_nd", y, flat, bias, point, maps, groups).squeeze(2)


def _power(size: Size) -> Size:
    """The next power of two, by which positions are divided without rounding; zeros lie behind the input."""
    return 1 << max(size - 1, 0).bit_length() if isinstance(size, int) else size


def _flat(layers: Layers, kernel: Tensor, shape: tuple[int, ...]) -> Tensor:
    held = layers.held(kernel)
    return kernel.reshape(shape) if held is None else layers.weights(held, shape)


def _places(
    layers: Layers, by: Windows, moved: Tensor, k: int, rows: Size, columns: Size, size: Size
) -> Tensor:
    """Where samples lie along spatial axis `k`, from −1 to 1 over its elements' outer edges:
    (batches · groups, elements of a window, positions, 1)."""
    element = np.indices(by.size)[k].reshape(1, -1, 1) * by.dilation[k] - by.before[k]
    steps = layers.counted(columns if k else rows) * by.stride[k]
    steps = steps.reshape([1, -1] if k else [-1, 1])
    window = layers.expand(steps, [rows, columns]).reshape([1, 1, rows * columns])
    dtype, moved = moved.dtype, wide(moved)
    place = (window + layers.constant(element, INT64)).cast(moved.dtype)
    shift = layers.gather(moved, layers.constant([k], INT64), 2).squeeze(2)
    whole = number(layers, size, moved.dtype)
    return (((place + shift) * 2.0 + 1.0) / whole - 1.0).cast(dtype).unsqueeze(3)
