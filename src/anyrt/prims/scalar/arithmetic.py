"""Sums, products, quotients, rounding and signs, of floats and of integers.

Integers follow `Op` of the kernel IR: sums and products wrap, division by zero gives 0.
"""

from __future__ import annotations

import math

import numpy as np

from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Expr, Op, alu, const, fma, select
from anyrt.prims.scalar.table import (
    EVERY,
    NUMBERS,
    REALS,
    Array,
    Ints,
    ScalarFn,
    absolute,
    equal,
    flip_sign,
    pattern,
    sign_of,
)


def floordiv(a: Expr, b: Expr) -> Expr:
    """floor(a / b); a float quotient that was rounded up to an integer is corrected by its exact
    remainder."""
    if not a.type.is_float:
        return alu(Op.FLOORDIV, a, b)
    quotient = alu(Op.FLOOR, a / b)
    if a.type is Scalar.F64:  # as in NumPy; there is no wider type
        return quotient
    rest = fma(-quotient, b, a)
    below = ((rest < 0.0) & (b > 0.0)) | ((rest > 0.0) & (b < 0.0))
    return select(below, quotient - 1.0, quotient)


def times_reciprocal(a: Expr, b: Expr) -> Expr:
    """a / b as a product; a tiny b is scaled, and the result after it, so that 1 / b does not overflow."""
    scale = select(absolute(b) < 2.0**-100, const(2.0**64, b.type), 1.0)
    return a * (1.0 / (b * scale)) * scale


def fmod(a: Expr, b: Expr) -> Expr:
    """a − b × trunc(a / b), with the sign of a. Most quotients are exact floats, or one too large, so that
    one product gives the remainder; the others use long division."""
    x, d = absolute(a), absolute(b)
    quotient = alu(Op.TRUNC, x / d)
    rest = fma(-quotient, d, x)
    # An infinite b has quotient 0 and must not be multiplied.
    near = select(x < d, x, select(rest < 0.0, rest + d, rest))
    far = quotient >= 2.0 ** (pattern(a).fraction + 1)
    if a.type is Scalar.F64:  # beyond, products lose bits where there is no instruction for `fma`
        far = far | ((d <= x) & ((x > 2.0**900) | (d < 2.0**-900)))
    far = far & (x < math.inf) & (d > 0.0)
    return flip_sign(select(far, alu(Op.REM, select(far, x, 0.0), select(far, d, 1.0)), near), sign_of(a))


def mod(a: Expr, b: Expr) -> Expr:
    """a − b × floor(a / b), with the sign of b."""
    if not a.type.is_float:
        return alu(Op.MOD, a, b)
    rest = fmod(a, b)
    other_sign = ((rest < 0.0) & (b > 0.0)) | ((rest > 0.0) & (b < 0.0))
    zero = flip_sign(absolute(rest), sign_of(b))
    return select(other_sign, rest + b, select(equal(rest, 0.0), zero, rest))


def sign(x: Expr) -> Expr:
    """−1, 0 or 1; NaN stays and −0 becomes 0."""
    return select(x > 0, 1, select(x < 0, -1, x + 0))


def _divide(a: Ints, b: Ints) -> Array:
    """a / b, for integers truncated as in C, with x / 0 = 0; unsigned magnitudes fit −2³¹ too."""
    if np.issubdtype(a.dtype, np.floating):
        return np.asarray(np.divide(a, b))
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    magnitude = np.floor_divide(np.abs(a).view(unsigned), np.abs(b).view(unsigned))
    quotient: Ints = np.asarray(magnitude).view(a.dtype)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


def _floor_divide(a: Array, b: Array) -> Array:
    if np.issubdtype(a.dtype, np.floating):
        return np.asarray(np.floor(np.divide(a, b)))
    return np.asarray(np.floor_divide(a, b))


def _multiply_add(a: Array, b: Array, c: Array) -> Array:
    """Rounded once, or nearly so, of float64, too."""
    wide = np.add(np.multiply(a, b, dtype=np.longdouble), c)
    return np.asarray(wide).astype(np.result_type(a, b, c))


EXTREMA = "NaN when either is; of 0 and −0 either one"

FUNCTIONS = (
    ScalarFn("identity", 1, np.copy, lambda x: x, EVERY),
    ScalarFn("add", 2, np.add, lambda a, b: a + b, NUMBERS, ulp=0.5),
    ScalarFn("sub", 2, np.subtract, lambda a, b: a - b, NUMBERS, ulp=0.5),
    ScalarFn("mul", 2, np.multiply, lambda a, b: a * b, NUMBERS, ulp=0.5),
    ScalarFn("div", 2, _divide, lambda a, b: a / b, NUMBERS, ulp=0.5, short="div_short"),
    ScalarFn("div_short", 2, np.divide, times_reciprocal, ulp=8, repeated=True),
    ScalarFn("fma", 3, _multiply_add, fma, REALS, ulp=0.5),
    ScalarFn("floordiv", 2, _floor_divide, floordiv, NUMBERS, ulp=0.5),
    ScalarFn("mod", 2, np.mod, mod, NUMBERS, ulp=0.5),
    ScalarFn("fmod", 2, np.fmod, fmod, REALS),
    ScalarFn("min", 2, np.minimum, lambda a, b: alu(Op.MIN, a, b), NUMBERS, note=EXTREMA),
    ScalarFn("max", 2, np.maximum, lambda a, b: alu(Op.MAX, a, b), NUMBERS, note=EXTREMA),
    ScalarFn("neg", 1, np.negative, lambda x: -x, NUMBERS),
    ScalarFn("abs", 1, np.abs, lambda x: alu(Op.ABS, x), NUMBERS),
    ScalarFn("sign", 1, np.sign, sign, NUMBERS),
    ScalarFn("square", 1, np.square, lambda x: x * x, NUMBERS, ulp=0.5),
    ScalarFn("ceil", 1, np.ceil, lambda x: alu(Op.CEIL, x), REALS),
    ScalarFn("floor", 1, np.floor, lambda x: alu(Op.FLOOR, x), REALS),
    ScalarFn("round", 1, np.rint, lambda x: alu(Op.RINT, x), REALS, note="half to even"),
    ScalarFn("trunc", 1, np.trunc, lambda x: alu(Op.TRUNC, x), REALS),
)
