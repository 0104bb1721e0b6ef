"""Layers that multiply: int8 products, broadcast operands, and batches."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType, MatrixOperation
from anyrt.core.enums import LayerType as L
from anyrt.core.errors import AnyrtError
from anyrt.ir.graph import Graph, walk
from anyrt.ir.interpret import interpret
from anyrt.ops import OPS, REMOVED
from anyrt.ops._cases import case_run, differences
from anyrt.ops._expand import expand_layer
from anyrt.ops._record import Case, Layer, weights
from anyrt.prims.build import param
from anyrt.prims.const import Const, Param
from anyrt.prims.contract import Contract

NONE, TRANSPOSE, VECTOR = MatrixOperation
F, I8 = DataType.FLOAT, DataType.INT8


def product(left, right, dtype=F, **scales):
    values = (param("x0", left, dtype), param("x1", right, dtype))
    layer = Layer("layer", OPS[L.MATRIX_MULTIPLY].attrs(NONE, NONE), values)
    return expand_layer(OPS[L.MATRIX_MULTIPLY], layer, **scales)[0]


def contraction(value):
    """The only `Contract` in a value's computation."""
    (result,) = (v for v in walk([value]) if isinstance(v.op, Contract))
    return result


def test_int8_multiplies_codes_and_scales_their_sums():
    value = product((3, 70), (70, 4), I8, in_scales=(0.5, 0.25), out_scale=2.0)
    sums = contraction(value)
    assert sums.dtype is DataType.INT32
    assert [(type(v.op), v.dtype) for v in sums.args] == [(Param, I8)] * 2
    constants = [v.op.blob.data.tolist() for v in walk([value]) if isinstance(v.op, Const)]
    assert [0.125] in constants


@pytest.mark.parametrize("size", [131072, Sym("x0.1", 0, 131072).dim])
def test_int8_sums_that_int32_may_not_hold_are_sums_of_real_numbers(size):
    assert contraction(product((3, size), (size, 4), I8)).dtype is F


def test_longest_int8_sum_is_exact():
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network = builder.create_network(0)
    x = network.add_input("x", trt.int8, (1, 131071))
    x.dynamic_range = (-127, 127)
    layer = network.add_matrix_multiply(x, trt.MatrixOperation.NONE, x, trt.MatrixOperation.TRANSPOSE)
    layer.get_output(0).dtype = trt.float32
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    engine = builder.build_engine_with_config(network, config)
    codes = np.full((1, 131071), -128, np.int8)
    assert engine.run(x=codes)["y"].item() == np.float32(131071 * 128**2)


def test_batch_of_size_1_is_no_axis_of_the_contraction():
    value = product((8, 3, 5), (1, 5, 4))
    contract = contraction(value)
    assert contract.args[1].shape == (5, 4)
    assert (contract.op.left, contract.op.right, contract.op.out) == ((0, 1, 2), (2, 3), (0, 1, 3))


def test_open_batches_run_with_either_of_them_1():
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network = builder.create_network(0)
    a, b = (network.add_input(n, trt.float32, (-1, 2, 3)) for n in "ab")
    layer = network.add_matrix_multiply(a, trt.MatrixOperation.NONE, b, trt.MatrixOperation.TRANSPOSE)
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    for name in "ab":
        profile.set_shape(name, (0, 2, 3), (2, 2, 3), (4, 2, 3))
    config.add_optimization_profile(profile)
    engine = builder.build_engine_with_config(network, config)
    for left, right, both in ((4, 1, 4), (1, 3, 3), (2, 2, 2), (0, 1, 0), (1, 0, 0), (1, 1, 1)):
        x, y = (np.arange(6.0 * n, dtype=np.float32).reshape(n, 2, 3) for n in (left, right))
        got = engine.run(a=x, b=y)["y"]
        assert got.shape == (both, 2, 2)
        assert np.array_equal(got, x @ y.swapaxes(1, 2))
    with pytest.raises(AnyrtError, match="AR112"):
        engine.run(a=np.zeros((3, 2, 3), np.float32), b=np.zeros((2, 2, 3), np.float32))


def einsum(equation, *shapes, dtype=F):
    values = tuple(param(f"x{i}", shape, dtype) for i, shape in enumerate(shapes))
    return expand_layer(OPS[L.EINSUM], Layer("layer", OPS[L.EINSUM].attrs(equation), values))[0]


