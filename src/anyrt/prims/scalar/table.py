"""The record of a scalar function, and small expressions that several expansions share.

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

from anyrt.ir.buffer import BITS, Scalar
from anyrt.ir.kernel import Expr, Op, alu, bitcast, cast, const, fma, select

Array = NDArray[np.generic]
Ints = NDArray[np.int64]  # or any other width
ALL = (-math.inf, math.inf)


class Kind(enum.Enum):
    """The types of operands."""

    FLOAT = "float"
    DOUBLE = "double"
    INT = "int"
    BOOL = "bool"


class ResultKind(enum.Enum):
    """The type of a result: that of the last operand, or bool."""

    SAME = "same"
    BOOL = "bool"


FLOATS = frozenset({Kind.FLOAT})
REALS = FLOATS | {Kind.DOUBLE}  # its expansion suits float64, too: it uses nothing specific to float32
NUMBERS = REALS | {Kind.INT}
INTS = frozenset({Kind.INT})
BOOLS = frozenset({Kind.BOOL})
EVERY = NUMBERS | BOOLS


@dataclass(frozen=True, slots=True)
class ScalarFn:
    """A function of `arity` scalars: its definition in NumPy and its expansion into kernel expressions.

    `ref` receives float64, int32/int64/uint64 or bool arrays and returns the same type, or bool; integers
    wrap in two's complement. Call it within `np.errstate(all="ignore")`. `expand` receives expressions that
    are all F32, all F64, or all I32, I64, U64 or BOOL, except that the first `conditions` are BOOL. `ulp`
    bounds the error of the float32 expansion against `ref`, in units of the last place of the exact result
    (2⁻¹⁴⁹ for subnormals), for operands within `domain`: measured on every fifth float32 pattern, `pow` on
    10⁹ random pairs, and rounded up. `double_ulp` bounds that of the float64 expansion, for all operands
    (2⁻¹⁰⁷⁴ for subnormals); None if it is equal. `short` names a shorter function for results that become a
    half type, whose unit is 8192 of float32 or more; if that is `repeated`, only for a last operand that is
    constant along a row, so that values computed from it alone are computed once.
    """

    name: str
    arity: int
    ref: Callable[..., Array]
    expand: Callable[..., Expr]
    kinds: frozenset[Kind] = FLOATS
    result: ResultKind = ResultKind.SAME
    ulp: float = 0.0
    double_ulp: float | None = None
    domain: tuple[float, float] = ALL
    note: str = ""
    conditions: int = 0
    short: str = ""
    repeated: bool = False

    def error(self, kind: Kind) -> tuple[float, tuple[float, float]]:
        """The bound in ulp, and the operands for which it holds."""
        if kind is not Kind.DOUBLE:
            return self.ulp, self.domain
        return (self.ulp if self.double_ulp is None else self.double_ulp), ALL


@dataclass(frozen=True, slots=True)
class Pattern:
    """The layout of a float in the integer of its width: the fraction below the exponent."""

    real: Scalar
    whole: Scalar
    fraction: int
    bias: int

    @property
    def sign(self) -> int:
        """The sign bit, alone."""
        return -(1 << BITS[self.whole] - 1)

    @property
    def rounder(self) -> float:
        """Adding 1.5 × 2²³ (or 2⁵²) rounds to an integer, half to even, and leaves it in the low bits of the
        pattern: two cheap instructions where rint and a saturating conversion take six (Cephes, and
        P. H. Muller et al., "Handbook of Floating-Point Arithmetic", 2nd ed., section 10.2)."""
        return 1.5 * 2.0**self.fraction

    @property
    def least(self) -> float:
        """The least normal number."""
        return 2.0 ** (1 - self.bias)


SINGLE = Pattern(Scalar.F32, Scalar.I32, 23, 127)
DOUBLE = Pattern(Scalar.F64, Scalar.I64, 52, 1023)


def pattern(x: Expr) -> Pattern:
    """That of a float, or of the integer of its width."""
    return DOUBLE if x.type in (Scalar.F64, Scalar.I64) else SINGLE


def by_type(single: Callable[..., Expr], double: Callable[..., Expr]) -> Callable[..., Expr]:
    """The expansion for the type of the last operand: the only place where the types differ."""
    return lambda *args: (double if args[-1].type is Scalar.F64 else single)(*args)


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
    """The pattern of a float as the integer of its width."""
    return bitcast(x, pattern(x).whole)


def sign_of(x: Expr) -> Expr:
    """The sign bit of a float, alone."""
    return bits_of(x) & pattern(x).sign


def flip_sign(x: Expr, sign: Expr) -> Expr:
    """`x` negated where the bit `sign` is set."""
    return bitcast(bits_of(x) ^ sign, x.type)


def power_of_two(n: Expr) -> Expr:
    """2ⁿ for int32 n in −126 … 127, as float32, and for int64 n in −1022 … 1023, as float64; bits of n above
    those of the exponent and sign are ignored."""
    p = pattern(n)
    return bitcast((n << p.fraction) + (p.bias << p.fraction), p.real)


def number(n: Expr) -> Expr:
    """An integer below 2²² as the float of its width; of int64 without the conversion, which AVX2 lacks."""
    if n.type is Scalar.I32:
        return cast(n, Scalar.F32)
    return bitcast(n + _HELD, Scalar.F64) - DOUBLE.rounder


def nearest(x: Expr, factor: float) -> tuple[Expr, Expr]:
    """(n, bits): n = x × factor rounded to an integer, |n| < 2²², as a float; bits ≡ n modulo 2⁹ (of float64
    2¹²) as an integer."""
    rounder = pattern(x).rounder
    shifted = fma(x, factor, rounder)
    return shifted - rounder, bits_of(shifted)


def two_sum(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a + b, and its rounding error (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def fast_two_sum(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """The same where |a| ≥ |b|, or a is 0 (Dekker)."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a × b, and its rounding error."""
    product = a * b
    return product, fma(a, b, -product)


_HELD = 0x4338000000000000  # the pattern of float64's rounding constant
