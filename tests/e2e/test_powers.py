"""Powers with constant exponents, which become products, roots and quotients, at special values."""

import numpy as np
import pytest

import anyrt as trt

TYPES = {trt.float32: np.float32, trt.float16: np.float16}
EXPONENTS = (2.0, 3.0, 0.5, -0.5, -1.0, 1.0, 0.0)
# Zeros, infinities, NaN, subnormals, bases with normal, subnormal, zero and infinite powers, and bases below
# 0.
SPECIAL = [0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-40, 2.0**-126, 1e-19, -1e-20, 1e-14]
SPECIAL += [1, -1, 2, -3, 0.5, 6e-8, 250, -250, 7e12, 1.8e19, -2e37, 3.4e38]


def assert_close(got, exact, units):
    """Within `units` in the last place, and the same NaN, infinities and signs of 0."""
    with np.errstate(all="ignore"):
        want = exact.astype(got.dtype)
        step = np.spacing(np.abs(want)).astype(np.float64)
        near = np.abs(got.astype(np.float64) - exact) <= units * step
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    assert np.all(same | near), (got[~(same | near)], want[~(same | near)])
    assert np.array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("open_sizes", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("dtype", TYPES)
def test_powers_of_special_values_are_those_of_ieee_754(net, engine_of, dtype, open_sizes):
    with np.errstate(all="ignore"):
        base = np.array(SPECIAL, TYPES[dtype]).reshape(1, 2, 3, 4)
    x = net.add_input("x", dtype, (-1, 2, -1, 4) if open_sizes else base.shape)
    outputs = []
    for exponent in EXPONENTS:
        for shape in ((1, 1, 1, 1), (1, 2, 1, 4)):
            numbers = net.add_constant(shape, np.full(shape, exponent, TYPES[dtype])).get_output(0)
            outputs.append(net.add_elementwise(x, numbers, trt.ElementWiseOperation.POW))
        outputs.append(net.add_scale(x, trt.ScaleMode.CHANNEL, power=np.full(2, exponent, np.float32)))
    sizes = {"x": [(0, 2, 1, 4), base.shape, (2, 2, 5, 4)]} if open_sizes else {}
    result = engine_of(net, *(layer.get_output(0) for layer in outputs), **sizes).run(x=base)
    for number, got in enumerate(result.values()):
        with np.errstate(all="ignore"):
            assert_close(got, np.float_power(base.astype(np.float64), EXPONENTS[number // 3]), 1.5)
