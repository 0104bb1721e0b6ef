"""Every record of SCALARS compared with its own reference: special values, error in ulp, integers
and bools."""

import numpy as np
import pytest

from anyrt.core.dims import Sym
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.evaluate import DTYPES, evaluate
from anyrt.ir.kernel import const, load
from anyrt.prims.scalar import SCALARS, Kind, ResultKind

FLOATS = [f for f in SCALARS.values() if Kind.FLOAT in f.kinds]
INTS = [f for f in SCALARS.values() if Kind.INT in f.kinds]
BOOLS = [f for f in SCALARS.values() if Kind.BOOL in f.kinds]
TINY = [0, 1e-45, 1e-40, 1.17549435e-38, 2e-8]
USUAL = [0.25, 0.5, 0.75, 0.99999994, 1, 1.0000001, 1.5, 2, 2.5, 3, 7]
LARGE = [88.5, 90, 104.5, 149, 1e5, 2e5, 8388609, 16777215, 3.4028235e38, np.inf, np.nan]
SPECIAL = np.float32([*TINY, *USUAL, *LARGE])
SPECIAL = np.concatenate([SPECIAL, -SPECIAL])


def results(f, scalar, args):
    """(expansion, reference) for flat operands; the reference of floats in float64."""
    types = [Scalar.BOOL] * f.conditions + [scalar] * (f.arity - f.conditions)
    arrays = [a.astype(DTYPES[t]) for a, t in zip(args, types, strict=True)]
    names = "abc"[: f.arity]
    index = Sym("i", extent=arrays[0].size)
    loads = [
        load(Buffer(n, t, Space.INPUT, a.size), index.dim)
        for n, t, a in zip(names, types, arrays, strict=True)
    ]
    got = evaluate(f.expand(*loads), dict(zip(names, arrays, strict=True)), {"i": np.arange(arrays[0].size)})
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays]
    with np.errstate(all="ignore"):
        return got, f.ref(*wide)


def grid(f, values):
    """All combinations of the values as operands."""
    return [m.reshape(-1) for m in np.meshgrid(*[values] * f.arity, indexing="ij")]


def ulps(got, exact):
    """Errors in units of the last place of `exact`; infinity counts as 2¹²⁸."""
    cut = np.clip(exact, -(2.0**128), 2.0**128)
    one = 2.0 ** (np.clip(np.frexp(cut)[1], -125, 128) - 24)
    error = np.abs(np.clip(got.astype(np.float64), -(2.0**128), 2.0**128) - cut) / one
    other = np.where(np.isnan(exact) & np.isnan(got), 0.0, np.inf)
    return np.where(np.isnan(error), other, error)


def samples(f):
    """Operands from all bit patterns and from −12 … 12, within the domain."""
    rng = np.random.default_rng(sum(f.name.encode()))
    patterns = rng.integers(-(2**31), 2**31, (f.arity, 10000)).astype(np.int32).view(np.float32)
    usual = rng.uniform(-12, 12, (f.arity, 10000)).astype(np.float32)
    inside = np.all((patterns >= f.domain[0]) & (patterns <= f.domain[1]), axis=0)
    return [*np.concatenate([patterns[:, inside], usual], axis=1)]


@pytest.mark.parametrize("f", FLOATS, ids=lambda f: f.name)
def test_special_values_follow_the_reference(f):
    low, high = f.domain
    args = grid(f, SPECIAL[~np.isfinite(SPECIAL) | ((low <= SPECIAL) & (high >= SPECIAL))])
    got, exact = results(f, Scalar.F32, args)
    if f.result is ResultKind.BOOL:
        assert np.array_equal(got, exact)
        return
    assert np.array_equal(np.isnan(got), np.isnan(exact))
    assert ulps(got, exact).max() <= f.ulp + 1e-6
    signed = (got == 0) if f.name not in ("min", "max") else np.zeros(got.shape, bool)
    assert np.array_equal(np.signbit(got[signed]), np.signbit(exact[signed]))


@pytest.mark.parametrize("f", [f for f in FLOATS if f.result is ResultKind.SAME], ids=lambda f: f.name)
def test_error_stays_within_the_stated_ulp(f):
    args = samples(f)
    got, exact = results(f, Scalar.F32, args)
    assert ulps(got, exact).max() <= f.ulp + 1e-6


def test_pow_keeps_its_error_over_the_full_range_of_results():
    rng = np.random.default_rng(7)
    near = rng.uniform(0.5, 2, 20000).astype(np.float32)
    x = np.concatenate([near, rng.integers(0, 0x7F800000, 20000).astype(np.int32).view(np.float32)])
    x = x[(x != 1) & (x != 0)]
    y = (rng.uniform(-151, 129, x.size) / np.log2(x.astype(np.float64))).astype(np.float32)
    got, exact = results(SCALARS["pow"], Scalar.F32, [x, y])
    assert ulps(got, exact).max() <= SCALARS["pow"].ulp


