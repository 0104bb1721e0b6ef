"""Convolutions and pooling.

Conv(x, kernel, bias, pads=[1, 1, 1, 1]) becomes one layer, which has the weights if they are constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from anyrt.api.compose.tensor import Tensor
from anyrt.api.compose.windows import DOWN, Windows, channels_of, convolved, set_borders
from anyrt.api.model.layer import ILayer
from anyrt.core.enums import DataType, PaddingMode, PoolingType, ReduceOperation, SampleMode, UnaryOperation
from anyrt.core.errors import ArgumentError, GraphError
from anyrt.onnx.node import Node, importer

MODES = {"SAME_UPPER": PaddingMode.SAME_UPPER, "SAME_LOWER": PaddingMode.SAME_LOWER}
UP = PaddingMode.EXPLICIT_ROUND_UP


def windows_of(node: Node, size: Sequence[int]) -> Windows:
    """The attributes for windows of this size; the defaults are 1 and 0."""
    axes = len(size)
    ones, zeros = (1,) * axes, (0,) * axes
    pads, named = node.attr("pads", (*zeros, *zeros)), node.attr("auto_pad", "NOTSET")
    if named not in ("NOTSET", "VALID", *MODES):
        got, wanted = f"auto_pad {named!r}", "NOTSET, VALID, SAME_UPPER or SAME_LOWER"
        raise ArgumentError("AR304", node.where, got, wanted)
    if named != "NOTSET":
        pads = (*zeros, *zeros)
    stride, dilation = node.attr("strides", ones), node.attr("dilations", ones)
    lists = (("strides", stride, axes), ("dilations", dilation, axes), ("pads", pads, 2 * axes))
    for name, values, count in lists:
        if len(values) != count:
            raise GraphError("AR417", node.where, f"{len(values)} {name}", f"{count} for {axes} axes")
    return Windows(tuple(size), stride, dilation, pads[:axes], pads[axes:], MODES.get(named))


def kernel_size(node: Node, kernel: Tensor) -> tuple[int, ...]:
    """The sizes of a kernel along the spatial axes."""
    size = kernel.sizes[2:]
    declared = node.attr("kernel_shape", size)
    if len(declared) != len(size) or any(s not in (-1, t) for s, t in zip(size, declared, strict=True)):
        raise GraphError("AR417", node.where, f"kernel_shape {declared}", f"the kernel's sizes {size}")
    return declared


def filtered(
    node: Node, method: str, x: Tensor, kernel: Tensor, bias: Tensor | None, by: Windows, maps: int
) -> Tensor:
    """A convolution or deconvolution with `maps` output channels; constants become weights of the layer."""
    return convolved(node, method, x, kernel, bias, by, maps, node.attr("group", 1))


def with_channels(node: Node, x: Tensor, count: int) -> Tensor:
    """`x`, (N, C, …), with a dynamic C replaced by the C of the kernel."""
    if x.rank < 2 or x.sizes[1] >= 0:
        return x
    return node.reshape(x, [0, count, *(0 for _ in x.sizes[2:])], zero_copies=True)


def convolution(node: Node) -> Tensor:
    """A Convolution layer."""
    x, kernel = node.input(0), node.input(1)
    by = windows_of(node, kernel_size(node, kernel))
    maps, each = (channels_of(node, kernel, k) for k in (0, 1))
    x = with_channels(node, x, each * node.attr("group", 1))
    return filtered(node, "add_convolution_nd", x, kernel, node.optional(2), by, maps)


importer("Conv")(convolution)


@importer("ConvTranspose")
def conv_transpose(node: Node) -> Tensor:
    """A Deconvolution layer; `output_padding` adds products with zeros after the input."""
    x, kernel = node.input(0), node.input(1)
    by = windows_of(node, kernel_size(node, kernel))
    maps = channels_of(node, kernel, 1) * node.attr("group", 1)
    x = with_channels(node, x, channels_of(node, kernel, 0))
    more, shape = node.attr("output_padding", (0,) * len(by.size)), node.attr("output_shape", ())
    if shape:
        return _of_shape(node, x, kernel, by, maps, shape[-len(by.size) :], more)
    if by.mode is not None:
        by = _halved(by, [r - s + m for r, s, m in zip(by.reach, by.stride, more, strict=True)])
    return _spread(node, x, kernel, by, maps, more)


def _halved(by: Windows, border: Sequence[int]) -> Windows:
    """Explicit padding of `border` elements along each axis; an odd element is before, except for
    SAME_UPPER."""
    upper = by.mode is PaddingMode.SAME_UPPER
    before = tuple(b // 2 if upper else b - b // 2 for b in border)
    after = tuple(b - a for a, b in zip(before, border, strict=True))
    return Windows(by.size, by.stride, by.dilation, before, after, None)


def _spread(node: Node, x: Tensor, kernel: Tensor, by: Windows, maps: int, more: Sequence[int]) -> Tensor:
    """The deconvolution; `more`: additional elements at the end. Negative padding is replaced by zeros around
    the input."""
    after = [a - m for a, m in zip(by.after, more, strict=True)]
    front, back = (
        [max(0, -(b // s)) for b, s in zip(borders, by.stride, strict=True)] for borders in (by.before, after)
    )
    if any((*front, *back)):
        sizes = [x.size(k) + (f + b) for k, (f, b) in enumerate(zip(front, back, strict=True), 2)]
        start = [0, 0, *(-f for f in front)]
        x = node.slice(x, start, [x.size(0), x.size(1), *sizes], mode=SampleMode.FILL)
    before = tuple(b + f * s for b, f, s in zip(by.before, front, by.stride, strict=True))
    behind = tuple(b + f * s for b, f, s in zip(after, back, by.stride, strict=True))
    explicit = Windows(by.size, by.stride, by.dilation, before, behind, None)
    return filtered(node, "add_deconvolution_nd", x, kernel, node.optional(2), explicit, maps)


def _of_shape(
    node: Node,
    x: Tensor,
    kernel: Tensor,
    by: Windows,
    maps: int,
    sizes: Sequence[int],
    more: Sequence[int],
) -> Tensor:
    """The deconvolution with an output of these sizes, cropped from the full output."""
    spatial = x.sizes[2:]
    if all(n >= 0 for n in spatial):
        lengths = zip(spatial, by.stride, by.reach, more, sizes, strict=True)
        return _spread(node, x, kernel, _halved(by, [(n - 1) * s + r + m - w for n, s, r, m, w in lengths]),
                       maps, more)  # fmt: skip
    zeros = (0,) * len(by.size)
    plain = Windows(by.size, by.stride, by.dilation, zeros, zeros, None)
    y = _spread(node, x, kernel, plain, maps, more)
    border = [y.size(k) - w for k, w in enumerate(sizes, 2)]
    upper = by.mode is PaddingMode.SAME_UPPER
    start = [b // 2 if upper else b - b // 2 for b in border]
    return node.slice(y, [0, 0, *start], [y.size(0), maps, *sizes])


# ---- pooling --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pool:
    """A pooling: the operand, with at least two spatial axes, and the windows."""

    node: Node
    x: Tensor
    by: Windows
    ceil: bool

    @property
    def mode(self) -> PaddingMode:
        """The rounding of sizes."""
        return UP if self.ceil else DOWN

    def layer(self, kind: PoolingType, mode: PaddingMode, **more: object) -> ILayer:
        """The layer."""
        settings = {"stride_nd": self.by.stride, **more}
        if any(d > 1 for d in self.by.dilation):
            settings["dilation_nd"] = self.by.dilation
        layer = self.node.add("add_pooling_nd", self.x, kind, self.by.size, **settings)
        set_borders(layer, self.by, mode)
        return layer

    def finished(self, y: Tensor) -> Tensor:
        """The result without windows that begin after the input, and without the added axis."""
        by, flat = self.by, self.node.input(0).rank == 3
        if self.ceil and by.mode is None and any(self._may_begin_behind(k) for k in range(len(by.size))):
            y = self._kept(y)
        return y.squeeze(3) if flat else y

    def _may_begin_behind(self, k: int) -> bool:
        by = self.by
        return by.stride[k] + by.after[k] > by.reach[k]

    def _kept(self, y: Tensor) -> Tensor:
        sizes: list[int | Tensor] = [y.size(k) for k in range(y.rank)]
        for k, stride in enumerate(self.by.stride):
            if self._may_begin_behind(k):
                there = self.x.size(2 + k) + self.by.before[k]
                sizes[2 + k] = y.size(2 + k).minimum((there + (stride - 1)) // stride)
        return self.node.slice(y, [0] * y.rank, sizes)


def pool_of(node: Node, x: Tensor) -> Pool:
    """The pooling of an operand; one spatial axis becomes two."""
    size = node.required("kernel_shape", ())
    if x.rank != len(size) + 2:
        raise GraphError("AR417", node.where, f"{len(size)} sizes of a window", f"{x.rank - 2} sizes")
    by = windows_of(node, size)
    if x.rank == 3:
        x = x.unsqueeze(3)
        by = Windows((*size, 1), (*by.stride, 1), (*by.dilation, 1), (*by.before, 0), (*by.after, 0), by.mode)
    return Pool(node, x, by, bool(node.attr("ceil_mode", 0)))


@importer("MaxPool")
def max_pool(node: Node) -> list[Tensor | None]:
    """The maximum of each window, and its position in the tensor."""
    pool, dtype = pool_of(node, node.input(0)), node.input(0).dtype
    if dtype is DataType.UINT8:
        pool = Pool(node, pool.x.cast(DataType.FLOAT), pool.by, pool.ceil)
    asked = len(node.outputs_named) > 1 and bool(node.outputs_named[1])
    more = {"indices_type": DataType.INT64} if asked else {}
    layer = pool.layer(PoolingType.MAX, pool.mode, **more)
    y = pool.finished(node.tensor(layer.get_output(0))).cast(dtype)
    if not asked:
        return [y]
    return [y, pool.finished(_in_tensor(pool, node.tensor(layer.get_output(1))))]


def _in_tensor(pool: Pool, places: Tensor) -> Tensor:
    """Convert positions in a plane to positions in the tensor, in column-major order if `storage_order` is
    1."""
    node, x = pool.node, pool.x
    sizes = [x.size(k) for k in range(2, x.rank)]
    plane = sizes[0]
    for size in sizes[1:]:
        plane = plane * size
    if node.attr("storage_order", 0) == 1:
        places = _by_columns(places, sizes)
    count = x.size(0) * x.size(1)
    planes = node.counted(count) * plane
    return places + planes.reshape([x.size(0), x.size(1), *(1 for _ in sizes)])


def _by_columns(places: Tensor, sizes: Sequence[Tensor]) -> Tensor:
    """Convert positions in a plane to column-major order."""
    ones = (1,) * places.rank
    along = []
    for size in reversed([s.reshape(ones) for s in sizes]):
        rest = places // size
        along.append((places - rest * size, size))
        places = rest
    column = along[0][0]
    for at, size in along[1:]:
        column = column * size + at
    return column


@importer("AveragePool")
def average_pool(node: Node) -> Tensor:
    """The mean of each window."""
    return averaged(node, node.input(0))


def averaged(node: Node, x: Tensor) -> Tensor:
    """The mean of each window of an operand."""
    pool = pool_of(node, x)
    excludes = node.attr("count_include_pad", 0) == 0
    layer = pool.layer(PoolingType.AVERAGE, pool.mode, average_count_excludes_padding=excludes)
    return pool.finished(node.tensor(layer.get_output(0)))


@importer("LpPool")
def lp_pool(node: Node) -> Tensor:
    """The p-th root of the sum of each window's p-th powers."""
    x, p = node.input(0), node.attr("p", 2)
    pool = pool_of(node, _wide(x))
    powers = Pool(node, powered(pool.x, p), _rounded_up(pool.by) if pool.ceil else pool.by, pool.ceil)
    layer = powers.layer(PoolingType.AVERAGE, DOWN, average_count_excludes_padding=False)
    sums = pool.finished(node.tensor(layer.get_output(0))) * float(prod(pool.by.size))
    return rooted(sums, p).cast(x.dtype)


