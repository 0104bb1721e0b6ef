"""Powers of floats and integers, whose types may differ.

The result has the type of the base. Integer powers of integers wrap, like products.
"""

from __future__ import annotations

from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import DataType, ElementWiseOperation
from anyrt.onnx.node import Node, importer

BITS = 6  # bits of exponents: from 64 on, only odd and even exponents differ


@importer("Pow")
def power(node: Node) -> Tensor:
    """xⁿ."""
    x, n = node.input(0), node.input(1)
    if not x.is_float and not n.is_float:
        return _of_integers(node, x.cast(DataType.INT64), n.cast(DataType.INT64)).cast(x.dtype)
    if x.dtype is n.dtype:
        return node.binary(ElementWiseOperation.POW, x, n)
    both = DataType.FLOAT if x.is_float and DataType.DOUBLE not in (x.dtype, n.dtype) else DataType.DOUBLE
    y = node.binary(ElementWiseOperation.POW, x.cast(both), n.cast(both))
    # A result that is an integer except for rounding errors must not be truncated to the next lower one.
    return (y if x.is_float else y * (1 + 2.0**-51)).cast(x.dtype)


def _of_integers(node: Node, x: Tensor, n: Tensor) -> Tensor:
    """By repeated squaring; 0 for negative exponents, except for the bases 1 and −1."""
    is_odd = (n - (n // 2) * 2).equal(1)
    known = node.ints(n)
    bits = BITS if known is None else max(max(known, default=0), 1).bit_length()
    count = n.clip(0, 62)
    count = node.where_(is_odd & (n > 62), count + 1, count) if bits >= BITS else count
    y, square = node.like(1, x), x
    for _ in range(min(bits, BITS)):
        half = count // 2
        y = node.where_((count - half * 2).equal(1), y * square, y)
        count, square = half, square * square
    if known is not None and min(known, default=0) >= 0:
        return y
    unit = node.where_(is_odd, x, x * x)
    inverse = node.where_((x * x).equal(1), unit, node.like(0, x))
    return node.where_(n < 0, inverse, y)
