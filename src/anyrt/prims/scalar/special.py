"""erf and the logistic function."""

from __future__ import annotations

import math

import numpy as np

from anyrt.ir.kernel import Expr, fma, select
from anyrt.prims.scalar.exponential import EXP, LN2_HI, LN2_LO, LOG2_E, exp_normal
from anyrt.prims.scalar.table import (
    ScalarFn,
    absolute,
    at_least,
    at_most,
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
# (e⁻ʳ − 1) / r on |r| ≤ ln 2 / 2, highest power first.
_FALLING = (*(c * (-1) ** k for k, c in enumerate(EXP)), -1.0)
# 2⁻ᶠ on |f| ≤ ½: 2⁻¹⁸.
_HALVING = (0.00957009196, -0.0559179448, 0.240247458, -0.693121791, 0.999999285)


def erf(x: Expr) -> Expr:
    """A polynomial below 0.92, 1 − exp(log erfc) above; 1 from 4 on."""
    a = at_most(absolute(x), 4.0)
    small = fma(a, poly(a * a, *_ERF), a)
    large = 1.0 - exp_normal(poly(a, *_LOG_ERFC))
    return flip_sign(select(a >= 0.92, large, small), sign_of(x))


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + e⁻ˣ), above and below times 2⁻³²: so e⁻ˣ is a normal number wherever it matters.

    With s = 2⁻ⁿ the denominator is (1 + s) + s·r·q: 1 + s is exact where both count.
    """
    limited = at_least(at_most(x, 60.0), -104.0)
    n, bits = nearest(limited, LOG2_E)
    r, s = fma(n, -LN2_LO, fma(n, -LN2_HI, limited)), power_of_two(-32 - bits)
    return 2.0**-32 / fma(r * s, poly(r, *_FALLING), s + 2.0**-32)


def sigmoid_short(x: Expr) -> Expr:
    """The same with a shorter polynomial in base 2."""
    limited = at_least(at_most(x, 60.0), -104.0)
    n, bits = nearest(limited, LOG2_E)
    return 2.0**-32 / fma(poly(fma(limited, LOG2_E, -n), *_HALVING), power_of_two(-32 - bits), 2.0**-32)


FUNCTIONS = (
    ScalarFn("erf", 1, np.vectorize(math.erf, otypes=[np.float64]), erf, ulp=1.2),
    ScalarFn(
        "sigmoid",
        1,
        lambda x: 1.0 / (1.0 + np.exp(-x)),
        sigmoid,
        ulp=2.5,
        short="sigmoid_short",
    ),
    ScalarFn("sigmoid_short", 1, lambda x: 1.0 / (1.0 + np.exp(-x)), sigmoid_short, ulp=64),
)
