"""The float64 expansions of scalar functions, compared with `np.longdouble`, which has 64 bits or more."""

import numpy as np
import pytest

from anyrt.core.dims import Sym
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.evaluate import evaluate
from anyrt.ir.kernel import load
from anyrt.prims.scalar import SCALARS, Kind, ResultKind

Long = np.longdouble
DOUBLES = [f for f in SCALARS.values() if Kind.DOUBLE in f.kinds and f.result is ResultKind.SAME]
# For rounded quotients and cancellations a wider type proves nothing; a condition is no number.
EXACTLY = ("floordiv", "fma", "select")
REAL = [f for f in DOUBLES if f.name not in EXACTLY]
SMALL = [0, 5e-324, 1e-310, 2.2250738585072014e-308, 1e-300, 1e-20, 2.0**-27, 0.25, 1 / 3, 0.5, 0.66, 0.92]
USUAL = [1 - 2.0**-53, 1, 1 + 2.0**-52, 1.5, 2, 2.5, 3, 7, 19, 20, 40]
LARGE = [700, 709.7, 710, 745, 746, 1e10, 2.0**31, 2.0**53, 1e100, 1e300, 1.7e308, np.inf, np.nan]
# The float64 nearest to a multiple of π/2 (J.-M. Muller, "Elementary Functions", section 11.2).
NEAREST_TURN = 6381956970095103 * 2.0**797
SPECIAL = np.array([*SMALL, *USUAL, *LARGE, NEAREST_TURN])
SPECIAL = np.concatenate([SPECIAL, -SPECIAL])


def erf(x):
    """2/√π e^(−x²) Σ 2ⁿ x²ⁿ⁺¹ / (2n + 1)!!, all of one sign; 1 from 7 on."""
    a = np.minimum(np.abs(x), Long(7))
    total = term = a
    for n in range(1, 260):
        term = term * (2 * a * a) / (2 * n + 1)
        total = total + term
    root = np.sqrt(Long("3.14159265358979323846264338327950288"))
    return np.copysign(np.where(a >= 7, Long(1), 2 / root * np.exp(-a * a) * total), x)


REFERENCES = {"erf": erf}


def results(f, args):
    """(expansion, reference) for flat operands."""
    index = Sym("i", extent=args[0].size)
    loads = [load(Buffer(n, Scalar.F64, Space.INPUT, index.extent), index.dim) for n in "abc"[: f.arity]]
    got = evaluate(f.expand(*loads), dict(zip("abc", args, strict=False)), {"i": np.arange(index.extent)})
    with np.errstate(all="ignore"):
        return got, REFERENCES.get(f.name, f.ref)(*(a.astype(Long) for a in args))


def ulps(got, exact):
    """Errors in units of the last place of `exact`; infinity counts as 2¹⁰²⁴."""
    top = Long(2) ** 1024
    with np.errstate(all="ignore"):
        cut = np.clip(exact, -top, top)
        exponents = np.where(np.isfinite(cut), np.frexp(cut)[1], 0)
        one = np.ldexp(Long(1), np.clip(exponents, -1021, 1024) - 53)
        error = np.abs(np.clip(got.astype(Long), -top, top) - cut) / one
        both = np.isnan(exact) & np.isnan(got)
        return np.where(np.isnan(error), np.where(both, 0.0, np.inf), error).astype(np.float64)


def samples(f):
    """Operands of all bit patterns, around 0 and 1, and where exponentials end."""
    random = np.random.default_rng(sum(f.name.encode()))
    patterns = random.integers(-(2**63), 2**63 - 1, (f.arity, 20000)).view(np.float64)
    ranges = [random.uniform(-size, size, (f.arity, 20000)) for size in (1.02, 12, 800)]
    return [*np.concatenate([patterns, *ranges], axis=1)]


@pytest.mark.parametrize("f", REAL, ids=lambda f: f.name)
def test_error_of_float64_stays_within_the_stated_ulp(f):
    got, exact = results(f, samples(f))
    assert ulps(got, exact).max() <= f.error(Kind.DOUBLE)[0] + 1e-3


@pytest.mark.parametrize("f", REAL, ids=lambda f: f.name)
def test_special_float64_follow_the_reference(f):
    got, exact = results(f, [m.reshape(-1) for m in np.meshgrid(*[SPECIAL] * f.arity, indexing="ij")])
    assert ulps(got, exact).max() <= f.error(Kind.DOUBLE)[0] + 1e-3
    zero = (got == 0) & (f.name not in ("min", "max"))
    assert np.array_equal(np.signbit(got[zero]), np.signbit(exact[zero]))


def test_every_float64_function_is_right_within_two_units():
    assert {f.name for f in DOUBLES if f.error(Kind.DOUBLE)[0] > 2} == set()


def test_functions_of_float32_are_functions_of_float64():
    only = {f.name for f in SCALARS.values() if Kind.FLOAT in f.kinds and Kind.DOUBLE not in f.kinds}
    short = {f.short for f in SCALARS.values() if f.short}
    rounding = {"to_half", "to_bf16", "to_fp8", "to_fp4", "to_e8m0"}
    assert only == short | rounding


def test_powers_of_float64_keep_their_error_over_all_results():
    random = np.random.default_rng(7)
    patterns = random.integers(0, 0x7FF0 << 48, 20000).view(np.float64)
    x = np.concatenate([random.uniform(0.5, 2, 20000), patterns[patterns > 0]])
    y = (random.uniform(-1080, 1030, x.size) / np.log2(x.astype(Long))).astype(np.float64)
    got, exact = results(SCALARS["pow"], [x, y])
    assert ulps(got, exact).max() <= SCALARS["pow"].error(Kind.DOUBLE)[0]


def test_large_angles_are_reduced():
    got, _ = results(SCALARS["sin"], [np.array([1e22, 1e300, NEAREST_TURN])])
    assert got.tolist() == [-0.8522008497671888, -0.8178819121159085, 1.0]
    got, _ = results(SCALARS["cos"], [np.array([1e22, NEAREST_TURN])])
    np.testing.assert_allclose(got, [0.5232147853951389, -4.6871659242546277e-19], rtol=2.3e-16)
