"""Observe tensors inside a network with a debug listener that copies them to the host as they are computed.

usage: debug_tensors.py
"""

import common
import numpy as np
import tensorrt as trt
from cuda import cudart

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)


class TensorDump(trt.IDebugListener):
    def __init__(self):
        trt.IDebugListener.__init__(self)
        self.tensors = {}

    def process_debug_tensor(self, addr, location, type, shape, name, stream):
        host = np.empty(tuple(shape), trt.nptype(type))
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        assert location == trt.TensorLocation.DEVICE
        common.cuda_call(cudart.cudaMemcpyAsync(host.ctypes.data, addr, host.nbytes, kind, stream))
        common.cuda_call(cudart.cudaStreamSynchronize(stream))
        self.tensors[name] = host
        return True


def build_engine():
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    config = builder.create_builder_config()
    x = network.add_input("x", trt.float32, (-1, 6))
    exp = network.add_unary(x, trt.UnaryOperation.EXP)
    total = network.add_reduce(exp.get_output(0), trt.ReduceOperation.SUM, 1 << 1, True)
    ratio = network.add_elementwise(exp.get_output(0), total.get_output(0), trt.ElementWiseOperation.DIV)
    for layer, name in ((exp, "exp"), (total, "total"), (ratio, "y")):
        layer.get_output(0).name = name
    for layer in (exp, total):
        assert network.mark_debug(layer.get_output(0))
        assert network.is_debug_tensor(layer.get_output(0))
    network.mark_output(ratio.get_output(0))
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 6), (2, 6), (4, 6))
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    return trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(plan)


def run(engine, context, x):
    stream = common.cuda_call(cudart.cudaStreamCreate())
    context.set_input_shape("x", x.shape)
    y, kind = np.empty_like(x), cudart.cudaMemcpyKind
    device = {name: common.cuda_call(cudart.cudaMalloc(x.nbytes)) for name in ("x", "y")}
    to, back = kind.cudaMemcpyHostToDevice, kind.cudaMemcpyDeviceToHost
    common.cuda_call(cudart.cudaMemcpyAsync(device["x"], x.ctypes.data, x.nbytes, to, stream))
    for name, pointer in device.items():
        context.set_tensor_address(name, pointer)
    assert context.execute_async_v3(stream)
    common.cuda_call(cudart.cudaMemcpyAsync(y.ctypes.data, device["y"], y.nbytes, back, stream))
    common.cuda_call(cudart.cudaStreamSynchronize(stream))
    for pointer in device.values():
        common.cuda_call(cudart.cudaFree(pointer))
    return y


def main():
    engine = build_engine()
    assert engine.is_debug_tensor("exp")
    assert not engine.is_debug_tensor("y")
    context = engine.create_execution_context()
    listener = TensorDump()
    assert context.set_debug_listener(listener)
    assert context.get_debug_listener() is listener
    x = np.random.default_rng(0).standard_normal((3, 6)).astype(np.float32)
    plain = None
    for state in ({}, {"exp": True}, {"total": True}):
        for name, expected in state.items():
            assert context.set_tensor_debug_state(name, expected)
            assert context.get_debug_state(name) == expected
        listener.tensors.clear()
        y = run(engine, context, x)
        plain = y if plain is None else plain
        np.testing.assert_array_equal(y, plain)
    want = np.exp(x.astype(np.float64))
    assert sorted(listener.tensors) == ["exp", "total"]
    np.testing.assert_allclose(listener.tensors["exp"], want, rtol=1e-6)
    np.testing.assert_allclose(listener.tensors["total"], want.sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(plain, want / want.sum(1, keepdims=True), rtol=1e-6)
    assert context.set_all_tensors_debug_state(False)
    listener.tensors.clear()
    run(engine, context, x)
    assert not listener.tensors
    print("PASSED")


if __name__ == "__main__":
    main()
