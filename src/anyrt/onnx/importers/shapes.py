"""Constants, shapes and reshapes."""

from __future__ import annotations

import numpy as np

from anyrt.api.compose.sizes import squeeze_by, unsqueeze_by, volume
from anyrt.api.compose.tensor import Tensor
from anyrt.api.model.weights import Weights
from anyrt.core.enums import DataType, ReduceOperation
from anyrt.onnx.node import Node, importer

INT64 = DataType.INT64


@importer("Constant")
def constant(node: Node) -> Tensor:
    """The constant of the node's attribute."""
    if node.has("value"):
        array = node.array("value")
        # A scalar is part of the computation and not refittable; larger constants are weights.
        name = node.outputs_named[0] if array.size > 1 else ""
        return node.weights(Weights(np.ascontiguousarray(array)), array.shape, name)
    if node.has("value_float"):
        return node.constant(node.attr("value_float", 0.0), DataType.FLOAT)
    if node.has("value_int"):
        return node.constant(node.attr("value_int", 0), INT64)
    if node.has("value_floats"):
        return node.constant(node.attr("value_floats", (0.0,)), DataType.FLOAT)
    if node.has("value_ints"):
        return node.constant(node.attr("value_ints", (0,)), INT64)
    raise node.unsupported("a constant of strings or a sparse constant", "use a dense tensor of numbers")


@importer("ConstantOfShape")
def constant_of_shape(node: Node) -> Tensor:
    """A tensor filled with one number."""
    value = node.array("value") if node.has("value") else np.zeros(1, np.float32)
    return node.full(node.input(0), node.constant(value.reshape(())))


@importer("Shape")
def shape(node: Node) -> Tensor:
    """The sizes of a range of axes."""
    x = node.input(0)
    start, end, _ = slice(node.attr("start", 0), node.attr("end", x.rank)).indices(x.rank)
    if (start, end) == (0, x.rank):
        return node.shape(x)
    return node.slice(node.shape(x), [start], [max(end - start, 0)])


@importer("Size")
def size(node: Node) -> Tensor:
    """The number of elements."""
    return node.reduce(ReduceOperation.PROD, node.shape(node.input(0)), [0], keep=False)


@importer("Reshape")
def reshape(node: Node) -> Tensor:
    """Another shape: −1 is the remaining size; 0 is the size of the input at this position, unless allowzero
    is set."""
    sizes = node.required("shape", (0,)) if node.version < 5 else node.input(1)
    return node.reshape(node.input(0), sizes, zero_copies=not node.attr("allowzero", 0))


@importer("Flatten")
def flatten(node: Node) -> Tensor:
    """A matrix: the axes before one axis, and the rest."""
    x = node.input(0)
    axis = node.attr("axis", 1)
    axis += x.rank if axis < 0 else 0
    return x.reshape([volume(x, range(axis)), volume(x, range(axis, x.rank))])


@importer("Squeeze")
def squeeze(node: Node) -> Tensor:
    """The input without axes of size 1: the named ones, or all; dynamic sizes are assumed not to be 1."""
    x, axes = node.input(0), node.optional(1)
    if axes is not None:
        return squeeze_by(x, axes)
    if node.has("axes"):
        return node.squeeze(x, node.attr("axes", ()))
    for axis in (
        k for k, n in enumerate(x.sizes) if n < 0
    ):  # dynamic ones stay, and an inference must not have size 1
        rule = f"axis {axis} of {x.sizes} has size 1, and Squeeze names no axes; set the axes in the model"
        node.add("add_assertion", ~x.size(axis).equal(1), rule)
    return node.squeeze(x, [axis for axis, n in enumerate(x.sizes) if n == 1])


@importer("Unsqueeze")
def unsqueeze(node: Node) -> Tensor:
    """The input with new axes of size 1."""
    x, axes = node.input(0), node.optional(1)
    return node.unsqueeze(x, node.attr("axes", ())) if axes is None else unsqueeze_by(x, axes)
