"""Softmax, LogSoftmax and Hardmax.

Until opset 12, all axes from the given one on are flattened.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from anyrt.api.compose.normalizations import wide
from anyrt.api.compose.sizes import length
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import ReduceOperation, TopKOperation, UnaryOperation
from anyrt.onnx.importers.rankings import where_equal
from anyrt.onnx.node import Node, importer

Along: TypeAlias = Callable[[Node, Tensor, int], Tensor]
R, U = ReduceOperation, UnaryOperation


def _softmax(node: Node, x: Tensor, axis: int) -> Tensor:
    return node.layer("add_softmax", x, axes=1 << axis)


def log_softmax(node: Node, x: Tensor, axis: int) -> Tensor:
    """log of softmax, in float32 or float64."""
    y = wide(x)
    centred = y - node.reduce(R.MAX, y, [axis])
    total = node.reduce(R.SUM, node.unary(U.EXP, centred), [axis])
    return (centred - node.unary(U.LOG, total)).cast(x.dtype)


def _hardmax(node: Node, x: Tensor, axis: int) -> Tensor:
    """1 where the first of the largest elements is, 0 elsewhere."""
    places = node.counted(length(x, axis)).reshape([-1 if k == axis else 1 for k in range(x.rank)])
    return where_equal(node, x, TopKOperation.MAX, axis).equal(places).cast(x.dtype)


def _parts(along: Along, node: Node) -> Tensor:
    x = node.input(0)
    axis = node.axis(x, default=1 if node.version < 13 else -1)
    if node.version >= 13 or axis == x.rank - 1 or 0 in x.sizes:
        return along(node, x, axis)
    flat = node.reshape(x, [*(0,) * axis, -1], zero_copies=True)
    return along(node, flat, axis).reshape(x.shape())


for _name, _along in (("Softmax", _softmax), ("LogSoftmax", log_softmax), ("Hardmax", _hardmax)):
    importer(_name)(partial(_parts, _along))
