"""Layers in another precision: every case of every layer keeps its shapes and types, and products
stay close."""

from dataclasses import replace

import numpy as np
import pytest

from anyrt.compiler.precision import (
    PRODUCTS,
    fits_half,
    in_codes,
    in_type,
    is_faster,
    products,
    rounded,
    takes,
    takes_codes,
)
from anyrt.core.enums import DataType, LayerType, MatrixOperation
from anyrt.core.errors import AnyrtError
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph
from anyrt.ir.interpret import interpret
from anyrt.ops import ALL_OPS, OPS
from anyrt.ops._cases import dtype_of, operands
from anyrt.ops._expand import expand_layer
from anyrt.ops._record import ABSENT, Layer, weights
from anyrt.prims.build import const, param, transpose
from tests.sampling import sample

FLOAT, HALF, BF16 = DataType.FLOAT, DataType.HALF, DataType.BF16
NONE, TRANSPOSE, VECTOR = MatrixOperation
CASES = [(op, case) for op in ALL_OPS if not op.coded and op.title != "Cast" for case in op.cases()]


def layer_of(op, case, fixed=()):
    """The case's layer with operands as inputs, those in `fixed` as constants; and the feeds."""
    values, feeds = [], {}
    for i, array in enumerate(operands(op, case)):
        dtype, spec = dtype_of(case, i), op.operand(i)
        if array is ABSENT:
            values.append(None)
        elif spec.build_time or spec.shape_values or i in fixed:
            values.append(const(array, dtype))
        else:
            values.append(param(f"x{i}", array.shape, dtype))
            feeds[f"x{i}"] = interpret(Graph((), (("c", const(array, dtype)),)), {})["c"]
    return Layer("layer", case.attrs, tuple(values)), feeds


@pytest.mark.parametrize("dtype", [FLOAT, HALF, BF16])
def test_layers_keep_shapes_and_types_in_every_precision_that_they_take(dtype):
    tried = 0
    for op, case in sample(CASES, 8):
        layer, _ = layer_of(op, case)
        if not takes(op, layer, dtype):
            continue
        plain = expand_layer(op, layer)
        result = expand_layer(op, in_type(layer, dtype, rounds=True))
        assert [v.shape for v in result] == [v.shape for v in plain], case
        assert {v.dtype for v in map(rounded, result)} <= {v.dtype for v in plain} | {dtype}, case
        tried += 1
    assert tried > 50


@pytest.mark.parametrize("op", [op for op in ALL_OPS if op.attrs in PRODUCTS], ids=lambda op: op.title)
def test_products_of_codes_are_near_those_of_numbers(op):
    tried = 0
    for case in op.cases():
        layer, feeds = layer_of(op, case, fixed=(1,))
        at = takes_codes(layer)
        if at is None or any(d == 0 for v in layer.inputs if v for d in v.shape):
            continue
        steps = tuple(0.02 if i == at else 1.0 for i in range(len(layer.inputs)))
        ends = tuple((f"x{i}", v) for i, v in enumerate(layer.inputs) if f"x{i}" in feeds)
        y, coded = expand_layer(op, layer)[0], expand_layer(op, in_codes(layer, 0.02), steps, None, FLOAT)[0]
        result = interpret(Graph(ends, (("y", y), ("coded", coded))), feeds)
        assert np.abs(result["coded"] - result["y"]).max() <= 0.06 * np.abs(result["y"]).max()
        tried += 1
    assert tried


def product(left, right, ops=(NONE, NONE)):
    attrs = OPS[LayerType.MATRIX_MULTIPLY].attrs(*ops)
    return Layer("layer", attrs, (left, right))


def test_a_constant_that_was_moved_is_one():
    x, w = param("x", (2, 3), FLOAT), const(np.arange(12).reshape(4, 3), FLOAT)
    assert takes_codes(product(x, transpose(w, (1, 0)))) == 0
    assert takes_codes(product(w, transpose(x, (1, 0)))) == 1
    assert takes_codes(product(x, param("y", (3, 4), FLOAT))) is None
    assert takes_codes(product(const(np.ones((2, 3)), FLOAT), transpose(w, (1, 0)))) is None


@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_weights_that_are_not_finite_are_no_codes(wrong):
    w = const(np.float32([[1, wrong]]), FLOAT)
    assert takes_codes(product(param("x", (3, 1), FLOAT), w)) is None


def test_float16_holds_weights_and_ranges_or_not():
    conv = OPS[LayerType.CONVOLUTION].attrs(1, (1,), weights(65000.0))
    x = param("x", (1, 1, 4), FLOAT)
    assert fits_half(Layer("layer", conv, (x,)), None)
    assert not fits_half(Layer("layer", conv, (x,)), 70000.0)
    large = OPS[LayerType.CONVOLUTION].attrs(1, (1,), weights(66000.0))
    assert not fits_half(Layer("layer", large, (x,)), 1.0)


@pytest.mark.parametrize(
    ("left", "right", "ops", "count"),
    [((5, 3), (3, 4), (NONE, NONE), 60), ((5, 3), (4, 3), (NONE, TRANSPOSE), 60),
     ((2, 3, 5), (2, 3, 4), (TRANSPOSE, NONE), 120), ((5, 3), (3,), (NONE, VECTOR), 15)],
)  # fmt: skip
def test_products_of_matrices_are_counted(left, right, ops, count):
    assert products(product(param("x", left, FLOAT), param("y", right, FLOAT), ops)) == count


def test_products_of_windows_are_counted_and_a_few_channels_in_groups_stay_float32():
    x, tiles = param("x", (2, 16, 100, 100), FLOAT), replace(REFERENCE, has_tiles=True)
    for groups, fits in ((1, True), (4, False), (16, True)):
        conv = OPS[LayerType.CONVOLUTION].attrs(
            16, (3, 3), weights(*[1] * (2304 // groups)), num_groups=groups
        )
        layer = Layer("layer", conv, (x,))
        assert products(layer) == 20000 * 2304 // groups
        assert (is_faster(HALF, tiles, layer), is_faster(BF16, tiles, layer)) == (fits, True)


def test_mistakes_of_layers_are_reported_as_without_a_precision():
    layer = product(param("x", (2, 3), FLOAT), param("y", (2, 3), FLOAT))
    with pytest.raises(AnyrtError, match="AR130"):
        expand_layer(OPS[LayerType.MATRIX_MULTIPLY], in_type(layer, HALF, rounds=False))
