"""Sums of products of dequantised codes as sums of products of the codes, which are exact, times the scales.

contract(cast(q) × s, cast(w) × t)     ->     cast(contract(q, w) as int32) × (s × t)

q and w are int8 or int4, which may be moved on the way; s and t may differ along axes that are not summed
over. Where zero is not the code 0 of q, but z, z times the sum of w is taken away. It is done before
constants are folded, which would make numbers of the codes of weights.
"""

from __future__ import annotations

from anyrt.core.dims import always_le, mul, product
from anyrt.core.dtype import is_float
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import Fail, transformed
from anyrt.passes.codes import Codes, dequantised
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
    first, second = _placed(left.scale, op.left, op.out), _placed(right.scale, op.right, op.out)
    if first is None or second is None:
        return value
    sums = apply(Contract(op.left, op.right, op.out, DataType.INT32), left.codes, right.codes)
    sums = _less(_less(sums, left.zero, right.codes, op.right, op), right.zero, left.codes, op.left, op)
    numbers = build.map_("mul", build.cast(sums, DataType.FLOAT), build.map_("mul", first, second))
    return build.cast(numbers, op.dtype)


def _fits(value: Value, op: Contract, left: Codes, right: Codes) -> bool:
    """True when int32 holds the sums, of which one operand at most has another zero than 0."""
    sizes = op.sizes((value.args[0].type, value.args[1].type))
    summed = {label for label in sizes if label not in op.out}
    terms = product(sizes[label] for label in summed)
    if left.zero == right.zero == 0:
        return always_le(terms, SUMMED)
    both = summed <= {*op.left} & {*op.right}
    return 0 in (left.zero, right.zero) and both and always_le(mul(2, terms), SUMMED)


def _less(sums: Value, zero: int, other: Value, labels: tuple[int, ...], op: Contract) -> Value:
    """The sums without `zero` times those of the other operand, whose axes have `labels`."""
    if zero == 0:
        return sums
    axes = tuple(k for k, label in enumerate(labels) if label not in op.out)
    total = _placed(build.reduce_("sum", build.cast(other, DataType.INT32), axes), labels, op.out)
    assert total is not None, "a sum has one element along what was summed"
    return build.map_("sub", sums, build.map_("mul", total, build.scalar(zero, total)))


def _placed(scale: Value, labels: tuple[int, ...], out: tuple[int, ...]) -> Value | None:
    """The scale of an operand beside the result; None where it differs among terms of one sum."""
    if any(d != 1 for d, label in zip(scale.shape, labels, strict=True) if label not in out):
        return None
    kept = sorted((k for k, label in enumerate(labels) if label in out), key=lambda k: out.index(labels[k]))
    turned = build.transpose(scale, [*kept, *(k for k in range(len(labels)) if k not in kept)])
    at = {labels[k]: scale.shape[k] for k in kept}
    return build.reshape(turned, tuple(at.get(label, 1) for label in out))
