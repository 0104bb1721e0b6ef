"""Elements that data choose, and places where data say."""

from __future__ import annotations

from anyrt.core.enums import GatherMode
from anyrt.onnx.node import Node, importer
from anyrt.onnx.tensor import Tensor


@importer("Gather")
def gather(node: Node) -> Tensor:
    """Slices along an axis."""
    x = node.input(0)
    return node.gather(x, node.input(1), node.axis(x))


@importer("GatherElements")
def gather_elements(node: Node) -> Tensor:
    """An element for each index."""
    x = node.input(0)
    return node.layer("add_gather_v2", x, node.input(1), GatherMode.ELEMENT, axis=node.axis(x))


@importer("GatherND")
def gather_nd(node: Node) -> Tensor:
    """What lies at tuples of indices."""
    shared = node.attr("batch_dims", 0)
    return node.layer(
        "add_gather_v2", node.input(0), node.input(1), GatherMode.ND, num_elementwise_dims=shared
    )
