"""Casts: to another type of the same value, or of the same bits."""

from __future__ import annotations

from onnx import TensorProto

from anyrt.api.compose.tensor import Tensor
from anyrt.core.dtype import is_integer, is_packed
from anyrt.core.enums import DataType, UnaryOperation
from anyrt.onnx.node import Node, importer
from anyrt.onnx.weights import data_type

INT32, FLOAT = DataType.INT32, DataType.FLOAT
STEP = 1 << 23  # the position of the exponent in the bits of float32
NAN = 0x7FC00000


@importer("Cast")
def cast(node: Node) -> Tensor:
    """A cast to a type."""
    if node.version < 6:
        return _cast(node, data_type(TensorProto.DataType.Value(node.required("to", "")), node.where))
    return _cast(node, node.dtype("to", FLOAT))


@importer("CastLike")
def cast_like(node: Node) -> Tensor:
    """A cast to the type of another tensor."""
    return _cast(node, node.input(1).dtype)


@importer("BitCast")
def bit_cast(node: Node) -> Tensor:
    """The bits, interpreted as another type."""
    return _bits(node, node.input(0), node.dtype("to", FLOAT))


def _bits(node: Node, x: Tensor, dtype: DataType) -> Tensor:
    return node.layer("add_cast", x, dtype, bits=True)


def _cast(node: Node, dtype: DataType) -> Tensor:
    x, saturates = node.input(0), bool(node.attr("saturate", 1))
    if dtype is DataType.E8M0 and x.dtype is not dtype:
        return _power(node, node.unary(UnaryOperation.ABS, x), saturates).cast(dtype)
    if x.is_float and is_integer(dtype) and is_packed(dtype):
        x = x.cast(INT32)  # of which the lowest bits count, where the layer keeps to the range
    if x.is_float and dtype is DataType.FP4:
        x = node.where_(
            x.equal(x), x, node.like(0, x)
        )  # of NaN, which it has not, the layer makes its largest
    if not saturates:
        return node.layer("add_cast", x, dtype, saturate=False)
    return x.cast(dtype)


def _power(node: Node, x: Tensor, saturates: bool) -> Tensor:
    """The nearest power of two of a magnitude, from the exponent in its bits; e8m0 has only powers of two."""
    single = x.cast(FLOAT)
    bits = _bits(node, single, INT32)
    if x.dtype is DataType.DOUBLE:  # what float32 has not is a step more or less, which decides
        back = single.cast(DataType.DOUBLE)
        bits = bits + (back < x).cast(INT32) - (back > x).cast(INT32)
    exponent = bits // STEP
    rest, none = bits - exponent * STEP, exponent.equal(255)
    match node.attr("round_mode", "up"):
        case "up":
            more = rest > 0
        case "nearest":  # half of a step goes up, but from below the least exponent
            more = (rest > STEP // 2) | (rest.equal(STEP // 2) & (exponent > 0))
        case _:
            more = rest < 0
    biased = exponent + more.cast(INT32)
    biased = biased.minimum(254) if saturates else biased
    least, nan = node.like(STEP // 2, biased), node.like(NAN, biased)
    power = node.where_(biased.equal(0), least, biased * STEP)
    return _bits(node, node.where_(none | biased.equal(255), nan, power), FLOAT)
