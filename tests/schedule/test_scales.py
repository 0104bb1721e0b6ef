"""Kernels that differ only in scales and zero points load these and become one."""

import numpy as np
import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.enums import DataType
from anyrt.ir.buffer import Space
from anyrt.ir.graph import Graph
from anyrt.ir.statements import buffers_in_order
from anyrt.ops._quantized import codes, numbers
from anyrt.passes.fold_constants import fold_constants
from anyrt.passes.own_scales import own_scales
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import host

FLOAT, INT8 = DataType.FLOAT, DataType.INT8
SHAPE = (40, 70)


def number(x):
    return b.const(np.full((1, 1), x, np.float32), FLOAT)


def zero_point(x):
    return b.const(np.full((1, 1), x, np.int8), INT8)


def coded(x, scale, zero):
    return codes(b.map_("div", x, number(scale)), INT8, zero_point(zero))


def lowered(*outputs, inputs=3, dtype=FLOAT):
    """The kernels of outputs of x0, x1, …, each a function of one of these."""
    xs = [b.param(f"x{k}", SHAPE, dtype) for k in range(inputs)]
    ys = [(f"y{k}", make(x)) for k, (make, x) in enumerate(zip(outputs, xs, strict=True))]
    graph = own_scales(fold_constants(Graph(tuple((x.op.name, x) for x in xs), tuple(ys))))
    lowering = native.lower(graph, constant_offsets(graph), Sizes({}))
    assert verify(lowering, host(), [{}]) == ()
    return lowering


def loaded(lowering):
    """The number of kernels, and the number of constants that each of them loads."""
    kernels = lowering.module.distinct
    return [sum(x.space is Space.CONST for x in buffers_in_order(k)) for k in kernels]


def test_scales_and_zero_points_that_differ_are_loaded():
    kinds = [(0.1, 3), (0.25, -7), (0.037, 12)]
    assert loaded(lowered(*(lambda x, k=k: coded(x, *k) for k in kinds))) == [2]


def test_zero_points_that_are_alike_in_one_kernel_and_not_in_another_are_loaded():
    def both(x, first, second):
        q = numbers(coded(x, 0.1, first), zero_point(first))
        return coded(b.map_("mul", q, number(0.3)), 0.2, second)

    kinds = [(3, 3), (4, -7), (12, 12)]
    assert loaded(lowered(*(lambda x, k=k: both(x, *k) for k in kinds))) == [3]


def test_equal_numbers_stay_literals():
    assert loaded(lowered(*(lambda x, s=s: coded(x, s, 5) for s in (0.1, 0.2, 0.3)))) == [1]
    assert loaded(lowered(*[lambda x: coded(x, 0.1, 5)] * 3)) == [0]


def test_scales_of_dequantised_codes_are_loaded():
    def back(x, scale, zero):
        return b.map_("mul", numbers(x, zero_point(zero)), number(scale))

    kinds = [(0.1, 3), (0.25, -7), (0.037, 12)]
    assert loaded(lowered(*(lambda x, k=k: back(x, *k) for k in kinds), dtype=INT8)) == [2]


@pytest.mark.parametrize("scale", [2.0**-70, 2.0**70])
def test_a_scale_whose_quotients_are_no_products_stays_a_literal(scale):
    assert loaded(lowered(lambda x: coded(x, 0.1, 5), lambda x: coded(x, scale, 5), inputs=2)) == [0, 0]


def test_numbers_of_other_functions_stay_literals():
    def least(x, n):
        return b.map_("max", x, number(n))

    assert loaded(lowered(lambda x: least(x, 0.5), lambda x: least(x, 0.7), inputs=2)) == [0, 0]
