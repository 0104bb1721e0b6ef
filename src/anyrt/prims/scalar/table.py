"""The record of a scalar function, and the small expressions that several expansions share.

>>> double = ScalarFn("double", 1, lambda x: x + x, lambda x: x + x, NUMBERS)
>>> double.expand(const(1.5, Scalar.F32))
add(1.5, 1.5)
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Expr, Op, alu, bitcast, const, fma, select

Array = NDArray[np.generic]
Ints = NDArray[np.int64]  # or any other width


class Kind(enum.Enum):
    """What a function may be applied to."""

    FLOAT = "float"
    DOUBLE = "double"
    INT = "int"
    BOOL = "bool"


class ResultKind(enum.Enum):
    """The type of a result: that of the (last) operand, or bool."""

    SAME = "same"
    BOOL = "bool"


FLOATS = frozenset({Kind.FLOAT})
REALS = FLOATS | {Kind.DOUBLE}  # what float64 has, too: its expansions use nothing of float32
NUMBERS = REALS | {Kind.INT}
INTS = frozenset({Kind.INT})
BOOLS = frozenset({Kind.BOOL})
EVERY = NUMBERS | BOOLS


@dataclass(frozen=True, slots=True)
class ScalarFn:
    """A function of `arity` scalars: its definition in NumPy and its expansion into kernel expressions.

    `ref` gets float64, int32/int64/uint64 or bool arrays and returns the same type, or bool; integers wrap
    like two's complement. Call it within `np.errstate(all="ignore")`.
    `expand` gets expressions that are all F32, all F64, or all I32, I64, U64 or BOOL, but the first
    `conditions` are BOOL.
    `ulp` bounds the error of the float32 expansion against `ref`, in units of the last place of the exact
    result (2⁻¹⁴⁹ for subnormals), for operands within `domain`: measured on every fifth float32 pattern,
    `pow` on 10⁹ random pairs, and rounded up.
    `short` names the function that does instead where the result becomes a half type, of which a unit is
    8192 of float32 or more; if that is `repeated`, only for a last operand that is the same for a whole row,
    so that what is made of it alone is made once.
    """

    name: str
    arity: int
    ref: Callable[..., Array]
    expand: Callable[..., Expr]
    kinds: frozenset[Kind] = FLOATS
    result: ResultKind = ResultKind.SAME
    ulp: float = 0.0
    domain: tuple[float, float] = (-math.inf, math.inf)
    note: str = ""
    conditions: int = 0
    short: str = ""
    repeated: bool = False


SIGN_BIT = -(1 << 31)
# Adding 1.5 × 2²³ rounds to an integer, half to even, and leaves it in the low bits of the pattern: two cheap
# instructions where rint and a saturating conversion take six (Cephes, and P. H. Muller et al., "Handbook of
# Floating-Point Arithmetic", 2nd ed., section 10.2).
ROUNDER = 1.5 * 2.0**23


def poly(x: Expr, *coefficients: float) -> Expr:
    """Horner's scheme, highest power first."""
    start = const(coefficients[0], x.type)
    return reduce(lambda total, c: fma(total, x, c), coefficients[1:], start)


def absolute(x: Expr) -> Expr:
    """|x|."""
    return alu(Op.ABS, x)


def equal(a: Expr, b: Expr | float) -> Expr:
    """a = b."""
    return alu(Op.EQ, a, const(b, a.type) if isinstance(b, float | int) else b)


def at_most(x: Expr, limit: float) -> Expr:
    """min(x, limit), NaN kept; written so that it is one `minps` on x86."""
    return select(x > limit, limit, x)


def at_least(x: Expr, limit: float) -> Expr:
    """max(x, limit), NaN kept; one `maxps`."""
    return select(x < limit, limit, x)


def bits_of(x: Expr) -> Expr:
    """The pattern of a float32 as int32."""
    return bitcast(x, Scalar.I32)


def sign_of(x: Expr) -> Expr:
    """The sign bit of a float32, alone."""
    return bits_of(x) & SIGN_BIT


def flip_sign(x: Expr, sign: Expr) -> Expr:
    """`x` negated where the bit `sign` is set."""
    return bitcast(bits_of(x) ^ sign, Scalar.F32)


def power_of_two(n: Expr) -> Expr:
    """2ⁿ for int32 n in −126 … 127; bits of n above the ninth are ignored."""
    return bitcast((n << 23) + (127 << 23), Scalar.F32)


def nearest(x: Expr, factor: float) -> tuple[Expr, Expr]:
    """(n, bits): n = x × factor rounded to an integer, |n| < 2²², as float32; bits ≡ n modulo 2⁹ as int32."""
    shifted = fma(x, factor, ROUNDER)
    return shifted - ROUNDER, bits_of(shifted)
