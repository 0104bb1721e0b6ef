"""Batches that exceed the machine's caches, which the engine computes in a loop over images, seen by users'
programs."""

import json

import numpy as np
import pytest

import anyrt as trt

BATCH, RNG = 12, np.random.default_rng(0)
IMAGES = RNG.standard_normal((BATCH, 3, 12, 12)).astype(np.float32)
KERNELS = [
    RNG.standard_normal(shape).astype(np.float32) for shape in ((8, 3, 3, 3), (8, 8, 3, 3), (5, 8 * 36))
]


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A machine whose last-level cache holds some but not all images."""
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"last_bytes": 1 << 16, "costs": {"wake": 1}}))
    monkeypatch.setenv("ANYRT_MACHINE", str(path))


def described(network, batch=BATCH):
    """A residual block, pooling, a product, probabilities; the second output is an image."""
    x = network.add_input("x", trt.float32, (batch, 3, 12, 12))
    first = network.add_convolution_nd(x, 8, (3, 3), KERNELS[0])
    first.padding_nd, first.name = (1, 1), "first"
    active = network.add_activation(first.get_output(0), trt.ActivationType.RELU).get_output(0)
    active.name = "active"
    second = network.add_convolution_nd(active, 8, (3, 3), KERNELS[1])
    second.padding_nd, second.name = (1, 1), "second"
    total = network.add_elementwise(second.get_output(0), active, trt.ElementWiseOperation.SUM).get_output(0)
    pooled = network.add_pooling_nd(total, trt.PoolingType.MAX, (2, 2))
    pooled.stride_nd = (2, 2)
    rows = network.add_shuffle(pooled.get_output(0))
    rows.reshape_dims = (batch, -1)
    weights = network.add_constant(KERNELS[2].shape, KERNELS[2]).get_output(0)
    none, turned = trt.MatrixOperation.NONE, trt.MatrixOperation.TRANSPOSE
    product = network.add_matrix_multiply(rows.get_output(0), none, weights, turned)
    likely = network.add_softmax(product.get_output(0))
    likely.axes = 2
    for name, tensor in (("likely", likely.get_output(0)), ("image", total)):
        tensor.name = name
        network.mark_output(tensor)
    return active


def built(flags=(), debug=False):
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network, config = builder.create_network(0), builder.create_builder_config()
    active = described(network)
    if debug:
        network.mark_debug(active)
    for flag in flags:
        config.set_flag(flag)
    plan = builder.build_serialized_network(network, config)
    return trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)


def loops(engine):
    text = engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.ONELINE)
    return [line for line in text.splitlines() if line.startswith("batch: ")]


@pytest.fixture(scope="module")
def usual():
    return built().run(x=IMAGES)


def test_images_of_a_batch_have_the_numbers_of_a_batch_at_once(small, usual):
    engine = built()
    assert loops(engine), "the batch is looped over"
    for name, got in engine.run(x=IMAGES).items():
        np.testing.assert_allclose(got, usual[name], rtol=1e-5, atol=1e-5)


def test_an_image_does_not_depend_on_the_others(small):
    engine, others = built(), IMAGES.copy()
    others[1:] = np.nan
    alone, among = engine.run(x=others), engine.run(x=IMAGES)
    for name in among:
        np.testing.assert_array_equal(alone[name][0], among[name][0])
        assert np.isnan(alone[name][1:]).any(axis=tuple(range(1, alone[name].ndim))).all()


def test_weights_may_be_refitted(small):
    engine = built([trt.BuilderFlag.REFIT])
    before = engine.run(x=IMAGES)["image"]
    refitter = trt.Refitter(engine, trt.Logger(trt.Logger.ERROR))
    assert refitter.set_weights("second", trt.WeightsRole.KERNEL, 2 * KERNELS[1])
    assert refitter.set_weights("first", trt.WeightsRole.KERNEL, KERNELS[0])
    assert refitter.refit_cuda_engine()
    after = engine.run(x=IMAGES)["image"]
    assert np.abs(after - before).max() > 0.1


def test_debug_tensors_are_those_of_the_whole_batch(small):
    engine, seen = built(debug=True), {}

    class Listener(trt.IDebugListener):
        def process_debug_tensor(self, addr, location, type, shape, name, stream):
            seen[name] = tuple(shape)
            return True

    context = engine.create_execution_context()
    context.set_debug_listener(Listener())
    context.set_all_tensors_debug_state(True)
    outputs = {"likely": np.empty((BATCH, 5), np.float32), "image": np.empty((BATCH, 8, 12, 12), np.float32)}
    context.set_tensor_address("x", IMAGES.ctypes.data)
    for name, array in outputs.items():
        context.set_tensor_address(name, array.ctypes.data)
    assert context.execute_async_v3(0)
    assert seen == {"active": (BATCH, 8, 12, 12)}


def test_a_profiler_gets_the_kernels_inside(small):
    heard = {}

    class Profiler(trt.IProfiler):
        def __init__(self):
            trt.IProfiler.__init__(self)

        def report_layer_time(self, layer_name, ms):
            heard[layer_name] = heard.get(layer_name, 0) + ms

    engine = built()
    context = engine.create_execution_context()
    context.profiler = Profiler()
    arrays = {
        "x": IMAGES,
        "likely": np.empty((BATCH, 5), np.float32),
        "image": np.empty((BATCH, 8, 12, 12), np.float32),
    }
    assert context.execute_v2([arrays[name].ctypes.data for name in engine])
    assert any("second" in name for name in heard)
    for name in ("likely", "image"):
        np.testing.assert_array_equal(arrays[name], engine.run(x=IMAGES)[name])


@pytest.mark.parametrize("flag", [trt.BuilderFlag.BF16, trt.BuilderFlag.FP16])
def test_half_types_are_looped_over_too(small, usual, flag):
    got = built([flag]).run(x=IMAGES)
    np.testing.assert_allclose(got["image"], usual["image"], atol=1)
