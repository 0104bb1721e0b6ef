"""Build an engine with placeholder weights, set those of a trained model by layer and role, then by name.

usage: refit_weights.py
"""

import common
import numpy as np
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)
SHAPE = (1, 1, 28, 28)


def trained(seed):
    rng = np.random.default_rng(seed)
    shapes = {"conv1": (20, 1, 5, 5), "fc1": (10, 20 * 12 * 12)}
    weights = {}
    for name, shape in shapes.items():
        weights[name + ".weight"] = (rng.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(
            np.float32
        )
        weights[name + ".bias"] = rng.standard_normal(shape[0]).astype(np.float32)
    return weights


def populate_network(network, weights):
    x = network.add_input("data", trt.float32, SHAPE)
    conv = network.add_convolution_nd(x, 20, (5, 5), weights["conv1.weight"], weights["conv1.bias"])
    conv.name, conv.stride_nd = "conv1", (1, 1)
    pool = network.add_pooling_nd(conv.get_output(0), trt.PoolingType.MAX, (2, 2))
    pool.stride_nd = trt.Dims2(2, 2)
    flat = network.add_shuffle(pool.get_output(0))
    flat.reshape_dims = trt.Dims((1, 20 * 12 * 12))
    w = network.add_constant(weights["fc1.weight"].shape, weights["fc1.weight"])
    w.name = "fc1_weight"
    mm = network.add_matrix_multiply(
        flat.get_output(0), trt.MatrixOperation.NONE, w.get_output(0), trt.MatrixOperation.TRANSPOSE
    )
    b = network.add_constant((1, 10), weights["fc1.bias"])
    b.name = "fc1_bias"
    total = network.add_elementwise(mm.get_output(0), b.get_output(0), trt.ElementWiseOperation.SUM)
    prob = network.add_softmax(total.get_output(0))
    prob.axes = 1 << 1
    prob.get_output(0).name = "prob"
    network.mark_output(tensor=prob.get_output(0))


def build_engine(weights, refittable, names=False):
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, common_size := 1 << 24)
    assert config.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE) == common_size
    populate_network(network, weights)
    if refittable:
        config.set_flag(trt.BuilderFlag.REFIT)
    if names:
        for name, array in weights.items():
            assert network.set_weights_name(array, name)
    plan = builder.build_serialized_network(network, config)
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(plan)
    assert engine.refittable == refittable
    return engine


def infer(engine, image):
    inputs, outputs, bindings, stream = common.allocate_buffers(engine)
    context = engine.create_execution_context()
    inputs[0].host = image
    result = common.do_inference(context, engine, bindings, inputs, outputs, stream)[0].copy()
    common.free_buffers(inputs, outputs, stream)
    return result


def by_layer(engine, weights):
    """Set some weights first, then those that the refitter reports as missing."""
    with trt.Refitter(engine, TRT_LOGGER) as refitter:
        refitter.set_weights("conv1", trt.WeightsRole.KERNEL, weights["conv1.weight"])
        refitter.set_weights("conv1", trt.WeightsRole.BIAS, trt.Weights(weights["conv1.bias"]))
        refitter.set_weights("fc1_weight", trt.WeightsRole.CONSTANT, weights["fc1.weight"])
        refitter.set_weights("fc1_bias", trt.WeightsRole.CONSTANT, weights["fc1.bias"])
        layers, roles = refitter.get_missing()
        assert (list(layers), list(roles)) == ([], [])
        layers, roles = refitter.get_all()
        assert sorted(layers) == ["conv1", "conv1", "fc1_bias", "fc1_weight"]
        assert trt.WeightsRole.KERNEL in roles
        assert refitter.refit_cuda_engine()


def by_name(engine, weights):
    refitter = trt.Refitter(engine, TRT_LOGGER)
    assert sorted(refitter.get_all_weights()) == sorted(weights)
    for name in refitter.get_all_weights():
        prototype = refitter.get_weights_prototype(name)
        assert (prototype.dtype, prototype.size) == (trt.float32, weights[name].size)
        assert refitter.set_named_weights(name, trt.Weights(weights[name]), trt.TensorLocation.HOST)
    assert not refitter.get_missing_weights()
    assert refitter.refit_cuda_engine_async(0)


def main():
    image = np.random.default_rng(0).random(SHAPE, dtype=np.float32).ravel()
    first, second = trained(1), trained(2)
    want = [infer(build_engine(w, refittable=False), image) for w in (first, second)]
    dummy = {name: np.zeros_like(w) for name, w in first.items()}
    engine = build_engine(dummy, refittable=True)
    np.testing.assert_allclose(infer(engine, image), np.full(10, 0.1), rtol=1e-6)
    for weights, expected in zip((first, second), want, strict=True):
        by_layer(engine, weights)
        np.testing.assert_allclose(infer(engine, image), expected, rtol=1e-5)
    named = build_engine(first, refittable=True, names=True)
    by_name(named, second)
    np.testing.assert_allclose(infer(named, image), want[1], rtol=1e-5)
    print("PASSED")


if __name__ == "__main__":
    main()
