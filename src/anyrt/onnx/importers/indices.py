"""Gathers, scatters and other operators with indices."""

from __future__ import annotations

from anyrt.api.compose.ordered import REDUCTIONS, scatter
from anyrt.api.compose.ordered import gather_elements as elements
from anyrt.api.compose.sizes import length, positions
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import DataType, GatherMode, ScatterMode
from anyrt.onnx.node import Node, importer

INT64 = DataType.INT64


@importer("Gather")
def gather(node: Node) -> Tensor:
    """Slices along an axis."""
    x = node.input(0)
    return node.gather(x, node.input(1), node.axis(x))


@importer("GatherElements")
def gather_elements(node: Node) -> Tensor:
    """An element for each index."""
    x = node.input(0)
    return elements(node, x, node.input(1), node.axis(x))


@importer("GatherND")
def gather_nd(node: Node) -> Tensor:
    """Elements or slices at tuples of indices."""
    shared = node.attr("batch_dims", 0)
    return node.layer(
        "add_gather_v2", node.input(0), node.input(1), GatherMode.ND, num_elementwise_dims=shared
    )


@importer("Scatter", "ScatterElements")
def scatter_elements(node: Node) -> Tensor:
    """A copy with elements stored, or combined with the old ones, at indices along an axis."""
    return _scattered(node, node.axis(node.input(0)))


@importer("ScatterND")
def scatter_nd(node: Node) -> Tensor:
    """A copy with elements stored, or combined with the old ones, at tuples of indices."""
    return _scattered(node)


def _scattered(node: Node, axis: int | None = None) -> Tensor:
    x, at, updates = (node.input(i) for i in range(3))
    return scatter(node, x, at, updates, node.choice("reduction", "none", REDUCTIONS), axis)


@importer("TensorScatter")
def tensor_scatter(node: Node) -> Tensor:
    """A cache with new elements at the positions of each batch element; in circular mode they wrap at its
    end."""
    cache, update, first = node.input(0), node.input(1), node.optional(2)
    axis = node.axis(cache, default=-2)
    at = positions(node, length(update, axis)).reshape([-1] + [1] * (cache.rank - 1 - axis))
    if first is not None:
        at = at + first.cast(INT64).reshape([-1] + [1] * (cache.rank - 1))
    if node.attr("mode", "linear") == "circular":
        n = cache.size(axis)
        at = at - at // n * n
    at = node.expand(at, node.shape(update))
    return node.layer("add_scatter", cache, at, update, ScatterMode.ELEMENT, axis=axis)


@importer("OneHot")
def one_hot(node: Node) -> Tensor:
    """One value at the index, another value elsewhere."""
    indices, depth = (node.input(i).cast(INT64) for i in range(2))
    return node.layer("add_one_hot", indices, node.input(2), depth.reshape(()), node.attr("axis", -1))


@importer("NonZero")
def non_zero(node: Node) -> Tensor:
    """The positions of nonzero elements: a row for each axis."""
    return node.layer("add_non_zero", node.input(0).cast(DataType.BOOL), INT64)


@importer("Compress")
def compress(node: Node) -> Tensor:
    """The slices or elements for which a condition is True."""
    x = node.input(0)
    if not node.has("axis"):
        x = x.reshape((-1,))
    at = node.layer("add_non_zero", node.input(1), INT64).squeeze(0)
    return node.gather(x, at, node.axis(x))


@importer("ReverseSequence")
def reverse_sequence(node: Node) -> Tensor:
    """Each sequence with its first elements reversed."""
    axes = {"batch_axis": node.attr("batch_axis", 1), "sequence_axis": node.attr("time_axis", 0)}
    return node.layer("add_reverse_sequence", node.input(0), node.input(1), **axes)