def primitives(value):
    return [type(v.op).__name__ for v in walk([value]) if not isinstance(v.op, Param)]


def test_einsum_of_two_operands_is_one_contraction():
    value = einsum("bhqd,bhkd->bhkq", (2, 3, 4, 5), (2, 3, 7, 5), dtype=DataType.HALF)
    assert (primitives(value), value.shape, value.dtype) == (["Contract"], (2, 3, 7, 4), DataType.HALF)


def test_einsum_without_a_sum_is_a_product_of_elements():
    assert "Contract" not in primitives(einsum("i,j->ij", (3,), (17,)))


def test_einsum_multiplies_the_pair_with_the_least_work_first():
    value = einsum("ij,jk,kl->il", (100, 100), (100, 100), (100, 2))
    assert [v.shape for v in walk([value]) if isinstance(v.op, Contract)] == [(100, 2), (100, 2)]


def test_einsum_of_several_halves_is_rounded_once():
    value = einsum("ij,jk,kl->il", (3, 4), (4, 5), (5, 2), dtype=DataType.HALF)
    kinds = [v.dtype for v in walk([value]) if isinstance(v.op, Contract)]
    assert (kinds, value.dtype) == ([F, F], DataType.HALF)


def test_einsum_that_changes_nothing_is_a_copy():
    assert primitives(einsum("ij", (3, 5))) == ["Map"]
    assert primitives(einsum(" i j -> i j ", (3, 5))) == ["Map"]


def test_fully_connected_rounds_its_kernel_to_int8_by_rows():
    (op,) = (op for op in REMOVED if op.cls == "IFullyConnectedLayer")
    attrs = op.attrs(2, weights(1.0, -0.5, 0.1, 4.0, 2.0, 0.0))
    value = expand_layer(op, Layer("layer", attrs, (param("x", (5, 3, 1, 1), I8),)), (0.5,))[0]
    sums = contraction(value)
    assert (sums.dtype, [v.dtype for v in sums.args]) == (DataType.INT32, [I8, I8])
    assert sums.args[1].op.blob.data.tolist() == [127, -64, 13, 127, 64, 0]


def same(kind, attributes, *arrays):
    """Whether a layer without code agrees with its reference."""
    op = OPS[kind]
    case = Case(op.attrs(attributes), tuple(a.shape for a in arrays), data=arrays, rtol=4e-6, atol=1e-5)
    runs = [case_run(op, case, dynamic) for dynamic in (False, True)]
    return [line for r in runs for line in differences(r, interpret(r.graph, r.feeds, r.sizes))] == []


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ba", [(3, 5)]),
        ("i,j->ij", [(3,), (17,)]),
        ("ij,ij->", [(3, 5), (3, 5)]),
        ("i...,i...", [(3, 2, 2), (3, 1, 2)]),
        ("...,...j,j...->j...", [(2, 1), (3, 4), (4, 1, 3)]),
        ("ij,jk,kl,lm->im", [(3, 4), (4, 2), (2, 5), (5, 3)]),
        ("iij,jkk,ik->", [(3, 3, 2), (2, 4, 4), (3, 4)]),
        ("iii->i", [(3, 3, 3)]),
        (",,->", [(), (), ()]),
        ("a,b,c,d,e->edcba", [(2,), (1,), (3,), (0,), (2,)]),
    ],
)
def test_einsum_takes_what_numpy_takes(equation, shapes):
    random = np.random.default_rng(3)
    assert same(L.EINSUM, equation, *(random.uniform(-1, 1, s).astype(np.float32) for s in shapes))


@pytest.mark.parametrize("rank", range(1, 9))
def test_softmax_takes_the_third_axis_from_the_end_by_default(rank):
    x = np.random.default_rng(rank).uniform(-4, 4, (2, 3, 1, 2, 3, 2, 1, 2)[:rank]).astype(np.float32)
    y = expand_layer(OPS[L.SOFTMAX], Layer("layer", OPS[L.SOFTMAX].attrs(), (param("x", x.shape, F),)))[0]
    got = interpret(Graph((("x", param("x", x.shape, F)),), (("y", y),)), {"x": x})["y"]
    assert np.allclose(got.sum(axis=max(rank - 3, 0)), 1, atol=1e-5)
    assert same(L.SOFTMAX, 1 << max(rank - 3, 0), x)
