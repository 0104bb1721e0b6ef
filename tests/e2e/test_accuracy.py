"""Sums of many terms: rounding errors must not accumulate."""

import numpy as np
import pytest

import anyrt as trt

MANY = 300_000
TERM = np.float32(0.1)  # equal terms are all rounded in the same direction


@pytest.mark.parametrize("open_sizes", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("shape", [(MANY, 3), (1, MANY), (3, MANY // 3, 2)], ids=["columns", "row", "planes"])
def test_averages_of_many_elements_keep_their_digits(shape, open_sizes, net, engine_of):
    x = net.add_input("x", trt.float32, (-1,) * len(shape) if open_sizes else shape)
    mask = 0b11 if len(shape) == 3 else 1 << int(np.argmax(shape))
    y = net.add_reduce(x, trt.ReduceOperation.AVG, mask, False).get_output(0)
    sizes = {"x": [(1,) * len(shape), (1,) * len(shape), shape]} if open_sizes else {}
    got = engine_of(net, y, **sizes).run(x=np.full(shape, TERM))["y"]
    assert np.abs(got / np.float64(TERM) - 1).max() < 2e-5