def _wide(x: Tensor) -> Tensor:
    """Convert to float32, so that powers and exponents such as 1/3 are not rounded to half types."""
    return x.cast(DataType.FLOAT) if x.dtype in (DataType.HALF, DataType.BF16) else x


def _rounded_up(by: Windows) -> Windows:
    """Windows with sizes rounded up, over zeros."""
    after = tuple(a + s - 1 for a, s in zip(by.after, by.stride, strict=True))
    return Windows(by.size, by.stride, by.dilation, by.before, after, by.mode)


def powered(x: Tensor, p: int) -> Tensor:
    """The p-th powers of magnitudes."""
    if p == 2:
        return x * x
    x = x.layers.unary(UnaryOperation.ABS, x)
    return x if p == 1 else x ** float(p)


def rooted(x: Tensor, p: int) -> Tensor:
    """The p-th roots."""
    if p == 2:
        return x.layers.unary(UnaryOperation.SQRT, x)
    return x if p == 1 else x ** (1.0 / p)


@importer("GlobalAveragePool")
def global_average_pool(node: Node) -> Tensor:
    """The mean of each channel."""
    return _whole(node, ReduceOperation.AVG, node.input(0))


@importer("GlobalMaxPool")
def global_max_pool(node: Node) -> Tensor:
    """The maximum of each channel."""
    return _whole(node, ReduceOperation.MAX, node.input(0))


@importer("GlobalLpPool")
def global_lp_pool(node: Node) -> Tensor:
    """The norm of each channel."""
    x, p = node.input(0), node.attr("p", 2)
    return rooted(_whole(node, ReduceOperation.SUM, powered(_wide(x), p)), p).cast(x.dtype)


def _whole(node: Node, op: ReduceOperation, x: Tensor) -> Tensor:
    return node.reduce(op, x, range(2, x.rank))
