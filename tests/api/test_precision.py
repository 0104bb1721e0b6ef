"""Precision of weakly typed networks: flags permit types, `layer.precision` is a constraint or a
preference."""

from dataclasses import replace

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.building import builder as building
from anyrt.api.model.state import state_of
from anyrt.core.machine import REFERENCE

Flag, F, HALF, BF16 = trt.BuilderFlag, trt.float32, trt.float16, trt.bfloat16
NONE, RELU = trt.MatrixOperation.NONE, trt.ActivationType.RELU
OBEY, PREFER = Flag.OBEY_PRECISION_CONSTRAINTS, Flag.PREFER_PRECISION_CONSTRAINTS
X = np.random.default_rng(0).standard_normal((40, 64)).astype(np.float32)
POSITIVE = np.abs(X) + 0.01
LIMIT = np.where(POSITIVE > 1, np.nextafter(POSITIVE, np.float32(0)), POSITIVE)
W = np.random.default_rng(1).standard_normal((64, 60)).astype(np.float32)


@pytest.fixture
def tiles(monkeypatch):
    """A machine with fast products of half types."""
    monkeypatch.setattr(building, "this_machine", lambda: replace(REFERENCE, has_tiles=True))


@pytest.fixture
def no_tiles(monkeypatch):
    """A machine that multiplies float16 no faster than float32."""
    monkeypatch.setattr(building, "this_machine", lambda: REFERENCE)


