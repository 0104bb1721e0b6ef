"""Data movement: transpose, slice, concatenate, repeat, pad."""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.api.compose.sizes import (
    Size,
    broadcast_to,
    counted,
    entries,
    if_negative,
    larger,
    length,
    lengths,
    lengths_along,
    positions,
    smaller,
    spread,
    stack,
    window,
)
from anyrt.api.compose.tensor import Tensor
from anyrt.core.counts import counts as counts_in
from anyrt.core.enums import DataType, SampleMode, UnaryOperation
from anyrt.onnx.node import Node, importer, named

INT64 = DataType.INT64


@importer("Transpose")
def transpose(node: Node) -> Tensor:
    """The axes in another order, by default reversed."""
    x = node.input(0)
    return node.transpose(x, node.attr("perm", tuple(reversed(range(x.rank)))))


@importer("Concat")
def concat(node: Node) -> Tensor:
    """The concatenation of tensors."""
    parts = node.present()
    return node.concat(parts, node.axis(parts[0], default=1 if node.version < 4 else 0))


@importer("Where")
def where(node: Node) -> Tensor:
    """A selection by a condition."""
    return node.where_(node.input(0), node.input(1), node.input(2))


@importer("Expand")
def expand(node: Node) -> Tensor:
    """A broadcast to a shape."""
    return broadcast_to(node.input(0), entries(node.input(1)))


