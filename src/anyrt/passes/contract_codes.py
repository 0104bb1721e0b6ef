"""Sums of products of dequantised codes as sums of products of the codes, which are exact, times the scales.

contract((cast(q) − z) × s, cast(w) × t)     ->     cast(contract(q − z, w) as int32) × (s × t)

q and w are int8 or int4, and may be moved in between; s and t may vary along axes that are not summed over.
The pass runs before constants are folded, which would convert the codes of weights to numbers;
contract_integers.py handles the zero z.
"""

from __future__ import annotations

from anyrt.core.dims import always_le, mul, product
from anyrt.core.dtype import is_float
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import Fail, transformed
from anyrt.passes.codes import Codes, dequantised, placed
from anyrt.prims import build
from anyrt.prims.contract import SUMMED, Contract


def contract_codes(graph: Graph) -> Graph:
    """The graph with sums of products of codes."""
    return transformed(graph, lambda old, new: _contracted(new))


def _contracted(value: Value) -> Value:
    op = value.op
    if not isinstance(op, Contract) or not is_float(op.dtype):
        return value
    left, right = (dequantised(arg) for arg in value.args)
    if isinstance(left, Fail) or isinstance(right, Fail) or not _fits(value, op, left, right):
        return value
    first, second = placed(left.scale, op.left, op.out), placed(right.scale, op.right, op.out)
    if first is None or second is None:
        return value
    sums = apply(Contract(op.left, op.right, op.out, DataType.INT32), _whole(left), _whole(right))
    numbers = build.map_("mul", build.cast(sums, DataType.FLOAT), build.map_("mul", first, second))
    return build.cast(numbers, op.dtype)


def _fits(value: Value, op: Contract, left: Codes, right: Codes) -> bool:
    """True if int32 represents the sums; a difference of codes has one more bit."""
    sizes = op.sizes((value.args[0].type, value.args[1].type))
    terms = product(size for label, size in sizes.items() if label not in op.out)
    wide = 2 ** ((left.zero != 0) + (right.zero != 0))
    return always_le(mul(wide, terms), SUMMED)


def _whole(coded: Codes) -> Value:
    """The codes less their zero, as int32 (contract_integers.py)."""
    whole = build.cast(coded.codes, DataType.INT32)
    return build.map_("sub", whole, build.scalar(coded.zero, whole)) if coded.zero else whole
