"""A rule for products with one scaled factor: the smaller factor is scaled instead.

    q · (k · t)     ->     (q · t) · k

Exporters write attention with the root of its scale before both factors. A step of a decoder has one query
and many keys, all of them in a cache: a kernel that scales them would read and write each. Constant factors
absorb the scale.
"""

from __future__ import annotations

from typing import Final

from anyrt.core.enums import DataType
from anyrt.ir.graph import Value, apply
from anyrt.ir.rewrite import Bind, Fail, Rule, op
from anyrt.passes.examples import UNIT, Below
from anyrt.passes.facts import number, volume
from anyrt.prims import build
from anyrt.prims.contract import Contract
from anyrt.prims.map import fn_of

# Scales between it and 1 leave every number in the range of float32; numbers below 2⁻¹²⁶ lose digits, as they
# do where the other factor is scaled.
LEAST: Final = 2.0**-16


def _scaled(factor: Value) -> tuple[Value, Value] | None:
    """The scaled factor, and the scale."""
    if fn_of(factor) != "mul" or factor.dtype is not DataType.FLOAT:
        return None
    for x, scale in (factor.args, factor.args[::-1]):
        by = number(scale)
        if fn_of(x) == "exp":
            return None  # exponentials are scaled as they are computed, so that their sums stay in range
        if by is not None and LEAST <= abs(by) <= 1 and x.shape == factor.shape:
            return x, scale
    return None


def _moved(a: Value, b: Value, out: Value) -> Value | Fail:
    assert isinstance(out.op, Contract), "the pattern is one"
    small, large = sorted((a, b), key=lambda v: volume(v.shape))
    if volume(small.shape) == volume(large.shape) or not all(isinstance(d, int) for d in a.shape + b.shape):
        return Fail("no factor is known to be smaller")
    scaled = _scaled(large)
    if scaled is None:
        return Fail("the larger factor is not scaled by a number")
    x, scale = scaled
    product = build.map_("mul", small, build.scalar(number(scale) or 0.0, small))
    return apply(out.op, *((product, x) if small is a else (x, product)))


def _example(draw: Below) -> Value:
    x = build.param("x", (1, 1 + draw(3), 5), DataType.FLOAT)
    y = build.param("y", (1, 7, 5), DataType.FLOAT)
    scaled = build.map_("mul", build.map_("abs", y), build.scalar((0.35, -LEAST, 1.0 - LEAST)[draw(3)], y))
    return build.contract("bik,bjk->bij", build.map_("abs", x), scaled)


SCALED_FACTORS: Final = Rule(
    "scale of the larger factor of a product",
    find=lambda a, b: op(Contract, a, b, left=Bind("left"), right=Bind("right"), out=Bind("to")),
    make=_moved,
    example=_example,
    tolerance=4 * UNIT,
    range="elements of the smaller factor whose scaled value is below 2⁻¹²⁶ lose digits",
)
