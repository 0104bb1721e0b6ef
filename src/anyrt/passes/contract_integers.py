"""Sums of products of integers that are codes minus zero points, as sums of products of the codes.

contract(cast(p) − y, cast(q) − z)     ->     contract(p, q) − y · sum(q) − z · sum(p) + y · z · terms

p and q are int8 or uint8, and may be moved in between; y and z are numbers or data, and may vary along axes
that are not summed over. Everything is computed in int32, where both forms wrap alike. Codes of uint8 become
int8 by subtracting 128. The pass runs before constants are folded, which would convert weights to int32.
"""

from __future__ import annotations

from anyrt.core.dims import Dim, product
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import Fail, transformed
from anyrt.passes.codes import Codes, moved, placed
from anyrt.passes.facts import number
from anyrt.prims import build
from anyrt.prims.const import Shape
from anyrt.prims.contract import Contract
from anyrt.prims.map import CAST, fn_of

I8, U8, I32 = DataType.INT8, DataType.UINT8, DataType.INT32
BELOW = 128  # from uint8 to int8


def contract_integers(graph: Graph) -> Graph:
    """The graph with sums of products of codes."""
    return transformed(graph, lambda old, new: _contracted(new))


def _contracted(value: Value) -> Value:
    op = value.op
    if not isinstance(op, Contract) or op.dtype is not I32 or value.args[0].dtype is not I32:
        return value
    left, right = (moved(arg, _less_zero) for arg in value.args)
    summed = ({*op.left} | {*op.right}) - {*op.out}
    if isinstance(left, Fail) or isinstance(right, Fail):
        return value
    if (left.zero, right.zero) != (0, 0) and not summed <= {*op.left} & {*op.right}:
        return value
    first, second = placed(left.scale, op.left, op.out), placed(right.scale, op.right, op.out)
    if first is None or second is None:
        return value
    sums = apply(Contract(op.left, op.right, op.out, I32), left.codes, right.codes)
    if left.zero != 0:
        sums = build.map_("sub", sums, build.map_("mul", first, _total(right.codes, op.right, op.out)))
    if right.zero != 0:
        sums = build.map_("sub", sums, build.map_("mul", second, _total(left.codes, op.left, op.out)))
    if 0 in (left.zero, right.zero):
        return sums
    sizes = op.sizes((value.args[0].type, value.args[1].type))
    both = build.map_("mul", first, second)
    terms = _number(product(sizes[label] for label in summed), both)
    return build.map_("add", sums, build.map_("mul", both, terms))


def _less_zero(value: Value) -> Codes | Fail:
    """cast(codes) − zero, with the zero in place of a scale."""
    taken = fn_of(value) == "sub"
    steps = value.args[0] if taken else value
    if not _is_whole(steps) or steps.shape != value.shape:
        return Fail("it is no code")
    codes = steps.args[0]
    zero = value.args[1] if taken else build.scalar(0, steps)
    known = number(zero.args[0] if _is_whole(zero) else zero)
    if any(z not in (1, d) for z, d in zip(zero.shape, codes.shape, strict=True)):
        return Fail("zeros have other sizes than codes")
    if codes.dtype is U8:
        codes = build.cast(build.map_("sub", steps, build.scalar(BELOW, steps)), I8)
        zero = build.map_("sub", zero, build.scalar(BELOW, zero))
        known = None if known is None else known - BELOW
    return Codes(codes, zero, None if known is None else int(known))


def _is_whole(value: Value) -> bool:
    """True for codes as int32."""
    return fn_of(value) == CAST and value.dtype is I32 and value.args[0].dtype in (I8, U8)


def _total(codes: Value, labels: tuple[int, ...], out: tuple[int, ...]) -> Value:
    """The sum of the codes in each sum of products."""
    axes = tuple(k for k, label in enumerate(labels) if label not in out)
    total = placed(build.reduce_("sum", build.cast(codes, I32), axes), labels, out)
    assert total is not None, "a sum has one element along what was summed"
    return total


def _number(size: Dim, like: Value) -> Value:
    if isinstance(size, int):
        return build.scalar(size, like)
    return build.reshape(build.cast(apply(Shape((size,))), I32), (1,) * like.type.rank)
