"""A rule for products with the weights of a softmax: divided is what comes of them.

    (exp(x − max) / sum) · v     ->     (exp(x − max) · v) · (1 / sum)

A row has as many weights as keys, but only as many results as a value has elements; and one reciprocal
serves all of them. Powers are at most 1 and their sum is at least 1: nothing leaves the range of float32 but
what comes within a factor of the number of keys to its end. Where there may be no keys at all, the result
is 0 as before: the sum is made 1 where it is less.
"""

from __future__ import annotations

from typing import Final

from anyrt.core.dims import always_le
from anyrt.core.enums import DataType
from anyrt.ir.graph import Value, apply
from anyrt.ir.rewrite import Bind, Fail, Rule, op
from anyrt.passes.examples import UNIT, Below
from anyrt.passes.facts import number
from anyrt.prims import build
from anyrt.prims.contract import Contract
from anyrt.prims.map import Map
from anyrt.prims.reduce import Reduce

Labels = tuple[int, ...]


def _divided(weights: Value) -> tuple[Value, Value] | None:
    """What is divided, and by what, be it as a product with a reciprocal."""
    if not isinstance(weights.op, Map) or weights.op.fn not in ("div", "mul"):
        return None
    powers, total = weights.args
    if weights.op.fn == "div":
        return powers, total
    is_reciprocal = isinstance(total.op, Map) and total.op.fn == "recip"
    return (powers, total.args[0]) if is_reciprocal else None


def _is_late(weights: Value, out: Value, left: Labels, right: Labels, to: Labels) -> Fail | None:
    """A guard: the powers are those of a softmax over the axis that is summed."""
    found = _divided(weights)
    if found is None:
        return Fail("it is no product with quotients")
    (powers, total), last = found, weights.type.rank - 1
    if out.dtype is not DataType.FLOAT or powers.shape[:-1] != total.shape[:-1]:
        return Fail("its rows have no sums in float32")
    if _folded(total, "sum", last) != powers or not _is_at_most_one(powers, last):
        return Fail("they are no powers of differences from the largest, and their sums")
    if left[last] in to or left[last] not in right or len(to) != len(left) or to[:-1] != left[:-1]:
        return Fail("not the last axis is summed, or the result's rows are others")
    if not always_le(1, powers.shape[last]) and _positive(total, powers) is None:
        return Fail("there may be no powers, and their sum may be 0 elsewhere, too")
    return None


def _positive(total: Value, powers: Value) -> Value | None:
    """The sum, positive even where nothing is summed. Where the largest of its powers is 1, it is 1 at
    least."""
    if isinstance(total.op, Map):
        least = number(total.args[1])
        return total if least is not None and least > 0 else None
    most = powers.args[0].args[1]
    return build.map_("max", total, build.scalar(1.0, total)) if isinstance(most.op, Reduce) else None


def _is_at_most_one(powers: Value, last: int) -> bool:
    if not isinstance(powers.op, Map) or powers.op.fn != "exp":
        return False
    (difference,) = powers.args
    if not isinstance(difference.op, Map) or difference.op.fn != "sub":
        return False
    x, most = difference.args
    return _folded(most, "max", last) == x


def _folded(value: Value, fn: str, axis: int) -> Value | None:
    """What `value` folds along an axis, where the result may have a least number."""
    if isinstance(value.op, Map) and value.op.fn == "max" and number(value.args[1]) is not None:
        value = value.args[0]
    folds = isinstance(value.op, Reduce) and value.op.fn == fn and value.op.axes == (axis,)
    return value.args[0] if folds else None


def _divided_late(
    weights: Value, v: Value, out: Value, left: Labels, right: Labels, to: Labels
) -> Value | Fail:
    found = _divided(weights)
    assert found is not None, "the guard has looked"
    powers, total = found
    if not always_le(1, powers.shape[-1]):
        total = _positive(total, powers) or total
    made = build.map_("mul", apply(out.op, powers, v), build.map_("recip", total))
    return made if made.type == out.type else Fail("its sizes are only known to be equal while running")


def _example(draw: Below) -> Value:
    x = build.param("x", (1 + draw(3), 1 + draw(4), 2 + draw(5)), DataType.FLOAT)
    powers = build.map_("exp", build.map_("sub", x, build.reduce_("max", x, (2,))))
    weights = build.map_("div", powers, build.reduce_("sum", powers, (2,)))
    values = build.const([[[k + 1.0, 1.0] for k in range(7)]] * 3, DataType.FLOAT)
    values = build.slice_(values, (0, 0, 0), (x.shape[0], x.shape[2], 2), (1, 1, 1))
    return build.contract("bij,bjk->bik", weights, values)


LATE_DIVISION: Final = Rule(
    "weights of a softmax in a product",
    find=lambda weights, v: op(
        Contract,
        weights,
        v,
        left=Bind("left"),
        right=Bind("right"),
        out=Bind("to"),
    ),
    make=_divided_late,
    guard=_is_late,
    example=_example,
    tolerance=4 * UNIT,
)
