"""The remainder of a float64 angle of any size modulo a quarter turn, as two numbers.

2/π is multiplied by its relevant bits only: for x = m × 2ᵉ, bits of 2/π that give whole turns are left out
(M. Payne and R. Hanek, "Radian reduction for trigonometric functions", SIGNUM Newsletter 18, 1983). Its parts
are selected among constants, so no memory is read, and vectors do it in each lane.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Final

from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Expr, Op, alu, const, fma, select
from anyrt.prims.scalar.table import (
    DOUBLE,
    bits_of,
    fast_two_sum,
    power_of_two,
    two_product,
    two_sum,
)

HALF_PI: Final = (1.5707963267948966, 6.123233995736766e-17)  # and its rounding error
_QUARTER: Final = math.pi / 4
# 2/π, from fdlibm (e_rem_pio2.c).
_BITS: Final = 1280
_TWO_OVER_PI: Final = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)
_STEP: Final = 32  # powers of two that one row of parts serves
_FIRST: Final = 54  # from 2⁵⁴ on a float64 is a multiple of 4
_PARTS: Final = 4  # 2⁻²¹² of the rest of 2/π: 2⁻¹²⁶ of a turn, where the least angle is 2⁻⁶²
_ROWS: Final = 1 << 5


def _row(j: int) -> list[float]:
    """The fraction of 2/π × 2³²ʲ, in parts of 53 bits."""
    rest, parts = (_TWO_OVER_PI << _STEP * j) % (1 << _BITS), []
    for _ in range(_PARTS):
        cut = max(rest.bit_length() - 53, 0)
        parts.append(math.ldexp(rest >> cut, cut - _BITS))
        rest -= rest >> cut << cut
    return parts


_TABLE: Final = tuple(zip(*(_row(j) for j in range(_ROWS)), strict=True))


def angle(a: Expr) -> tuple[Expr, Expr, Expr]:
    """(r, below, bits) with a ≡ r + below + n π/2, |r| ≤ π/4 and bits ≡ n modulo 4, for a ≥ 0; NaN of ∞."""
    turns, below, n = _quarters(a)
    r, lost = two_product(turns, const(HALF_PI[0], a.type))
    r, lost = fast_two_sum(r, fma(turns, HALF_PI[1], fma(below, HALF_PI[0], lost)))
    small = a <= _QUARTER
    return select(small, a, r), select(small, 0.0, lost), bits_of(select(small, 0.0, n) + DOUBLE.rounder)


def _quarters(a: Expr) -> tuple[Expr, Expr, Expr]:
    """a × 2/π without multiples of 4, as a sum of two around n, and n."""
    above = (bits_of(a) >> DOUBLE.fraction) - (DOUBLE.bias + _FIRST)
    j = alu(Op.MAX, above, const(0, Scalar.I64)) >> 5
    x = a * power_of_two(-(j << 5))
    first, second, third, fourth = (_chosen(part, j) for part in _TABLE)
    (p, q), (s, t), (u, v) = (two_product(x, part) for part in (first, second, third))
    total, lost = two_sum(_without_fours(p), _without_fours(q))
    total, more = two_sum(total, _without_fours(s))
    n = alu(Op.RINT, total)
    # In order of size, so that cancellation leaves exact numbers.
    head, tails = total - n, fma(x, fourth, v)
    for part in (t, u, lost, more):
        head, tail = two_sum(head, part)
        tails = tails + tail
    return *fast_two_sum(head, tails), n


def _without_fours(x: Expr) -> Expr:
    return fma(alu(Op.RINT, x * 0.25), -4.0, x)


def _chosen(part: tuple[float, ...], j: Expr) -> Expr:
    """part[j], by the bits of j."""
    rows = [const(x, Scalar.F64) for x in part]

    def halved(rows: list[Expr], bit: int) -> list[Expr]:
        is_odd = (j & (1 << bit)) > 0
        return [select(is_odd, b, a) for a, b in zip(rows[::2], rows[1::2], strict=True)]

    return reduce(halved, range(5), rows)[0]
