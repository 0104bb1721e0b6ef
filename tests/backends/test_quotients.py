"""Quotients by a constant become products if these round to the same number."""

import numpy as np
import pytest

from anyrt.backends.cpu.quotients import replacement
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.evaluate import evaluate
from anyrt.ir.kernel import cast, const, load, select

X = load(Buffer("x", DataType.FLOAT, Space.INPUT, 1), 0)
NUMBERS = 1 << 16
I = Sym("i", extent=NUMBERS)  # noqa: E741 - a loop variable
WHOLE = load(Buffer("n", DataType.INT32, Space.INPUT, NUMBERS), I.dim)
N = cast(WHOLE, Scalar.F32)
HARD = [1 - 2.0**-24, 2 - 2.0**-23, 1 - 3 * 2.0**-24, 1 + 2.0**-23]  # with the least exact reciprocals
ORDINARY = [1.0, 3.0, 7.0, 0.1, 1.0408203601837158, 6e-5, 123456.0]


@pytest.mark.parametrize("divisor", [float(np.float32(d)) for d in HARD + ORDINARY])
def test_products_round_like_the_quotient(divisor):
    numbers = np.random.default_rng(0).integers(-(2**31), 2**31, NUMBERS).astype(np.int32)
    numbers[::2] >>= 20
    numbers[:6] = 0, 1, 3, 2**31 - 1, -(2**31), 2**24 + 1
    actual = replacement(N * 2.0**-12 / divisor)
    result = evaluate(actual, {"n": numbers}, {"i": np.arange(NUMBERS)})
    expected = numbers.astype(np.float32) * np.float32(2.0**-12) / np.float32(divisor)
    assert np.array_equal(result.view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize(
    "quotient",
    [
        X / 3.0,  # may be infinite, or a negative zero
        select(X < 1.0, X, 1.0) / 3.0,
        N / X,
        N / -3.0,
        N / 2.0**-21,
        N * -2.0 / 3.0,  # of 0, a negative zero
        N * 2.0**-41 / 3.0,
        select(WHOLE < 0, N, -0.0) / 3.0,
        N * 3.0,
    ],
)
def test_other_quotients_stay(quotient):
    assert replacement(quotient) is None


def test_sums_that_a_rectifier_limits_are_known():
    assert replacement(select(const(0.0, Scalar.F32) < N, N, 0.0) / 3.0) is not None
