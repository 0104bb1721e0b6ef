"""The documented limits of DLA."""

import math
from dataclasses import replace

import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import (
    ActivationType,
    DataType,
    ElementWiseOperation,
    InterpolationMode,
    MatrixOperation,
    PaddingMode,
    PoolingType,
    ReduceOperation,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    ResizeSelector,
    ScaleMode,
    UnaryOperation,
)
from anyrt.core.enums import LayerType as L
from anyrt.ops import OPS
from anyrt.ops._expand import DLA_TYPES, dla_reason
from anyrt.ops._filters import FilterAttrs
from anyrt.ops._record import Layer, weights
from anyrt.prims.build import const, param

NEAREST, LINEAR, CUBIC = InterpolationMode
ALIGN, ASYM, HALF = ResizeCoordinateTransformation
FORMULA, UPPER = ResizeSelector
UP, DOWN, FLOOR, CEIL = ResizeRoundMode
NCHW = (1, 8, 4, 4)
MAX = PoolingType.MAX


def reason(kind, attrs, shapes=(NCHW,), dtype=DataType.HALF, types=DLA_TYPES):
    inputs = tuple(param(f"x{i}", s, dtype) for i, s in enumerate(shapes))
    return dla_reason(OPS[kind], Layer("layer", OPS[kind].attrs(*attrs), inputs), types)


@pytest.mark.parametrize("dtype", [DataType.HALF, DataType.INT8])
@pytest.mark.parametrize("mode", ScaleMode)
def test_scale_without_power_runs(mode, dtype):
    assert reason(L.SCALE, (mode,), dtype=dtype) is None


def test_scale_with_a_power_does_not_run():
    assert "power" in reason(L.SCALE, (ScaleMode.UNIFORM, weights(), weights(), weights(2.0)))
    assert reason(L.SCALE, (ScaleMode.UNIFORM, weights(), weights(), weights(1.0))) is None


def test_types_and_sizes_common_to_all_layers():
    scale = (ScaleMode.UNIFORM,)
    assert "float16 and int8" in reason(L.SCALE, scale, dtype=DataType.FLOAT)
    assert reason(L.SCALE, scale, dtype=DataType.FLOAT, types=DLA_TYPES | {DataType.FLOAT}) is None
    assert reason(L.SCALE, scale, ((4096, 8192, 1, 1),)) is None
    assert "4096" in reason(L.SCALE, scale, ((4097, 8, 1, 1),))
    assert "8192" in reason(L.SCALE, scale, ((1, 8, 1, 8193),))
    assert "dynamic" in reason(L.SCALE, scale, ((Sym("n").dim, 8, 1, 1),))


@pytest.mark.parametrize(
    ("attrs", "runs"),
    [
        ((NEAREST, None, (1, 1, 2, 32), ASYM, FORMULA, FLOOR), True),
        ((NEAREST, None, (1, 1, 2, 2), HALF, FORMULA, DOWN), True),
        ((NEAREST, None, (1, 1, 2, 2), HALF, FORMULA, UP), True),
        ((NEAREST, None, (1, 1, 2, 2), ASYM, FORMULA, CEIL), False),
        ((NEAREST, None, (1, 1, 2, 2), ASYM, UPPER, FLOOR), False),
        ((NEAREST, None, (1, 1, 2, 33), ASYM, FORMULA, FLOOR), False),
        ((NEAREST, None, (1, 2, 2, 2), ASYM, FORMULA, FLOOR), False),
        ((NEAREST, None, (1, 1, 1.5, 2), ASYM, FORMULA, FLOOR), False),
        ((NEAREST, (1, 8, 8, 8), (), ASYM, FORMULA, FLOOR), False),
        ((LINEAR, None, (1, 1, 4, 4), HALF, FORMULA), True),
        ((LINEAR, None, (1, 1, 4, 4), HALF, UPPER), True),
        ((LINEAR, None, (1, 1, 5, 4), HALF, FORMULA), False),
        ((LINEAR, None, (1, 1, 4, 4), ALIGN, FORMULA), False),
        ((CUBIC, None, (1, 1, 2, 2), HALF, FORMULA), False),
    ],
)
def test_resize_runs_in_documented_combinations_only(attrs, runs):
    assert (reason(L.RESIZE, attrs) is None) == runs


