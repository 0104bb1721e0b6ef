"""Rounded and clamped quotients become products plus sums if these give the same codes."""

import numpy as np
import pytest

from anyrt.backends.cpu.codes import is_step, replacement
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.evaluate import evaluate
from anyrt.ir.kernel import Alu, Op, alu, cast, const, free_symbols, load, select
from anyrt.ir.visit import parts

NUMBERS = 1 << 18
I = Sym("i", extent=NUMBERS)  # noqa: E741 - a loop variable
X = load(Buffer("x", DataType.FLOAT, Space.INPUT, NUMBERS), I.dim)
HARD = [1 - 2.0**-24, 2 - 2.0**-23, 1 - 3 * 2.0**-24, 1 + 2.0**-23]  # with the least exact reciprocals
DIVISORS = [*HARD, 1.0, 3.0, 7.0, 0.1, 0.011529187671840191, 6e-5, 123456.0, 2.0**-40]


def kept(rounded, low=-128.0, high=127.0):
    least = select(const(low, Scalar.F32) < rounded, rounded, low)
    return select(least < high, least, high)


def number(zero, divisor):
    rounded = alu(Op.RINT, X / divisor if divisor != 0 else X)
    return kept(rounded + float(zero) if zero else rounded)


def numbers(divisor, zero):
    """Numbers around each step and of every magnitude: infinities, NaN, zeros of both signs, subnormals."""
    drawn = np.random.default_rng(0).integers(0, 1 << 32, NUMBERS, np.uint32).view(np.float32)
    steps = ((np.arange(-300, 300) + 0.5) * (divisor or 1.0)).astype(np.float32).view(np.int32)
    around = (steps[:, None] + np.arange(-150, 150)).astype(np.int32).view(np.float32).reshape(-1)
    special = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, -3.4e38, 1.0, -zero])
    return np.concatenate([special, around, drawn])[:NUMBERS]


@pytest.mark.parametrize("zero", [0, -128, 3, 127])
@pytest.mark.parametrize("divisor", [*(float(np.float32(d)) for d in DIVISORS), 0.0])
def test_codes_are_those_of_the_quotient(divisor, zero):
    whole = cast(number(zero, divisor), Scalar.I32)
    back = cast(whole, Scalar.F32) - float(zero)
    for x in (cast(whole, Scalar.I8), whole, cast(whole, Scalar.F32), back):
        memory, at = {"x": numbers(divisor, zero)}, {"i": np.arange(NUMBERS)}
        actual = replacement(x, has_fma=True)
        result, expected = evaluate(actual, memory, at), evaluate(x, memory, at)
        assert np.array_equal(result.view(np.uint8), expected.view(np.uint8))  # including the signs of zeros


STEP, ZERO = (load(Buffer(n, DataType.FLOAT, Space.CONST, coded=True), 0) for n in ("step", "zero"))


@pytest.mark.parametrize("zero", [0, -128, 3, 127])
@pytest.mark.parametrize("divisor", [float(np.float32(d)) for d in DIVISORS if is_step(float(np.float32(d)))])
def test_codes_by_numbers_that_are_loaded_have_the_bits_of_those_by_literals(divisor, zero):
    def codes(step, zero):
        whole = cast(kept(alu(Op.RINT, X / step) + zero), Scalar.I32)
        return cast(whole, Scalar.I8), whole, cast(whole, Scalar.F32), cast(whole, Scalar.F32) - zero

    memory = {"x": numbers(divisor, zero), "step": np.float32([divisor]), "zero": np.float32([zero])}
    at = {"i": np.arange(NUMBERS)}
    for loaded, literal in zip(codes(STEP, ZERO), codes(divisor, float(zero)), strict=True):
        actual = evaluate(replacement(loaded, has_fma=True), memory, at)
        expected = evaluate(literal, memory, at)
        assert np.array_equal(actual.view(np.uint8), expected.view(np.uint8))


def test_a_number_that_is_loaded_is_divided_by_before_all_loops():
    result = replacement(cast(cast(kept(alu(Op.RINT, X / STEP) + ZERO), Scalar.I32), Scalar.I8), has_fma=True)
    quotients = [p for p in parts([result]) if isinstance(p, Alu) and p.op is Op.DIV]
    assert quotients
    assert all(not free_symbols(q) for q in quotients)


def test_a_step_whose_products_round_otherwise_is_not_loaded():
    assert is_step(float(np.float32(0.1)))
    assert not is_step(2.0**-70)


def test_no_quotient_is_left():
    assert "div" not in repr(replacement(cast(cast(number(-128, 0.1), Scalar.I32), Scalar.I8), has_fma=True))


@pytest.mark.parametrize(
    "x",
    [
        cast(kept(alu(Op.FLOOR, X)), Scalar.I32),
        cast(kept(alu(Op.RINT, X), high=1e9), Scalar.I32),  # a sum could not represent it
        cast(kept(alu(Op.RINT, X) + 0.5), Scalar.I32),
        cast(select(alu(Op.RINT, X) < 127.0, alu(Op.RINT, X), 127.0), Scalar.I32),  # any number below
        cast(cast(kept(alu(Op.RINT, X), high=200.0), Scalar.I32), Scalar.I8),  # wraps around
    ],
)
def test_all_else_stays(x):
    assert replacement(x, has_fma=True) is None


def test_a_quotient_whose_products_may_lose_digits_is_limited_and_stays():
    x = cast(number(0, 2.0**-70), Scalar.I32)
    assert "div" in repr(replacement(x, has_fma=True))


def test_without_products_that_are_rounded_once_the_quotient_stays():
    assert "div" in repr(replacement(cast(number(0, 3.0), Scalar.I32), has_fma=False))
