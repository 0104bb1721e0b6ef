"""Convolution over all of its attributes, weights as int8, and errors at run time, which cases cannot
express."""

from itertools import product

import numpy as np
import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType, PaddingMode
from anyrt.core.enums import LayerType as L
from anyrt.core.errors import AnyrtError
from anyrt.ir.graph import Graph, walk
from anyrt.ir.interpret import interpret
from anyrt.ops import OPS
from anyrt.ops import _filters as filters
from anyrt.ops._cases import case_run, differences
from anyrt.ops._expand import expand_layer
from anyrt.ops._filters import FilterAttrs
from anyrt.ops._record import Layer, weights
from anyrt.prims.build import param
from anyrt.prims.contract import Contract

INT8, FLOAT = DataType.INT8, DataType.FLOAT
STEPS = list(product((1, 2, 3), (1, 2), ((0, 0), (1, 2), (3, 0))))  # strides, dilations, paddings of two axes


@pytest.mark.sampled(9)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("mode", PaddingMode)
def test_every_way_to_lay_windows_agrees_with_the_reference(mode, groups, dynamic):
    for stride, dilation, padding in STEPS:
        attrs = FilterAttrs(
            *(6, (3, 2)),
            padding_mode=mode,
            pre_padding=padding,
            post_padding=padding[::-1],
            stride_nd=(stride, 1),
            dilation_nd=(1, dilation),
            num_groups=groups,
        )
        run = case_run(OPS[L.CONVOLUTION], filters.case((2, 6, 7, 5), attrs), dynamic)
        assert differences(run, interpret(run.graph, run.feeds, run.sizes)) == [], attrs


def expanded(attrs, *operands, **scales):
    """The output of a convolution of these operands."""
    return expand_layer(OPS[L.CONVOLUTION], Layer("conv", attrs, operands), **scales)[0]


def contraction(y):
    (result,) = (v for v in walk([y]) if isinstance(v.op, Contract))
    return result


def test_a_kernel_is_the_right_operand_in_its_own_order():
    attrs = FilterAttrs(4, (3, 3), filters.values(4 * 6 * 9))
    (right,) = contraction(expanded(attrs, param("x", (1, 6, 5, 5), FLOAT))).args[1:]
    assert (right.op.blob, right.shape) == (attrs.kernel, (4, 6, 3, 3))


def test_groups_are_a_batch_of_the_contraction():
    attrs = FilterAttrs(4, (1,), filters.values(12), num_groups=2)
    result = contraction(expanded(attrs, param("x", (3, 6, 5), FLOAT)))
    assert (result.shape, result.args[0].shape, result.args[1].shape) == (
        (3, 2, 2, 5),
        (3, 2, 3, 5, 1),
        (2, 2, 3, 1),
    )


def test_float_weights_of_a_half_input_are_rounded_to_half():
    attrs = FilterAttrs(1, (1,), weights(1 + 2.0**-12), weights(2.0**-12))
    x = param("x", (1, 1, 1), DataType.HALF)
    y = expanded(attrs, x)
    (got,) = interpret(Graph((("x", x),), (("y", y),)), {"x": np.float16([[[1]]])}).values()
    assert contraction(y).args[1].dtype is DataType.HALF
    # The parts of kernel and bias are both lost: 1 + 2^-12 is 1 as half, before and after the sum.
    assert got.item() == 1


def test_a_bias_is_added_before_sums_of_halves_are_rounded():
    attrs = FilterAttrs(1, (1,), weights(1.0, 1.0), weights(-2048.0))
    x = param("x", (1, 2, 1), DataType.HALF)
    y = expanded(attrs, x)
    (got,) = interpret(Graph((("x", x),), (("y", y),)), {"x": np.float16([[[2048], [1]]])}).values()
    assert got.item() == 1  # half cannot represent 2049


def test_float_weights_of_int8_have_127_steps_for_each_output_map():
    attrs = FilterAttrs(2, (1,), weights(1.27, 0.014, -25.4, 0.1))
    x = param("x", (1, 2, 1), INT8)
    y = expanded(attrs, x, in_scales=(1.0,), out_type=FLOAT)
    (got,) = interpret(Graph((("x", x),), (("y", y),)), {"x": np.int8([[[100], [100]]])}).values()
    # Scales of 0.01 and of 0.2: codes 127 and 1, −127 and 0.
    assert got.reshape(-1) == pytest.approx([128, -2540])


def test_int8_multiplies_codes():
    attrs = FilterAttrs(4, (3, 3), filters.values(4 * 6 * 9))
    result = contraction(expanded(attrs, param("x", (1, 6, 5, 5), INT8), in_scales=(0.1,)))
    assert [result.dtype, *(v.dtype for v in result.args)] == [DataType.INT32, INT8, INT8]


def test_sums_that_int32_does_not_hold_are_float():
    attrs = FilterAttrs(1, (1,), weights(*[127.0] * 140_000))
    x = param("x", (1, 140_000, 1), INT8)
    y = expanded(attrs, x, in_scales=(1.0,), out_type=FLOAT)
    (got,) = interpret(Graph((("x", x),), (("y", y),)), {"x": np.full(x.shape, 127, np.int8)}).values()
    assert got.item() == pytest.approx(127**2 * 140_000, rel=1e-5)


def test_channels_of_an_open_size_are_rejected():
    attrs = FilterAttrs(1, (1,), filters.values(2))
    with pytest.raises(AnyrtError, match=r"\[AR117\] conv"):
        expanded(attrs, param("x", (1, Sym("x.1").dim, 4), FLOAT))
