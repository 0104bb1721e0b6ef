"""A rule for products with the weights of a softmax: the result is divided instead of the weights.

    (exp(x − max) / sum) · v     ->     (p · v) · (1 / sum of p)     with p = exp(x − max) · 2⁻ᵏ

A row has as many weights as keys, but only as many results as a value has elements, and one reciprocal serves
all of them. An exponential is at most 1, and one of them is 1. With k such that 2ᵏ is at least twice the
number of keys, no sum of the products exceeds the largest value, as before. Exponentials below 2ᵏ⁻¹²⁶ lose
digits, which is less than 2ᵏ⁻¹⁴⁹ of the largest value. If there may be no keys at all, the result is 0 as
before: the sum is clamped to at least 2⁻ᵏ.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from anyrt.core.dims import Dim, always_le, bounds
from anyrt.core.enums import DataType
from anyrt.ir.graph import Value, apply
from anyrt.ir.rewrite import Bind, Fail, Rule, op
from anyrt.passes.examples import UNIT, Below
from anyrt.passes.facts import number
from anyrt.prims import build
from anyrt.prims.contract import Contract
from anyrt.prims.map import Map, fn_of
from anyrt.prims.reduce import Reduce

Labels = tuple[int, ...]
LEAST: Final = -float(np.finfo(np.float32).max)
MOST_KEYS: Final = 2**31 - 1
SMALL: Final = 2.0**-64  # the minimum of sums, which is a normal number when scaled


def _divided(weights: Value) -> tuple[Value, Value] | None:
    """The dividend and divisor, also of a product with a reciprocal."""
    if fn_of(weights) not in ("div", "mul"):
        return None
    powers, total = weights.args
    if fn_of(weights) == "div":
        return powers, total
    return (powers, total.args[0]) if fn_of(total) == "recip" else None


def _is_late(weights: Value, out: Value, left: Labels, right: Labels, to: Labels) -> Fail | None:
    """A guard: these are the exponentials of a softmax over the axis that is summed."""
    division = _divided(weights)
    if division is None:
        return Fail("it is no product with quotients")
    (powers, total), last = division, weights.type.rank - 1
    if out.dtype is not DataType.FLOAT or powers.shape[:-1] != total.shape[:-1]:
        return Fail("its rows have no sums in float32")
    if _folded(total, "sum", last) != powers or not _is_at_most_one(powers, last):
        return Fail("they are no powers of differences from the largest, and their sums")
    if not _sums_last(left, right, to):
        return Fail("not the last axis is summed, or the result's rows are others")
    if not _positive(total, powers):
        return Fail("there may be no powers, and their sum may be 0 elsewhere, too")
    return Fail("what sums are at least is too small to be scaled") if 0 < _least(total) < SMALL else None


def _least(total: Value) -> float:
    """The minimum that is applied to sums, 0 if there is none."""
    return number(total.args[1]) or 0.0 if isinstance(total.op, Map) else 0.0


def _sums_last(left: Labels, right: Labels, to: Labels) -> bool:
    """True for products that sum the last axis of their left factor, whose other axes are the result's."""
    sums = left[-1] not in to and left[-1] in right
    return sums and len(to) == len(left) and to[:-1] == left[:-1]


def _positive(total: Value, powers: Value) -> bool:
    """True if the sum of the powers is positive: there are powers, or the sum has a positive minimum, even
    of no powers, or it can get one, since it is at least 1 if its largest power is 1."""
    if always_le(1, powers.shape[-1]):
        return True
    if isinstance(total.op, Map):
        return _least(total) > 0
    return isinstance(powers.args[0].args[1].op, Reduce)


def _halvings(keys: Dim) -> int:
    """k, as in the docstring of the module."""
    return 1 + (min(max(1, bounds(keys)[1]), MOST_KEYS) - 1).bit_length()


def _is_at_most_one(powers: Value, last: int) -> bool:
    if fn_of(powers) != "exp":
        return False
    (difference,) = powers.args
    if fn_of(difference) != "sub":
        return False
    x, most = difference.args
    if isinstance(most.op, Map) and (number(most.args[1]) or 0.0) > LEAST:
        return False  # all of them might be small
    return _folded(most, "max", last) == x


def _folded(value: Value, fn: str, axis: int) -> Value | None:
    """The operand that `value` folds along an axis; a minimum may be applied to the result."""
    if fn_of(value) == "max" and number(value.args[1]) is not None:
        value = value.args[0]
    folds = isinstance(value.op, Reduce) and value.op.fn == fn and value.op.axes == (axis,)
    return value.args[0] if folds else None


def _divided_late(
    weights: Value, v: Value, out: Value, left: Labels, right: Labels, to: Labels
) -> Value | Fail:
    division = _divided(weights)
    assert division is not None, "the guard has looked"
    powers, total = division
    by = 2.0 ** -_halvings(powers.shape[-1])
    scaled = build.map_("mul", powers, build.scalar(by, powers))
    least = number(total.args[1]) if isinstance(total.op, Map) else None
    if least is None and not always_le(1, powers.shape[-1]):
        least = 1.0
    total = build.reduce_("sum", scaled, (powers.type.rank - 1,))
    if least is not None:
        total = build.map_("max", total, build.scalar(least * by, total))
    ratio = build.map_("mul", apply(out.op, scaled, v), build.map_("recip", total))
    return ratio if ratio.type == out.type else Fail("its sizes are only known to be equal while running")


def _example(draw: Below) -> Value:
    x = build.param("x", (1 + draw(3), 1 + draw(4), 2 + draw(5)), DataType.FLOAT)
    powers = build.map_("exp", build.map_("sub", x, build.reduce_("max", x, (2,))))
    weights = build.map_("div", powers, build.reduce_("sum", powers, (2,)))
    values = build.param("v", (x.shape[0], x.shape[2], 2), DataType.FLOAT)
    return build.contract("bij,bjk->bik", weights, build.map_("abs", values))


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
    range="weights below 2⁻¹²⁶ · 4 · (number of keys) lose digits",
)