def test_activation_list():
    run = {t for t in ActivationType if reason(L.ACTIVATION, (t,)) is None}
    listed = {"RELU", "SIGMOID", "TANH", "LEAKY_RELU", "CLIP"}
    assert {t.name for t in run} == listed
    assert reason(L.ACTIVATION, (ActivationType.CLIP, 0.0, 128.0)) is not None
    assert reason(L.ACTIVATION, (ActivationType.CLIP, 1.0, 2.0)) is not None


def test_elementwise_list():
    pair = (NCHW, NCHW)
    plain = {op.name for op in ElementWiseOperation if op.name not in {"AND", "OR", "XOR"}
             and reason(L.ELEMENTWISE, (op,), pair) is None}  # fmt: skip
    assert plain == {"SUM", "SUB", "PROD", "MAX", "MIN", "DIV"}
    assert reason(L.ELEMENTWISE, (ElementWiseOperation.SUM,), ((8, 4), (8, 4))) is not None


def test_power_takes_exactly_one_constant():
    two = const([[[[2.0]]]], DataType.HALF)
    attrs = OPS[L.ELEMENTWISE].attrs(ElementWiseOperation.POW)
    x = param("x", NCHW, DataType.HALF)
    op = OPS[L.ELEMENTWISE]
    assert dla_reason(op, Layer("layer", attrs, (x, two))) is None
    assert dla_reason(op, Layer("layer", attrs, (x, x))) is not None


def test_lrn_runs_with_windows_of_3_to_9():
    run = [w for w in range(1, 16, 2) if reason(L.LRN, (w, 1.0, 1.0, 1.0)) is None]
    assert run == [3, 5, 7, 9]


def test_parametric_relu_takes_constant_slopes():
    op, x, slopes = OPS[L.PARAMETRIC_RELU], param("x", NCHW, DataType.HALF), const([[[[2.0]]]], DataType.HALF)
    assert dla_reason(op, Layer("layer", op.attrs(), (x, slopes))) is None
    assert "constant slopes" in reason(L.PARAMETRIC_RELU, (), (NCHW, NCHW))


@pytest.mark.parametrize(
    ("attrs", "runs"),
    [
        ((MAX, (8, 1), (16, 1)), True),
        ((PoolingType.AVERAGE, (2, 2), None, PaddingMode.SAME_UPPER), True),
        ((MAX, (1, 1), None, PaddingMode.EXPLICIT_ROUND_DOWN, (7, 7), (7, 7)), True),
        ((MAX, (1, 1), None, PaddingMode.EXPLICIT_ROUND_DOWN, (8, 0)), False),
        ((MAX, (9, 1)), False),
        ((MAX, (1, 1), (17, 1)), False),
        ((MAX, (1, 1, 1)), False),
        ((PoolingType.MAX_AVERAGE_BLEND, (2, 2)), False),
    ],
)
def test_pooling_runs_within_documented_sizes(attrs, runs):
    assert (reason(L.POOLING, attrs, ((1, 8, 16, 16),)) is None) == runs


def test_reduce_unary_concatenation_and_the_rest():
    assert reason(L.REDUCE, (ReduceOperation.MAX, 0b1110, True)) is None
    assert reason(L.REDUCE, (ReduceOperation.MAX, 0b1, True)) is not None
    assert reason(L.REDUCE, (ReduceOperation.SUM, 0b10, True)) is not None
    assert reason(L.UNARY, (UnaryOperation.ABS,)) is None
    assert reason(L.UNARY, (UnaryOperation.EXP,)) is not None
    assert reason(L.CONCATENATION, (), (NCHW, NCHW)) is None
    assert reason(L.CONCATENATION, (2,), (NCHW, NCHW)) is not None
    assert reason(L.CONCATENATION, (), (NCHW,)) is not None
    assert "does not run this layer" in reason(L.SHUFFLE, ())