@pytest.fixture
def build(log):
    """An engine of x W, or None; `prepare` changes the layer first."""
    builder = trt.Builder(log)

    def make(*flags, prepare=lambda layer: None, weights=W, strong=False):
        network = builder.create_network(int(strong) << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        config = builder.create_builder_config()
        x = network.add_input("x", F, X.shape)
        right = network.add_constant(weights.shape, weights).get_output(0)
        layer = network.add_matrix_multiply(x, NONE, right, NONE)
        layer.name, layer.get_output(0).name = "product", "y"
        network.mark_output(layer.get_output(0))
        prepare(layer)
        for flag in flags:
            config.set_flag(flag)
        return builder.build_engine_with_config(network, config)

    return make


def setting(dtype):
    def prepare(layer):
        layer.precision = dtype

    return prepare


def rounded(x, dtype):
    return x.astype(trt.nptype(dtype)) if dtype is HALF else (
        ((x.view(np.uint32) + 0x7FFF + (x.view(np.uint32) >> 16 & 1)) & 0xFFFF0000).view(np.float32)
    )  # fmt: skip


def product(dtype):
    """x W with rounded operands and a rounded result."""
    y = rounded(X, dtype).astype(np.float64) @ rounded(W, dtype).astype(np.float64)
    return rounded(y.astype(np.float32), dtype).astype(np.float32)


@pytest.mark.parametrize(("flag", "dtype"), [(Flag.FP16, HALF), (Flag.BF16, BF16)])
def test_a_flag_allows_products_a_half_type_where_that_is_faster(build, tiles, flag, dtype):
    engine = build(flag)
    y = engine.run(x=X)["y"]
    unit = 2**-8 if dtype is BF16 else 2**-11
    assert 0 < np.abs(y - X @ W).max() < 3 * unit * (np.abs(X) @ np.abs(W)).max()
    assert engine.get_tensor_dtype("y") is F


def test_a_machine_without_fast_halves_keeps_float32(build, monkeypatch):
    monkeypatch.setattr(building, "this_machine", lambda: replace(REFERENCE, has_bf16=False))
    for flag in (Flag.FP16, Flag.BF16):
        assert (build(flag).run(x=X)["y"] == build().run(x=X)["y"]).all()


def test_few_products_keep_float32(build, tiles):
    y = build(Flag.FP16, Flag.BF16, weights=W[:, :40].copy()).run(x=X)["y"]
    assert (y == build(weights=W[:, :40].copy()).run(x=X)["y"]).all()


def test_weights_that_float16_does_not_hold_stay_float32(build, tiles):
    y = build(Flag.FP16, weights=W * 1e6).run(x=X)["y"]
    np.testing.assert_allclose(y, X @ (W * 1e6), rtol=1e-3, atol=100)
    assert np.isfinite(y).all()


def test_a_range_that_float16_does_not_hold_keeps_float32(build, tiles):
    wide = build(Flag.FP16, prepare=lambda layer: layer.get_input(0).set_dynamic_range(-1e5, 1e5))
    assert (wide.run(x=X)["y"] == build().run(x=X)["y"]).all()


def test_a_strongly_typed_network_takes_no_permission(build, tiles):
    assert (build(strong=True).run(x=X)["y"] == build().run(x=X)["y"]).all()
    assert build(Flag.FP16, Flag.BF16, strong=True) is None


@pytest.mark.parametrize("dtype", [HALF, BF16])
def test_an_order_is_followed_on_any_machine(build, dtype):
    y = build(OBEY, prepare=setting(dtype)).run(x=X)["y"]
    np.testing.assert_allclose(y, product(dtype), rtol=2**-7 if dtype is BF16 else 2**-10)
    assert (rounded(y, dtype).astype(np.float32) == y).all()


def test_an_order_for_float32_wins_over_permissions(build, tiles):
    for order in (OBEY, PREFER):
        y = build(order, Flag.FP16, Flag.BF16, prepare=setting(F)).run(x=X)["y"]
        assert (y == build().run(x=X)["y"]).all()


def test_a_precision_alone_is_no_order(build):
    assert (build(prepare=setting(HALF)).run(x=X)["y"] == build().run(x=X)["y"]).all()


@pytest.mark.parametrize("dtype", [trt.int8, trt.int32])
def test_an_order_that_cannot_be_followed_is_a_named_error(build, log, dtype, golden_text):
    assert build(OBEY, prepare=setting(dtype)) is None
    assert log.lines[-1].startswith("[AR333] product (test_precision.py:")
    golden_text(log.lines[-1])


def test_a_preference_that_cannot_be_met_is_a_warning(build, log, golden_text):
    y = build(PREFER, prepare=setting(trt.int8)).run(x=X)["y"]
    assert (y == build().run(x=X)["y"]).all()
    golden_text(log.lines[0])


def test_an_order_for_int8_with_a_range_multiplies_codes(build):
    def prepare(layer):
        layer.precision = trt.int8
        layer.get_input(0).set_dynamic_range(-3, 3)

    steps, scale = np.abs(W).max(0) / 127, np.float32(3 / 127)
    codes = np.clip(np.rint(X / scale), -128, 127) @ np.rint(W / steps)
    np.testing.assert_allclose(build(OBEY, prepare=prepare).run(x=X)["y"], codes * steps * scale, rtol=1e-5)


def test_layers_without_floats_take_any_order(log):
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    x = network.add_input("x", trt.int32, (3,))
    layer = network.add_elementwise(x, x, trt.ElementWiseOperation.SUM)
    layer.precision = F
    network.mark_output(layer.get_output(0))
    config.set_flag(OBEY)
    (y,) = builder.build_engine_with_config(network, config).run(x=np.int32([1, 2, 3])).values()
    assert y.tolist() == [2, 4, 6]


def test_types_of_outputs_that_are_set_stay(build, tiles):
    def prepare(layer):
        layer.set_output_type(0, HALF)

    engine = build(Flag.BF16, OBEY, prepare=prepare)
    assert engine.get_tensor_dtype("y") is HALF
    assert engine.run(x=X)["y"].dtype == np.float16


@pytest.mark.parametrize("flag", [None, PREFER, OBEY, Flag.FP16, Flag.EXCESS_PRECISION])
def test_an_output_in_half_is_rounded_unless_a_flag_allows_more(flag, log):
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    exp = network.add_unary(network.add_input("x", F, (64,)), trt.UnaryOperation.EXP)
    exp.set_output_type(0, HALF)
    assert exp.get_output(0).dtype is HALF
    neg = network.add_unary(exp.get_output(0), trt.UnaryOperation.NEG)
    neg.set_output_type(0, F)
    network.mark_output(neg.get_output(0))
    config.flags = 0 if flag is None else 1 << int(flag)
    x = np.linspace(-2, 2, 64, dtype=np.float32)
    (y,) = builder.build_engine_with_config(network, config).run(x=x).values()
    rounded = -np.exp(x.astype(float)).astype(np.float16).astype(np.float32)
    np.testing.assert_allclose(y, rounded, rtol=2**-10)
    assert np.array_equal(y, rounded) == (flag not in (Flag.FP16, Flag.EXCESS_PRECISION))


def test_every_precision_of_a_chain_may_be_ordered(log):
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    y = network.add_input("x", F, (4,))
    for _ in range(3):
        layer = network.add_unary(y, trt.UnaryOperation.EXP)
        layer.precision = HALF
        y = layer.get_output(0)
    network.mark_output(y)
    config.set_flag(OBEY)
    x, expected = np.float32([0, 0.1, -1, 0.5]), np.float16([0, 0.1, -1, 0.5])
    for _ in range(3):
        expected = np.exp(expected.astype(np.float64)).astype(np.float16)
    (got,) = builder.build_engine_with_config(network, config).run(x=x).values()
    assert got.tolist() == expected.astype(np.float32).tolist()


def test_the_inspector_reports_the_precision(build, tiles):
    plan = state_of(build(Flag.BF16)).plan
    assert ("precision", "bfloat16") in plan.layers[1].details


def test_a_type_set_for_one_layer_is_followed_by_float32(log):
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    x = network.add_input("x", F, (2, 3))
    half = network.add_identity(x)
    half.set_output_type(0, HALF)
    moved = network.add_shuffle(half.get_output(0)).get_output(0)
    y = network.add_elementwise(moved, x, trt.ElementWiseOperation.SUM).get_output(0)
    y.name = "y"
    network.mark_output(y)
    values = np.float32([[1, 2, 1 / 3], [1 / 5, 4, 70]])
    run = builder.build_engine_with_config(network, config).run(x=values)["y"]
    np.testing.assert_allclose(run, 2 * values, rtol=2**-11)
    assert (y.dtype, moved.dtype) == (F, HALF)


def test_tensors_without_a_set_type_still_have_one_type(log):
    network = trt.Builder(log).create_network()
    x, h = network.add_input("x", F, (2,)), network.add_input("h", HALF, (2,))
    with pytest.raises(ValueError, match="not known"):
        len(network.add_concatenation([x, h]).get_output(0).shape)
    assert "AR203" in log.lines[0]


@pytest.mark.parametrize("rows", [1, 40, 300])
def test_weights_stay_half_where_fp16_is_allowed(log, no_tiles, rows):
    """float32 products of weights that float16 represents take half the plan; few rows and many."""
    random = np.random.default_rng(rows)
    x = random.standard_normal((rows, 512)).astype(np.float32)
    weights = random.standard_normal((512, 300)).astype(np.float32)
    builder = trt.Builder(log)

    def built(*flags):
        network, config = builder.create_network(), builder.create_builder_config()
        right = network.add_constant(weights.shape, weights).get_output(0)
        layer = network.add_matrix_multiply(network.add_input("x", F, x.shape), NONE, right, NONE)
        layer.get_output(0).name = "y"
        network.mark_output(layer.get_output(0))
        for flag in flags:
            config.set_flag(flag)
        return builder.build_serialized_network(network, config)

    wide, half = built(), built(Flag.FP16)
    assert memoryview(half).nbytes < 0.6 * memoryview(wide).nbytes
    got = trt.Runtime(log).deserialize_cuda_engine(half).run(x=x)["y"]
    exact = x.astype(np.float64) @ weights.astype(np.float16).astype(np.float64)
    room = np.abs(x).astype(np.float64) @ np.abs(weights)
    assert np.all(np.abs(got - exact) <= 1e-6 * room)


@pytest.mark.parametrize("size", [7, 28])
def test_kernels_of_one_position_stay_half_where_fp16_is_allowed(log, no_tiles, size):
    random = np.random.default_rng(size)
    x = random.standard_normal((1, 512, size, size)).astype(np.float32)
    kernel = random.standard_normal((300, 512, 1, 1)).astype(np.float32)
    wide, half = (convolved(log, x, kernel, *flags) for flags in ((), (Flag.FP16,)))
    assert memoryview(half).nbytes < 0.6 * memoryview(wide).nbytes
    got = trt.Runtime(log).deserialize_cuda_engine(half).run(x=x)["y"]
    held = kernel[:, :, 0, 0].astype(np.float16).astype(np.float64)
    exact, room = (np.einsum("kc,nchw->nkhw", w, a) for w, a in ((held, x), (abs(held), abs(x))))
    assert np.all(np.abs(got - exact) <= 1e-6 * room)


@pytest.mark.parametrize(
    ("method", "size"), [("add_convolution_nd", 3), ("add_deconvolution_nd", 1), ("add_deconvolution_nd", 3)]
)
def test_other_kernels_stay_float32(log, no_tiles, method, size):
    """Kernels for windows, whose tiles of an image have weights of their own, and for deconvolutions."""
    random = np.random.default_rng(size)
    x = random.standard_normal((1, 128, 12, 12)).astype(np.float32)
    kernel = random.standard_normal((128 * 96 * size * size,)).astype(np.float32)
    engines = [
        convolved(log, x, kernel, *flags, method=method, size=size, maps=96) for flags in ((), (Flag.FP16,))
    ]
    ys = [trt.Runtime(log).deserialize_cuda_engine(e).run(x=x)["y"] for e in engines]
    np.testing.assert_array_equal(*ys)


def convolved(log, x, kernel, *flags, method="add_convolution_nd", size=1, maps=300):
    """The plan of one convolution."""
    network = (builder := trt.Builder(log)).create_network()
    config = builder.create_builder_config()
    image = network.add_input("x", F, x.shape)
    y = getattr(network, method)(image, maps, (size, size), trt.Weights(kernel)).get_output(0)
    y.name = "y"
    network.mark_output(y)
    for flag in flags:
        config.set_flag(flag)
    return builder.build_serialized_network(network, config)


def test_weights_beyond_half_stay_float32(build):
    engine = build(Flag.FP16, weights=np.full((64, 2000), 7e4, np.float32))
    assert np.isfinite(engine.run(x=X)["y"]).all()


@pytest.fixture
def residual(log):
    """The outputs of relu(x) + relu(x) W for positive x and weights so small that the sum is relu(x) as it is
    read; `marked`: relu(x) is an output."""
    builder = trt.Builder(log)

    def run(*flags, marked=False, strong=False):
        network = builder.create_network(int(strong) << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        config = builder.create_builder_config()
        x = network.add_input("x", F, X.shape)
        relu = network.add_activation(x, trt.ActivationType.RELU).get_output(0)
        small = np.full((X.shape[1], X.shape[1]), 1e-30, np.float32)
        right = network.add_constant(small.shape, small).get_output(0)
        y = network.add_matrix_multiply(relu, NONE, right, NONE).get_output(0)
        total = network.add_elementwise(y, relu, trt.ElementWiseOperation.SUM).get_output(0)
        least = network.add_constant(LIMIT.shape, LIMIT).get_output(0)
        above = network.add_elementwise(relu, least, trt.ElementWiseOperation.GREATER).get_output(0)
        relu.name, total.name, above.name = "relu", "total", "above"
        for tensor in (relu, total, above)[not marked :]:
            network.mark_output(tensor)
        for flag in flags:
            config.set_flag(flag)
        return builder.build_engine_with_config(network, config).run(x=POSITIVE)

    return run


def test_a_tensor_that_products_read_as_bfloat16_is_stored_once(residual, tiles):
    outputs = residual(Flag.BF16)
    assert (outputs["total"] == rounded(POSITIVE, BF16)).all()
    assert (rounded(POSITIVE, BF16) != POSITIVE).any()
    assert (outputs["above"] == (POSITIVE > LIMIT)).all()
    assert ((rounded(POSITIVE, BF16) > LIMIT) != (POSITIVE > LIMIT)).any()


@pytest.mark.parametrize("flags", [(), (Flag.BF16, OBEY), (Flag.BF16, PREFER), (Flag.FP16,)])
def test_other_networks_read_the_tensor_in_float32(residual, tiles, flags):
    assert (residual(*flags)["total"] == POSITIVE).all()


def test_an_output_keeps_its_numbers_beside_products_in_bfloat16(residual, tiles):
    outputs = residual(Flag.BF16, marked=True)
    assert (outputs["relu"] == POSITIVE).all()
    assert (outputs["total"] == POSITIVE).all()
