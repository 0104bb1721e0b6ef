"""Rules for powers with known exponents: products, roots and quotients, which cost a tenth; and for quotients
by powers of two, which are products.

They keep the results of IEEE 754-2019 (section 9.2.1) for zeros, infinities, NaN and negative bases, and have
no larger error than `pow` (1.5 units of the last place); tolerances count the errors of both. Other exponents
stay, since each would need its own proof, and so do exponents that vary by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from anyrt.core.enums import DataType
from anyrt.ir.graph import Value
from anyrt.ir.rewrite import Fail, Rule, op
from anyrt.passes.examples import FLOATS, NUMBERS, UNIT, Below, like, operand
from anyrt.passes.facts import constant, has_no_sign, number
from anyrt.prims import build
from anyrt.prims.map import SELECT, Map

LEAST: Final = 126  # the exponent of the least normal float32, below 0


def _exponent_is(exponent: float) -> Callable[..., Fail | None]:
    """A guard: every exponent is `exponent`, and repeating the bases gives the result's shape."""

    def guard(x: Value, y: Value, out: Value) -> Fail | None:
        if number(y) != exponent:
            return Fail(f"not every exponent is known to be {exponent:g}")
        if any(d not in (1, o) for d, o in zip(x.shape, out.shape, strict=True)):
            return Fail("the sizes of bases and exponents may meet in several ways")
        return None

    return guard


def _root(x: Value) -> Value:
    """x ^ 0.5: +0 for −0 and +∞ for −∞, where the square root has −0 and NaN."""
    if has_no_sign(x):
        return build.map_("sqrt", x)
    root = build.map_("sqrt", build.map_("add", x, like(x, 0.0)))
    return build.map_(SELECT, build.map_("eq", x, like(x, -math.inf)), like(x, math.inf), root)


def _power(exponent: float, form: Callable[[Value], Value], roundings: int = 0) -> Rule:
    """`form` of the base in place of its power; `roundings`: those of the form, when it is not exact."""

    def example(draw: Below) -> Value:
        x = operand(draw, *FLOATS)
        y = build.const(np.full((1, (1, x.shape[1])[draw(2)]), exponent), x.dtype)
        return build.map_("pow", x, build.expand(y, x.shape) if draw(2) else y)

    return Rule(
        f"power {exponent:g}",
        find=lambda x, y: op(Map, x, y, fn="pow"),
        make=lambda x, out: build.expand(form(x), out.shape),
        guard=_exponent_is(exponent),
        example=example,
        tolerance=(roundings + 3) * UNIT if roundings else 0.0,
    )


def _are_powers_of_two(c: Value, out: Value) -> Fail | None:
    """The number of different divisors, such as scales of channels: a single one is an instruction's operand,
    which LLVM inverts."""
    blob, casts = constant(c)
    if out.dtype is not DataType.FLOAT or blob is None or casts or blob.dtype is not DataType.FLOAT:
        return Fail("the divisors are no float32 that are known")
    digits, exponents = np.frexp(np.abs(blob.array))
    if not blob.is_known or blob.size < 2 or not (digits == 0.5).all() or np.abs(exponents - 1).max() > LEAST:
        return Fail("the divisors are no powers of two, or their reciprocals no normal numbers")
    return None


def _quotients(draw: Below) -> Value:
    x = build.param("x", (1 + draw(4), 4), DataType.FLOAT)
    exponents = [draw(2 * LEAST + 1) - LEAST for _ in range(4)]
    row = np.exp2(exponents) * (1 - 2 * draw(2))
    return build.map_("div", x, build.const(row[None], x.dtype))


POWERS: Final[tuple[Rule, ...]] = (
    _power(0.0, lambda x: like(x, 1.0)),
    _power(1.0, lambda x: x),
    _power(2.0, lambda x: build.map_("square", x)),
    # The square overflows, or loses digits below the normal range, only where the cube is infinite or 0.
    _power(3.0, lambda x: build.map_("mul", build.map_("square", x), x), roundings=2),
    _power(0.5, _root, roundings=1),
    _power(-0.5, lambda x: build.map_("recip", _root(x)), roundings=2),
    _power(-1.0, lambda x: build.map_("recip", x), roundings=1),
    Rule(
        "product with itself",
        find=lambda x: op(Map, x, x, fn="mul"),
        make=lambda x: build.map_("square", x),
        example=lambda draw: (lambda x: build.map_("mul", x, x))(operand(draw, *NUMBERS)),
    ),
    Rule(
        "quotient by powers of two",
        find=lambda x, c: op(Map, x, c, fn="div"),
        make=lambda x, c: build.map_("mul", x, build.map_("recip", c)),
        guard=_are_powers_of_two,
        example=_quotients,
    ),
)
