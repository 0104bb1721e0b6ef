"""Normalisations written as separate layers give the outputs and the kernels of the layer."""

import re
from functools import partial

import numpy as np
import pytest

import anyrt as trt
from anyrt.cli.stages import Stages, choose_target
from anyrt.plan.file import read_plan
from tests.native import lower_plan

E, U, R = trt.ElementWiseOperation, trt.UnaryOperation, trt.ReduceOperation
TYPES = {trt.float32: np.float32, trt.float16: np.float16}
EXCESS = [trt.BuilderFlag.EXCESS_PRECISION]  # otherwise each layer rounds to half types
EPSILON = 2.0**-10  # the same number in every type


class Layers:
    """Layers of a network as functions of tensors and numbers."""

    def __init__(self, net):
        self.net = net

    def of(self, op, a, b):
        if isinstance(b, float):
            number = np.full((1,) * len(a.shape), b, TYPES[a.dtype])
            b = self.net.add_constant(number.shape, number).get_output(0)
        return self.net.add_elementwise(a, b, op).get_output(0)

    def unary(self, op, a):
        return self.net.add_unary(a, op).get_output(0)

    def mean(self, a, mask):
        return self.net.add_reduce(a, R.AVG, mask, True).get_output(0)


DIVISIONS = {
    "root": lambda n, d, v: n.of(E.DIV, d, n.unary(U.SQRT, v)),
    "power": lambda n, d, v: n.of(E.PROD, d, n.of(E.POW, v, -0.5)),
    "reciprocal": lambda n, d, v: n.of(E.PROD, d, n.unary(U.RECIP, n.unary(U.SQRT, v))),
}


def by_hand(net, x, gamma, beta, mask, divided):
    """(x − mean) / sqrt(variance + ε) · γ + β as separate layers."""
    n = Layers(net)
    d = n.of(E.SUB, x, n.mean(x, mask))
    variance = n.of(E.SUM, n.mean(n.of(E.POW, d, 2.0), mask), EPSILON)
    return n.of(E.SUM, n.of(E.PROD, divided(n, d, variance), gamma), beta)


def by_layer(net, x, gamma, beta, mask):
    layer = net.add_normalization_v2(x, gamma, beta, mask)
    layer.epsilon = EPSILON
    return layer.get_output(0)


CASES = {
    "rows": ((6, 77, 96), 0b100, (1, 1, 96), None),
    "open rows": ((-1, -1, 96), 0b100, (1, 1, 96), [(1, 1, 96), (6, 77, 96), (8, 100, 96)]),
    "one long row": ((1, 1, 20000), 0b100, (1, 1, 20000), None),
    "planes": ((2, 5, 9, 11), 0b1100, (1, 5, 1, 1), None),
    "open planes": ((-1, 5, -1, -1), 0b1100, (1, 5, 1, 1), [(1, 5, 1, 1), (2, 5, 9, 11), (4, 5, 64, 64)]),
    "columns": ((2, 128, 40), 0b010, (1, 1, 40), None),
}


def kernels(plan):
    """The text of the kernels without the names of layers."""
    text = Stages(lower_plan(read_plan(bytes(memoryview(plan)))), choose_target(None)).kernels()
    return re.sub(r'kernel "[^"]+"', "kernel", text)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("divided", DIVISIONS.values(), ids=DIVISIONS)
def test_a_normalisation_by_hand_has_the_kernels_and_numbers_of_the_layer(
    builder, plan_of, log, random, case, dtype, divided
):
    shape, mask, coefficients, profile = case
    gamma, beta = (random.uniform(-1, 1, coefficients).astype(TYPES[dtype]) for _ in range(2))
    plans = []
    for make in (by_layer, partial(by_hand, divided=divided)):
        net = builder.create_network()
        g, b = (net.add_constant(coefficients, a).get_output(0) for a in (gamma, beta))
        y = make(net, net.add_input("x", dtype, shape), g, b, mask)
        plans.append(plan_of(net, y, flags=EXCESS, **({"x": profile} if profile else {})))
    assert kernels(plans[1]) == kernels(plans[0])

    # Far from 0, the mean of squares minus the square of the mean would lose the digits of the variance.
    values = (random.standard_normal(profile[1] if profile else shape) + 50).astype(TYPES[dtype])
    actual = trt.Runtime(log).deserialize_cuda_engine(plans[1]).run(x=values)["y"]
    axes = tuple(k for k in range(values.ndim) if mask >> k & 1)
    off = values - values.mean(axes, np.float64, keepdims=True)
    want = off / np.sqrt(np.square(off).mean(axes, keepdims=True) + EPSILON) * gamma + beta
    np.testing.assert_allclose(actual, want, 2e-5 if dtype is trt.float32 else 2e-3, 3e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("divided", DIVISIONS.values(), ids=DIVISIONS)
def test_a_root_mean_square_with_a_power_has_the_kernels_of_one_with_a_product(
    builder, plan_of, dtype, divided
):
    plans = []
    for square in (lambda n, x: n.of(E.POW, x, 2.0), lambda n, x: n.of(E.PROD, x, x)):
        n = Layers(builder.create_network())
        x = n.net.add_input("x", dtype, (4, 33, 256))
        more = n.of(E.SUM, n.mean(square(n, x), 0b100), EPSILON)
        plans.append(plan_of(n.net, n.of(E.PROD, divided(n, x, more), 1.5)))
    assert kernels(plans[0]) == kernels(plans[1])
    assert "bitcast" not in kernels(plans[0])  # a power distinguishes floats with it
