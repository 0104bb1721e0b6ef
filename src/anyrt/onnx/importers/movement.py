"""Elements in other places: transposed, cut, joined, repeated, bordered."""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.core.enums import DataType, SampleMode
from anyrt.onnx.node import Node, importer
from anyrt.onnx.sizes import Size, broadcast_to, entries, larger, length, lengths, smaller, window
from anyrt.onnx.tensor import Tensor

INT64 = DataType.INT64


@importer("Transpose")
def transpose(node: Node) -> Tensor:
    """The axes in another order, backwards if none is given."""
    x = node.input(0)
    return node.transpose(x, node.attr("perm", tuple(reversed(range(x.rank)))))


@importer("Concat")
def concat(node: Node) -> Tensor:
    """Tensors one behind the other."""
    parts = node.present()
    return node.concat(parts, node.axis(parts[0]))


@importer("Where")
def where(node: Node) -> Tensor:
    """One of two elements."""
    return node.where_(node.input(0), node.input(1), node.input(2))


@importer("Expand")
def expand(node: Node) -> Tensor:
    """Repeated as a tensor of that shape would have it."""
    return broadcast_to(node.input(0), entries(node.input(1)))


@importer("Tile")
def tile(node: Node) -> Tensor:
    """All elements repeated along each axis."""
    x = node.input(0)
    sizes = [n * count for n, count in zip(lengths(x), entries(node.input(1)), strict=True)]
    return node.slice(x, [0] * x.rank, sizes, mode=SampleMode.WRAP)


@importer("Split")
def split(node: Node) -> Sequence[Tensor]:
    """Parts along an axis, of given sizes or all alike, the last one smaller."""
    x, given = node.input(0), node.optional(1)
    axis, count = node.axis(x), len(node.outputs_named)
    sizes: list[Size]
    if given is not None:
        sizes = entries(given)
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