@importer("Tile")
def tile(node: Node) -> Tensor:
    """All elements repeated along each axis."""
    x = node.input(0)
    counts, whole = entries(node.input(1)), lengths(x)
    sizes = [n * count for n, count in zip(whole, counts, strict=True)]
    if not any(map(counts_in, node.value(x).shape)):
        return node.slice(x, [0] * x.rank, sizes, mode=SampleMode.WRAP)
    for axis, (n, count) in enumerate(zip(whole, counts, strict=True)):
        if count != 1:
            place = positions(node, sizes[axis])
            x = node.gather(x, place - place // n * n, axis)
    return x


@importer("Slice")
def slice_(node: Node) -> Tensor:
    """Slices with steps, with indices as in Python."""
    x = node.input(0)
    starts, ends = (_input_or_attribute(node, i, name) for i, name in ((1, "starts"), (2, "ends")))
    axes, strides = named(node, 3), node.optional(4)
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if strides is None else entries(strides)
    windows = zip(lengths_along(x, axes), starts, ends, steps, strict=True)
    bounded = [_window(*window) for window in windows]
    bounded = [(w[0], _bounded(w[1], n)) for w, n in zip(bounded, lengths_along(x, axes), strict=True)]
    first = spread([w[0] for w in bounded], axes, [0] * x.rank)
    sizes = spread([w[1] for w in bounded], axes, lengths(x))
    step = spread(steps, axes, [1] * x.rank)
    if not isinstance(axes, Tensor):
        return node.slice(x, first, sizes, step)
    for axis in range(x.rank):  # the conditions for a slice along data-dependent axes would be too long
        x = node.gather(x, positions(node, larger(sizes[axis], 0)) * step[axis] + first[axis], axis)
    return x


def _bounded(size: Size, n: Size) -> Size:
    """A size of at most `n`; for a data-dependent size, this bound is explicit: loops need it."""
    if isinstance(size, Tensor) and size.layers.symbols(size) is None:
        return smaller(size, n)
    return size


def _input_or_attribute(node: Node, i: int, name: str) -> list[Size]:
    x = node.optional(i)
    return list(node.required(name, (0,))) if x is None else entries(x)


def _window(n: Size, start: Size, end: Size, step: Size) -> tuple[Size, Size]:
    """The start and the number of elements of a slice along an axis of `n` elements."""
    lowest = if_negative(step, -1, 0)  # with a negative step, both ends may be before the first element
    start, end = (larger(smaller(if_negative(p, p + n, p), n + lowest), lowest) for p in (start, end))
    return start, counted(start, end, step)


@importer("Pad")
def pad(node: Node) -> Tensor:
    """Padding of all or some axes; negative padding removes elements."""
    x, pads, value = node.input(0), node.optional(1), node.optional(2)
    name = "paddings" if node.version < 2 else "pads"
    borders = list(node.required(name, (0,))) if pads is None else entries(pads)
    mode = node.choice("mode", "constant", MODES)
    count, none = len(borders) // 2, [0] * x.rank
    axes = named(node, 3)
    before, after = (spread(b, axes, none) for b in (borders[:count], borders[count:]))
    starts = [0 - n for n in before]
    sizes = [n + a + b for n, a, b in zip(lengths(x), before, after, strict=True)]
    fill = None
    if mode is SampleMode.FILL:
        fill = (node.constant(node.attr("value", 0.0), x.dtype) if value is None else value).reshape(())
    if isinstance(axes, Tensor) or any(map(counts_in, node.value(x).shape)):
        return _padded(node, x, starts, sizes, mode, fill)
    return node.slice(x, starts, sizes, mode=mode, fill=fill)


def _padded(
    node: Node, x: Tensor, starts: list[Size], sizes: list[Size], mode: SampleMode, fill: Tensor | None
) -> Tensor:
    """Padding by gathers: the conditions for a slice along data-dependent axes would be too long, and a slice
    that reads outside needs sizes that follow from inputs."""
    inside: Tensor | None = None
    for axis in range(x.rank):
        at, n = positions(node, larger(sizes[axis], 0)) + starts[axis], x.size(axis)
        here = (~(at < 0) & (at < n)).reshape([-1] + [1] * (x.rank - 1 - axis))
        inside = here if inside is None else inside & here
        x = node.gather(x, _brought(at, n, mode), axis)
    return x if fill is None or inside is None else node.where_(inside, x, fill)


def _brought(at: Tensor, n: Tensor, mode: SampleMode) -> Tensor:
    """Map positions to an axis of `n` elements, by the mode."""
    if mode is SampleMode.WRAP:
        return at - at // n * n
    if mode is SampleMode.REFLECT:
        turn = (n * 2 - 2).maximum(1)
        at = at - at // turn * turn
        return at.minimum(turn - at)
    return at.minimum(n - 1).maximum(0)


MODES = {
    "constant": SampleMode.FILL,
    "reflect": SampleMode.REFLECT,
    "edge": SampleMode.CLAMP,
    "wrap": SampleMode.WRAP,
}


@importer("CenterCropPad")
def center_crop_pad(node: Node) -> Tensor:
    """A crop or zero padding to given sizes, centred."""
    x, wholes = node.input(0), lengths(node.input(0))
    sizes = spread(entries(node.input(1)), named(node, 2), wholes)
    starts = [_half(n - m) for n, m in zip(wholes, sizes, strict=True)]
    return node.slice(x, starts, sizes, mode=SampleMode.FILL)


def _half(n: Size) -> Size:
    """Half of a size, rounded towards zero."""
    return larger(n, 0) // 2 - larger(0 - n, 0) // 2


@importer("Split")
def split(node: Node) -> Sequence[Tensor]:
    """Parts along an axis, of given sizes, or of equal sizes except the last, which may be smaller."""
    x, lengths_ = node.input(0), node.optional(1)
    axis, count = node.axis(x), len(node.outputs_named)
    sizes: list[Size]
    if lengths_ is not None:
        sizes = entries(lengths_)
    elif node.has("split"):
        sizes = list(node.attr("split", ()))
    else:
        sizes = _alike(x, axis, count)
    parts = list[Tensor]()
    start: Size = 0
    for n in sizes:
        parts.append(window(x, axis, start, n))
        start = start + n
    return parts


def _alike(x: Tensor, axis: int, count: int) -> list[Size]:
    n = length(x, axis)
    each = (n + (count - 1)) // count
    return [larger(smaller(n - each * i, each), 0) for i in range(count)]


@importer("DepthToSpace")
def depth_to_space(node: Node) -> Tensor:
    """Channels become blocks of the image."""
    x, block = node.input(0), node.required("blocksize", 1)
    n, c, h, w = lengths(x)
    few = c // (block * block)
    if node.attr("mode", "DCR") == "DCR":
        apart = x.reshape([n, block, block, few, h, w]).transpose(0, 3, 4, 1, 5, 2)
    else:
        apart = x.reshape([n, few, block, block, h, w]).transpose(0, 1, 4, 2, 5, 3)
    return apart.reshape([n, few, h * block, w * block])


@importer("SpaceToDepth")
def space_to_depth(node: Node) -> Tensor:
    """Blocks of the image become channels."""
    x, block = node.input(0), node.required("blocksize", 1)
    n, c, h, w = lengths(x)
    high, wide = h // block, w // block
    apart = x.reshape([n, c, high, block, wide, block])
    order = (0, 3, 5, 1, 2, 4) if node.attr("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return apart.transpose(*order).reshape([n, c * (block * block), high, wide])


@importer("Trilu")
def trilu(node: Node) -> Tensor:
    """The elements on a diagonal and above it, or below; 0 elsewhere."""
    x, k = node.input(0), node.optional(1)
    apart = _columns_less_rows(node, length(x, -2), length(x, -1))
    diagonal = node.constant([[0]], INT64) if k is None else k.cast(INT64).reshape((1, 1))
    kept = ~(apart < diagonal) if node.attr("upper", 1) else ~(apart > diagonal)
    return node.where_(kept, x, node.like(0, x))


@importer("EyeLike")
def eye_like(node: Node) -> Tensor:
    """1 on a diagonal, 0 elsewhere."""
    x = node.input(0)
    on = _columns_less_rows(node, length(x, 0), length(x, 1)).equal(node.attr("k", 0))
    return on.cast(node.dtype("dtype", x.dtype))


def _columns_less_rows(node: Node, rows: Size, columns: Size) -> Tensor:
    return positions(node, columns).unsqueeze(0) - positions(node, rows).unsqueeze(1)


@importer("Range")
def range_(node: Node) -> Tensor:
    """Evenly spaced numbers between two limits, without the end."""
    start, limit, delta = (node.input(i).reshape((1,)) for i in range(3))
    if start.is_float:
        apart = (limit - start) / delta
        count = node.unary(UnaryOperation.CEIL, apart).cast(INT64)
    else:
        (a,), (b,), (step,) = entries(start), entries(limit), entries(delta)
        count = stack(node, [counted(a, b, step)])
    (n,) = entries(count.maximum(0))
    return positions(node, n).cast(start.dtype) * delta + start
