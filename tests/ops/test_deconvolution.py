"""Deconvolution over all of its attributes, and the split of its outputs into contractions."""

from itertools import product

import numpy as np
import pytest

from anyrt.core.enums import DataType, PaddingMode
from anyrt.core.enums import LayerType as L
from anyrt.ir.graph import Graph, walk
from anyrt.ir.interpret import interpret
from anyrt.ops import OPS
from anyrt.ops import _filters as filters
from anyrt.ops._cases import case_run, differences
from anyrt.ops._expand import expand_layer
from anyrt.ops._filters import FilterAttrs
from anyrt.ops._record import Layer
from anyrt.prims.build import param
from anyrt.prims.contract import Contract

INT8, FLOAT = DataType.INT8, DataType.FLOAT
STEPS = list(
    product((1, 3, 4), (1, 2, 3, 4), (1, 2, 3), ((0, 0), (2, 1)))
)  # sizes, strides, dilations, paddings


@pytest.mark.sampled(9)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("mode", PaddingMode)
def test_every_way_to_spread_kernels_agrees_with_the_reference(mode, groups, dynamic):
    for size, stride, dilation, padding in STEPS:
        attrs = FilterAttrs(
            *(4, (size, 2)),
            padding_mode=mode,
            pre_padding=(padding[0], 0),
            post_padding=(padding[1], 1),
            stride_nd=(stride, 2),
            dilation_nd=(dilation, 1),
            num_groups=groups,
        )
        run = case_run(OPS[L.DECONVOLUTION], filters.case((1, 4, 5, 2), attrs, bias=True), dynamic)
        assert differences(run, interpret(run.graph, run.feeds, run.sizes)) == [], attrs


@pytest.mark.sampled(9)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("mode", PaddingMode)
@pytest.mark.parametrize("size", [(18, 9), (27, 4), (1, 18)])
def test_many_residues_at_once_agree_with_the_reference(size, mode, dynamic):
    for before, after in ((0, 0), (1, 2), (9, 3), (11, 10)):
        attrs = FilterAttrs(
            *(2, size),
            padding_mode=mode,
            pre_padding=(before, 0),
            post_padding=(after, 1),
            stride_nd=(9, 9),
        )
        run = case_run(OPS[L.DECONVOLUTION], filters.case((1, 2, 4, 2), attrs, bias=True), dynamic)
        assert differences(run, interpret(run.graph, run.feeds, run.sizes)) == [], attrs


def expanded(attrs, x, **scales):
    """The output of a deconvolution."""
    return expand_layer(OPS[L.DECONVOLUTION], Layer("deconv", attrs, (x,)), **scales)[0]


@pytest.mark.parametrize(
    ("size", "stride", "dilation", "inside"),
    [
        ((3, 3), (2, 2), (1, 1), [1, 2, 2, 4]),  # the kernel's columns 0 and 2, and 1, along each axis
        ((2, 3), (2, 1), (1, 1), [6]),  # no overlap along the first axis: both residues at once
        ((4, 2), (2, 2), (1, 1), [8]),  # as many elements for each residue, at even distances
        ((3, 1), (1, 3), (1, 1), [3]),  # two of three residues meet no element
        ((2, 1), (4, 1), (2, 1), [1, 1]),
        ((18, 18), (9, 9), (1, 1), [324]),  # 81 residues would be too many pieces
    ],
)
def test_each_class_of_outputs_is_one_contraction_over_its_part_of_the_kernel(size, stride, dilation, inside):
    count = 3 * 2 * size[0] * size[1]
    attrs = FilterAttrs(2, size, filters.values(count), stride_nd=stride, dilation_nd=dilation)
    results = [
        v for v in walk([expanded(attrs, param("x", (1, 3, 5, 5), FLOAT))]) if isinstance(v.op, Contract)
    ]
    elements = sorted(int(np.prod(v.args[1].shape)) // (3 * 2) for v in results)
    assert elements == inside


def test_int8_multiplies_codes_of_a_kernel_with_127_steps_for_each_output_map():
    attrs = FilterAttrs(2, (1,), filters.weights(1.27, -25.4, 0.014, 0.1))
    x = param("x", (1, 2, 1), INT8)
    y = expanded(attrs, x, in_scales=(1.0,), out_type=FLOAT)
    (result,) = (v for v in walk([y]) if isinstance(v.op, Contract))
    (got,) = interpret(Graph((("x", x),), (("y", y),)), {"x": np.int8([[[100], [100]]])}).values()
    # Scales of 0.01 and of 0.2: codes 127 and 1, −127 and 0.
    assert got.reshape(-1) == pytest.approx([128, -2540])
    assert [result.dtype, *(v.dtype for v in result.args)] == [DataType.INT32, INT8, INT8]


def test_large_kernels_of_large_strides_are_one_contraction():
    attrs = FilterAttrs(1, (64, 64), filters.values(64 * 64), stride_nd=(32, 32), padding_nd=(16, 16))
    y = expanded(attrs, param("x", (1, 1, 7, 7), FLOAT))
    assert (y.shape, sum(isinstance(v.op, Contract) for v in walk([y]))) == ((1, 1, 224, 224), 1)
