"""erf and the logistic function."""

from __future__ import annotations

import math

import numpy as np

from anyrt.ir.kernel import Expr, const, fma, select
from anyrt.prims.scalar.exponential import ENDS, EXP, LOG2_E, exp_normal, without
from anyrt.prims.scalar.table import (
    REALS,
    Array,
    ScalarFn,
    absolute,
    at_least,
    at_most,
    by_type,
    fast_two_sum,
    flip_sign,
    nearest,
    poly,
    power_of_two,
    sign_of,
)

# erf(x) / x − 1 in x², |x| ≤ 0.95: 2⁻³⁰.
_ERF = (8.00277485e-05, -0.000805080403, 0.00519246049, -0.0268557407, 0.112836257, -0.376126289, 0.128379166)
# log(erfc x) on 0.9 … 4: 2⁻²⁹ of erf.
_LOG_ERFC = (
    0.000198219554,
    -0.00306548341,
    0.0223151781,
    -0.104113616,
    -0.636976123,
    -1.12779725,
    -0.000166439087,
)
# Of float64: erf(x) / x − 1 in x², |x| ≤ 0.95: 2⁻⁵⁴.
_ERF_DOUBLE = (
    6.20591021468075e-11,
    -1.150948336349143e-09,
    1.4692576585390047e-08,
    -1.6354830535938946e-07,
    1.6461394513644462e-06,
    -1.4925617926719576e-05,
    0.00012055331979222275,
    -0.0008548327002649641,
    0.005223977625164846,
    -0.026866170645109225,
    0.11283791670955035,
    -0.3761263890318375,
    0.1283791670955126,
)
# log(erfc x) + x² in x − 2.5 on 0.9 … 5.95: 2⁻⁵³, and a fifth of that of erf.
_MIDDLE, _END = 2.5, 5.95
_LOG_SCALED_ERFC = (
    9.506188461063849e-21,
    3.636111338848759e-19,
    -1.6986269535919797e-17,
    2.7762596232388737e-16,
    -2.6414151576444585e-15,
    1.700794246105892e-14,
    -7.924445058366049e-14,
    2.657070082999588e-13,
    -4.770725991817407e-13,
    -1.6402854263905363e-12,
    2.363182153721991e-11,
    -1.617545950171429e-10,
    8.407815896075346e-10,
    -3.513643747146573e-09,
    1.0932887593174546e-08,
    -1.260747330388401e-08,
    -1.5596958419430696e-07,
    1.7689814882615033e-06,
    -1.2755839058616119e-05,
    7.703080527487863e-05,
    -0.0004209325614866897,
    0.0021654768990085177,
    -0.01085807273853213,
    0.05610626647585839,
    -0.35268075098639096,
    -1.5568152727272644,
)
# (e⁻ʳ − 1) / r on |r| ≤ ln 2 / 2, highest power first.
_FALLING = {t: (*(c * (-1) ** k for k, c in enumerate(EXP[t])), -1.0) for t in EXP}
# 2⁻ᶠ on |f| ≤ ½: 2⁻¹⁸.
_HALVING = (0.00957009196, -0.0559179448, 0.240247458, -0.693121791, 0.999999285)


def erf(x: Expr) -> Expr:
    """A polynomial below 0.92, 1 − exp(log erfc) above; 1 from 4 on."""
    a = at_most(absolute(x), 4.0)
    small = fma(a, poly(a * a, *_ERF), a)
    large = 1.0 - exp_normal(poly(a, *_LOG_ERFC))
    return flip_sign(select(a >= 0.92, large, small), sign_of(x))


def erf_double(x: Expr) -> Expr:
    """The same; 1 from 5.95 on."""
    a = at_most(absolute(x), _END)
    small = fma(a, poly(a * a, *_ERF_DOUBLE), a)
    large = 1.0 - exp_normal(fma(-a, a, poly(a - _MIDDLE, *_LOG_SCALED_ERFC)))
    return flip_sign(select(a >= 0.92, large, small), sign_of(x))


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + e⁻ˣ), numerator and denominator times 2⁻³²: e⁻ˣ is then a normal number in the relevant range.

    With s = 2⁻ⁿ the denominator is (1 + s) + s·r·q: 1 + s is exact where both count.
    """
    limited = at_least(at_most(x, 60.0), -104.0)
    n, bits = nearest(limited, LOG2_E)
    r, s = without(limited, n), power_of_two(-32 - bits)
    return 2.0**-32 / fma(r * s, poly(r, *_FALLING[x.type]), s + 2.0**-32)


def sigmoid_double(x: Expr) -> Expr:
    """The same times 2⁻⁶⁴, with the rounding error of the denominator."""
    limited = at_least(at_most(x, 60.0), ENDS[x.type][0])
    n, bits = nearest(limited, LOG2_E)
    r, s = without(limited, n), power_of_two(-64 - bits)
    whole, lost = fast_two_sum(s + 2.0**-64, s * (r * poly(r, *_FALLING[x.type])))
    value = const(2.0**-64, x.type) / whole
    return fma(value * lost * -(2.0**64), value, value)


def sigmoid_short(x: Expr) -> Expr:
    """The same with a shorter polynomial in base 2."""
    limited = at_least(at_most(x, 60.0), -104.0)
    n, bits = nearest(limited, LOG2_E)
    return 2.0**-32 / fma(poly(fma(limited, LOG2_E, -n), *_HALVING), power_of_two(-32 - bits), 2.0**-32)


def _logistic(x: Array) -> Array:
    """Of the exponential that does not overflow."""
    falling = np.exp(-np.abs(x))
    return np.where(np.less(x, 0.0), falling, 1.0) / (1.0 + falling)


FUNCTIONS = (
    ScalarFn(
        "erf",
        1,
        np.vectorize(math.erf, otypes=[np.float64]),
        by_type(erf, erf_double),
        REALS,
        ulp=1.2,
        double_ulp=1.2,
    ),
    ScalarFn(
        "sigmoid",
        1,
        _logistic,
        by_type(sigmoid, sigmoid_double),
        REALS,
        ulp=2.5,
        double_ulp=2.0,
        short="sigmoid_short",
    ),
    ScalarFn("sigmoid_short", 1, _logistic, sigmoid_short, ulp=64),
)
