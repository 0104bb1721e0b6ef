"""Lower and upper bounds of kernel expressions, derived from their form.

A value that was clamped before a conversion needs no clamping again.

>>> from anyrt.ir.buffer import Buffer, Scalar, Space
>>> from anyrt.ir.kernel import load, const, select
>>> x = load(Buffer("x", Scalar.F32, Space.INPUT), 0)
>>> interval(select(const(0.0, Scalar.F32) < x, select(x < 255.0, x, 255.0), 0.0))
(0.0, 255.0)
>>> interval(x) is None
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import ceil, floor, inf, isnan, trunc
from operator import add, mul, sub
from typing import TypeAlias

from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Alu, Cast, Const, Expr, Load, Op

Interval: TypeAlias = tuple[float, float]
_BYTES = {Scalar.U8: (0.0, 255.0), Scalar.I8: (-128.0, 127.0), Scalar.BOOL: (0.0, 1.0)}
_COUNTS: Mapping[Op, Callable[[float, float], float]] = {
    Op.ADD: add,
    Op.SUB: sub,
    Op.MUL: mul,
    Op.MIN: min,
    Op.MAX: max,
}
_WIDTHS = {Scalar.I32: 32, Scalar.I64: 64}
_WHOLE: Mapping[Op, Callable[[float], int]] = {
    Op.RINT: round,
    Op.FLOOR: floor,
    Op.CEIL: ceil,
    Op.TRUNC: trunc,
}


@lru_cache(maxsize=1 << 12)
def interval(x: Expr) -> Interval | None:
    """(least, greatest) value of `x`, which then is never NaN; None if unknown."""
    return _interval(x, {})


def _interval(x: Expr, known: Mapping[Expr, Interval]) -> Interval | None:
    if x in known:
        return known[x]
    match x:
        case Const(value=value):
            return None if isnan(value) else (float(value), float(value))
        case Load() if x.type in _BYTES:
            return _BYTES[x.type]
        case Cast(arg=arg):
            return _converted(x.type, _interval(arg, known))
        case Alu(op=Op.SELECT, args=(condition, then, otherwise)):
            first = _interval(then, {**known, **_learned(condition, known)})
            return _union(first, _interval(otherwise, known))
        case Alu(op=Op() as op, args=(a, b)) if op in _COUNTS and x.type in _WIDTHS:
            return _counted(op, _interval(a, known), _interval(b, known), _WIDTHS[x.type])
        case Alu(op=Op.MIN | Op.MAX as op, args=(a, b)) if x.type.is_float:
            return _extreme(op, _interval(a, known), _interval(b, known))
        case Alu(op=Op() as op, args=(arg,)) if op in _WHOLE:
            operand = _interval(arg, known)
            return None if operand is None else (_whole(op, operand[0]), _whole(op, operand[1]))
        case _:
            return None


def _counted(op: Op, a: Interval | None, b: Interval | None, width: int) -> Interval | None:
    """The interval of integer operations that cannot wrap; these functions have their extremes at the
    ends."""
    if a is None or b is None or inf in map(abs, (*a, *b)):
        return None
    ends = [_COUNTS[op](p, q) for p in a for q in b]
    limit = 2.0 ** (min(width, 53) - 1)
    return (min(ends), max(ends)) if -limit <= min(ends) and max(ends) < limit else None


def _extreme(op: Op, a: Interval | None, b: Interval | None) -> Interval | None:
    """The interval of float operations; NaN if an operand is."""
    if a is None or b is None:
        return None
    return _COUNTS[op](a[0], b[0]), _COUNTS[op](a[1], b[1])


def _whole(op: Op, bound: float) -> float:
    return bound if abs(bound) == inf else float(_WHOLE[op](bound))


def _converted(to: Scalar, interval: Interval | None) -> Interval | None:
    """Conversions that keep every number of the interval, rounding towards zero at most."""
    if interval is None or not _holds(to, *interval):
        return None
    return interval if to.is_float else (float(trunc(interval[0])), float(trunc(interval[1])))


def _holds(to: Scalar, low: float, high: float) -> bool:
    least, most = _BYTES.get(to, (-(2.0**24), 2.0**24))  # integers up to there are exact in float32
    return to in (Scalar.U8, Scalar.I8, Scalar.I32, Scalar.I64, Scalar.F32) and least <= low and high <= most


def _learned(condition: Expr, known: Mapping[Expr, Interval]) -> dict[Expr, Interval]:
    """The intervals of the compared values if `condition` holds; no comparison holds for NaN."""
    match condition:
        case Alu(op=Op.LT | Op.LE, args=(a, b)):
            learned: dict[Expr, Interval] = {}
            for x, other, below in ((a, b, True), (b, a, False)):
                bound = _interval(other, known)
                if bound is not None and not isinstance(x, Const):
                    low, high = _interval(x, known) or (-inf, inf)
                    learned[x] = (low, min(high, bound[1])) if below else (max(low, bound[0]), high)
            return learned
        case _:
            return {}


def _union(a: Interval | None, b: Interval | None) -> Interval | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))
