"""Rules for exponentials of differences from the maximum, whose sums are never small.

    x / s          x * recip(s)

s is a sum of exp(y − max y), between 1 and the number of its terms, or clamped to at least 1. NaN stays NaN:
for a row with NaN or ∞, or with only −∞, every form is NaN.
"""

from __future__ import annotations

from typing import Final

from anyrt.core.dims import product
from anyrt.core.enums import DataType
from anyrt.ir.graph import Value
from anyrt.ir.rewrite import Fail, Rule, op
from anyrt.passes.examples import UNIT, Below
from anyrt.passes.facts import number
from anyrt.prims import build
from anyrt.prims.map import Map, fn_of
from anyrt.prims.reduce import Reduce
from anyrt.prims.view import View


def _repeated(value: Value) -> Value:
    """The value that `value` repeats along axes of size 1, or itself."""
    if not isinstance(value.op, View):
        return value
    (x,) = value.args
    along = value.shape[len(value.shape) - x.type.rank :]
    fits = len(along) == x.type.rank and all(d in (1, n) for d, n in zip(x.shape, along, strict=True))
    return x if fits and build.expand(x, value.shape) == value else value


def _is(value: Value, fn: str) -> bool:
    return fn_of(value) == fn and value.dtype is DataType.FLOAT


def _folded(value: Value, fn: str) -> tuple[Value, tuple[int, ...]] | None:
    """The operand that is folded, and the axes of the fold."""
    if isinstance(value.op, Reduce) and value.op.fn == fn and value.dtype is DataType.FLOAT:
        return value.args[0], value.op.axes
    return None


def _axes_of_largest(powers: Value) -> tuple[int, ...] | None:
    """The axes whose maximum, or a larger number, was subtracted before the exponentials, so that none
    exceeds 1."""
    if not _is(powers, "exp") or not _is(powers.args[0], "sub"):
        return None
    x, most = powers.args[0].args[0], _repeated(powers.args[0].args[1])
    folded = _folded(most.args[0] if _is(most, "max") else most, "max")
    return folded[1] if folded is not None and folded[0] == x else None


def _is_sum_of_powers(value: Value) -> bool:
    """True for values that are at least 1, and at most the number of terms."""
    limited = _is(value, "max") and number(value.args[1]) == 1.0
    folded = _folded(value.args[0] if limited else value, "sum")
    axes = None if folded is None else _axes_of_largest(folded[0])
    if folded is None or axes is None:
        return False
    holds_one = set(axes) <= set(folded[1]) and not _is(_repeated(folded[0].args[0].args[1]), "max")
    return limited or holds_one


def _is_shared_sum(s: Value, out: Value) -> Fail | None:
    if out.dtype is not DataType.FLOAT or not _is_sum_of_powers(_repeated(s)):
        return Fail("what is divided by is no sum of exponentials of which one is 1")
    if product(_repeated(s).shape) == product(out.shape):
        return Fail("every element has a sum of its own")
    return None


def _softmax(draw: Below) -> Value:
    x = build.param("x", (2 + draw(3), 2 + draw(3)), DataType.FLOAT)
    axis = (draw(2),)
    powers = build.map_("exp", build.map_("sub", x, build.reduce_("max", x, axis)))
    total = build.reduce_("sum", powers, axis)
    total = build.map_("max", total, build.scalar(1.0, total)) if draw(2) else total
    return build.map_("div", (powers, x)[draw(2)], build.expand(total, x.shape) if draw(2) else total)


EXPONENTIALS: Final[tuple[Rule, ...]] = (
    Rule(
        "division by a sum of exponentials that several elements share",
        find=lambda x, s: op(Map, x, s, fn="div"),
        make=lambda x, s: build.map_("mul", x, build.map_("recip", s)),
        guard=_is_shared_sum,
        example=_softmax,
        tolerance=3 * UNIT,
    ),
)