EXPONENTS = [
    1.7,
    -1.7,
    1 / 3,
    -1 / 3,
    0.5,
    -0.5,
    2.2,
    2.4,
    2.0,
    -2.0,
    3.0,
    -3.0,
    1.0,
    -1.0,
    1e-3,
    -2.7,
    1e-30,
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_pow_with_an_exponent_that_is_known(exponent):
    f, y = SCALARS["pow"], const(exponent, Scalar.F32)
    rng = np.random.default_rng(11)
    patterns = rng.integers(-(2**31), 2**31, 60000).astype(np.int32).view(np.float32)
    numbers = patterns[~np.isnan(patterns)]
    x = np.concatenate([SPECIAL, numbers, rng.uniform(0, 4, 60000).astype(np.float32)])
    source = load(Buffer("x", Scalar.F32, Space.INPUT, x.size), Sym("i", extent=x.size).dim)
    got = evaluate(f.expand(source, y), {"x": x}, {"i": np.arange(x.size)})
    with np.errstate(all="ignore"):
        exact = f.ref(x.astype(np.float64), float(np.float32(exponent)))
    assert ulps(got, exact).max() <= f.ulp
    assert np.array_equal(np.signbit(got[got == 0]), np.signbit(exact[got == 0]))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_big_angles_keep_22_bits(name):
    rng = np.random.default_rng(1)
    patterns = rng.integers(0x4F000000, 0x7F800000, 40000).astype(np.int32).view(np.float32)
    edges = np.float32([2.0**31, 2.0**31 + 256, 1.5 * 2.0**31, 1e10, 1e20, 16367173 * 2.0**72, 3.4028235e38])
    x = np.concatenate(
        [rng.uniform(-(2.0**31), 2.0**31, 20000).astype(np.float32), patterns, -patterns, edges]
    )
    got, exact = results(SCALARS[name], Scalar.F32, [x])
    slope = 1 + exact**2 if name == "tan" else np.ones(x.size)
    assert (np.abs(got - exact) / slope).max() <= 2.0**-22


@pytest.mark.parametrize("f", INTS, ids=lambda f: f.name)
@pytest.mark.parametrize("scalar", [Scalar.I32, Scalar.I64], ids=lambda s: s.value)
def test_integers_are_exact_and_wrap(f, scalar):
    limits = np.iinfo(DTYPES[scalar])
    rng = np.random.default_rng(3)
    edges = np.array([limits.min, limits.min + 1, -7, -2, -1, 0, 1, 2, 3, 7, limits.max], DTYPES[scalar])
    values = np.concatenate([edges, rng.integers(limits.min, limits.max, 20), rng.integers(-50, 50, 10)])
    got, exact = results(f, scalar, grid(f, values))
    assert got.dtype == exact.dtype
    assert np.array_equal(got, exact)


@pytest.mark.parametrize("f", BOOLS, ids=lambda f: f.name)
def test_bools_are_exact(f):
    got, exact = results(f, Scalar.BOOL, grid(f, np.array([False, True])))
    assert got.dtype == np.bool_
    assert np.array_equal(got, exact)


def test_integer_quotients_by_hand():
    a = np.array([7, -7, 7, -7, 5, -(2**31)])
    b = np.array([2, 2, -2, -2, 0, -1])
    assert results(SCALARS["div"], Scalar.I32, [a, b])[0].tolist() == [3, -3, -3, 3, 0, -(2**31)]
    assert results(SCALARS["floordiv"], Scalar.I32, [a, b])[0].tolist() == [3, -4, -4, 3, 0, -(2**31)]
    assert results(SCALARS["mod"], Scalar.I32, [a, b])[0].tolist() == [1, 1, -1, -1, 0, 0]


def test_shifts_by_hand():
    x, n = np.array([1, -1, 5, -(2**31), 3]), np.array([31, 28, 0, 31, 33])
    assert results(SCALARS["shift_left"], Scalar.I32, [x, n])[0].tolist() == [-(2**31), -(2**28), 5, 0, 6]
    assert results(SCALARS["shift_right"], Scalar.I32, [x, n])[0].tolist() == [0, 15, 5, 1, 1]
    assert results(SCALARS["bit_xor"], Scalar.I32, [x, n])[0].tolist() == [30, -29, 5, 31 - 2**31, 34]


@pytest.mark.parametrize("name", ["exp", "expm1", "tanh", "sinh", "cosh", "erf", "sigmoid"])
def test_nan_of_any_bits_stays_nan(name):
    x = np.int32([0x7FC00000, 0x7FC00001, 0x7FE12345, 0x7FFFFFFF, -1, -0x3FEDCB]).view(np.float32)
    got, _ = results(SCALARS[name], Scalar.F32, [x])
    assert np.isnan(got).all()
