"""Unique values as by NumPy's `unique`, composed of layers: a sort, a comparison of neighbours, and
the rest."""

import numpy as np
import pytest

import anyrt as trt

MIN, ELEMENT = trt.TopKOperation.MIN, trt.ScatterMode.ELEMENT
SUM, SUB = trt.ElementWiseOperation.SUM, trt.ElementWiseOperation.SUB
NAMES = ("values", "first", "inverse", "counts")


def unique(net, x):
    """Sorted unique values, their first indices, the inverse indices, and their counts."""

    def constant(array):
        return net.add_constant(array.shape, array).get_output(0)

    def both(a, b, op):
        return net.add_elementwise(a, b, op).get_output(0)

    def cast(a):
        return net.add_cast(a, trt.int32).get_output(0)

    n = x.shape[0]
    ranked = net.add_topk(x, MIN, -1, 1)
    ordered, places = ranked.get_output(0), ranked.get_output(1)
    before, behind = (net.add_slice(ordered, (k,), (n - 1,), (1,)).get_output(0) for k in (0, 1))
    same = both(before, behind, trt.ElementWiseOperation.EQUAL)
    new = net.add_unary(same, trt.UnaryOperation.NOT).get_output(0)
    is_first = net.add_concatenation([constant(np.array([True])), new]).get_output(0)
    at = net.add_squeeze(net.add_non_zero(is_first).get_output(0), constant(np.int32([0]))).get_output(0)
    axis = constant(np.array(0, np.int32))
    counted = net.add_cumulative(cast(is_first), axis, trt.CumulativeOperation.SUM, False, False)
    group = both(counted.get_output(0), constant(np.int32([1])), SUB)
    inverse = net.add_scatter(constant(np.zeros(n, np.int32)), places, group, ELEMENT).get_output(0)
    counts = net.add_scatter(both(at, at, SUB), group, constant(np.ones(n, np.int32)), ELEMENT)
    counts.reduction = trt.ReduceOperation.SUM
    values, first = (net.add_gather(v, at, 0).get_output(0) for v in (ordered, places))
    return values, first, inverse, counts.get_output(0)


@pytest.mark.parametrize("x", [[3, 1, 3, 3, 2, 1, -0.0, 0.0], [5] * 8, [8, 7, 6, 5, 4, 3, 2, 1]])
def test_unique_values_are_those_of_numpy(net, x):
    config = net.builder.create_builder_config()
    config.verify = "full"
    for name, tensor in zip(NAMES, unique(net, net.add_input("x", trt.float32, (8,))), strict=True):
        tensor.name = name
        net.mark_output(tensor)
    actual = net.builder.build_engine_with_config(net, config).run(x=np.float32(x))
    expected = np.unique(np.float32(x), return_index=True, return_inverse=True, return_counts=True)
    assert [actual[n].tolist() for n in NAMES] == [w.tolist() for w in expected]