def test_slice_keeps_the_batch_and_the_stride():
    assert reason(L.SLICE, ((0, 0, 1, 1), (1, 8, 2, 2), (1, 1, 1, 1))) is None
    assert reason(L.SLICE, ((0, 0, 0, 0), (1, 8, 2, 2), (1, 1, 2, 2))) is not None
    assert reason(L.SLICE, ((0, 0, 1, 1), (1, 8, 2, 2), (1, 1, 1, 1)), dtype=DataType.INT8) is not None
    assert reason(L.SLICE, ((1, 0, 0, 0), (1, 8, 4, 4), (1, 1, 1, 1)), ((2, 8, 4, 4),)) is not None


@pytest.mark.parametrize(
    ("mask", "shape", "runs"),
    [
        (None, NCHW, True),
        (0b1000, NCHW, True),
        (0b0001, NCHW, False),
        (None, (8, 4), False),
        (None, (1, 8192, 1, 1), True),
        (None, (2, 1024, 2, 1), True),
        (None, (2, 1025, 2, 1), False),
    ],
)
def test_softmax_runs_along_documented_axes_and_sizes(mask, shape, runs):
    assert (reason(L.SOFTMAX, (mask,), (shape,)) is None) == runs


def test_products_do_not_run():
    plain = (MatrixOperation.NONE, MatrixOperation.NONE)
    assert "does not run this layer" in reason(L.MATRIX_MULTIPLY, plain, ((2, 2), (2, 2)))
    assert "does not run this layer" in reason(L.EINSUM, ("ij,jk->ik",), ((2, 2), (2, 2)))


CONV = {"num_output_maps": 4, "kernel_size_nd": (3, 3)}


def filtered(kind, groups=1, **attrs):
    """The reason why DLA does not support a convolution of 8 channels; None if it does."""
    values = FilterAttrs(**{**CONV, "num_groups": groups, **attrs})
    count = values.num_output_maps * 8 // groups * math.prod(values.kernel_size_nd)
    values = replace(values, kernel=weights(*[1.0] * count, dtype=DataType.HALF))
    shape = (1, 8, *(4 for _ in values.kernel_size_nd))
    return dla_reason(OPS[kind], Layer("layer", values, (param("x", shape, DataType.HALF),)))


@pytest.mark.parametrize(
    ("attrs", "why"),
    [
        ({}, None),
        ({"groups": 4, "stride_nd": (8, 1), "dilation_nd": (2, 2), "padding_nd": (2, 2)}, None),
        ({"stride_nd": (9, 1)}, "strides from 1 to 8"),
        ({"padding_nd": (3, 0)}, "smaller than the kernel"),
        ({"kernel_size_nd": (33, 1), "padding_nd": (16, 0)}, "kernel sizes from 1 to 32"),
        ({"dilation_nd": (33, 1), "padding_mode": PaddingMode.SAME_UPPER}, "dilations from 1 to 32"),
        ({"num_output_maps": 8193, "kernel_size_nd": (1, 1)}, "output maps from 1 to 8192"),
        ({"kernel_size_nd": (3,)}, "2 spatial axes"),
    ],
)
def test_convolution_runs_within_its_limits(attrs, why):
    result = filtered(L.CONVOLUTION, **attrs)
    assert result is None if why is None else why in result


@pytest.mark.parametrize(
    ("attrs", "why"),
    [
        ({"stride_nd": (32, 1)}, None),
        ({"kernel_size_nd": (64, 1), "stride_nd": (1, 128)}, None),
        ({"kernel_size_nd": (64, 64)}, "kernel sizes to 32, or 64"),
        ({"stride_nd": (33, 1)}, "strides to 32, or 64"),
        ({"groups": 2}, "groups from 1 to 1"),
        ({"dilation_nd": (2, 1)}, "dilations from 1 to 1"),
        ({"padding_nd": (1, 0)}, "paddings from 0 to 0"),
    ],
)
def test_deconvolution_runs_within_its_limits(attrs, why):
    result = filtered(L.DECONVOLUTION, **attrs)
    assert result is None if why is None else why in result


@pytest.mark.parametrize("kind", [L.CONVOLUTION, L.DECONVOLUTION])
def test_kernels_that_are_inputs_do_not_run(kind):
    inputs = tuple(param(n, s, DataType.HALF) for n, s in (("x", NCHW), ("w", (8, 8, 3, 3))))
    assert "as weights" in dla_reason(OPS[kind], Layer("layer", FilterAttrs(8, (3, 3)), inputs))
