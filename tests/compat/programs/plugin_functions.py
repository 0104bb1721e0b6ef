"""Plug-ins made of functions (`tensorrt.plugin`): one of NumPy with two outputs, one in place, one autotuned.

usage: plugin_functions.py
"""

import common
import numpy as np
import numpy.typing as npt
import tensorrt as trt
import tensorrt.plugin as trtp
from cuda import cudart

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)
KIND = cudart.cudaMemcpyKind


def to_host(tensor):
    host = np.empty(tuple(tensor.shape), trt.nptype(tensor.dtype))
    common.cuda_call(
        cudart.cudaMemcpy(host.ctypes.data, tensor.data_ptr, host.nbytes, KIND.cudaMemcpyDeviceToHost)
    )
    return host


def to_device(tensor, host):
    host = np.ascontiguousarray(host, trt.nptype(tensor.dtype))
    common.cuda_call(
        cudart.cudaMemcpy(tensor.data_ptr, host.ctypes.data, host.nbytes, KIND.cudaMemcpyHostToDevice)
    )


@trtp.register("sample::top2")
def top2_desc(x: trtp.TensorDesc) -> tuple[trtp.TensorDesc, trtp.TensorDesc]:
    values = x.like()
    values.shape_expr[-1] = 2
    at = values.like()
    at.dtype = trt.int32
    return values, at


@trtp.impl("sample::top2")
def top2_impl(x: trtp.Tensor, outputs: tuple[trtp.Tensor], stream: int) -> None:
    host = to_host(x)
    at = np.argsort(-host, axis=-1, kind="stable")[..., :2]
    to_device(outputs[0], np.take_along_axis(host, at, -1))
    to_device(outputs[1], at)


@trtp.register("sample::add_in_place")
def add_in_place_desc(x: trtp.TensorDesc, delta: float) -> trtp.TensorDesc:
    return x.aliased()


@trtp.impl("sample::add_in_place")
def add_in_place_impl(x: trtp.Tensor, delta: float, outputs: tuple[trtp.Tensor], stream: int) -> None:
    to_device(outputs[0], to_host(x) + delta)


@trtp.register("sample::scaled")
def scaled_desc(x: trtp.TensorDesc, factors: npt.NDArray[np.float32]) -> trtp.TensorDesc:
    return x.like()


@trtp.autotune("sample::scaled")
def scaled_autotune(
    x: trtp.TensorDesc, factors: npt.NDArray[np.float32], outputs: tuple[trtp.TensorDesc]
) -> list[trtp.AutoTuneCombination]:
    return [trtp.AutoTuneCombination("FP32|FP16, FP32|FP16", "LINEAR", [1, 2])]


@trtp.impl("sample::scaled")
def scaled_impl(
    x: trtp.Tensor, factors: npt.NDArray[np.float32], outputs: tuple[trtp.Tensor], stream: int, tactic: int
) -> None:
    assert tactic in (1, 2)
    to_device(outputs[0], to_host(x) * factors if tactic == 1 else factors * to_host(x))


def build():
    builder = trt.Builder(TRT_LOGGER)
    network, config = builder.create_network(0), builder.create_builder_config()
    x = network.add_input("x", trt.float32, (-1, 5))
    factors = np.arange(1, 6, dtype=np.float32)
    scaled = network.add_plugin(trtp.op.sample.scaled(x, factors=factors), aot=False).get_output(0)
    relu = network.add_activation(scaled, trt.ActivationType.RELU).get_output(0)
    moved = network.add_plugin(trtp.op.sample.add_in_place(relu, delta=0.5), aot=False).get_output(0)
    top = network.add_plugin(trtp.op.sample.top2(moved), aot=False)
    for i, name in enumerate(("values", "at")):
        top.get_output(i).name = name
        network.mark_output(top.get_output(i))
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 5), (4, 5), (8, 5))
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    return trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(plan)


def infer(engine, x):
    context, stream = engine.create_execution_context(), common.cuda_call(cudart.cudaStreamCreate())
    context.set_input_shape("x", x.shape)
    host = {"x": x, "values": np.empty((len(x), 2), np.float32), "at": np.empty((len(x), 2), np.int32)}
    device = {n: common.cuda_call(cudart.cudaMalloc(a.nbytes)) for n, a in host.items()}
    for name, pointer in device.items():
        assert context.set_tensor_address(name, pointer)
    common.cuda_call(cudart.cudaMemcpy(device["x"], x.ctypes.data, x.nbytes, KIND.cudaMemcpyHostToDevice))
    assert context.execute_async_v3(stream)
    for name in ("values", "at"):
        to, kind = host[name].ctypes.data, KIND.cudaMemcpyDeviceToHost
        common.cuda_call(cudart.cudaMemcpy(to, device[name], host[name].nbytes, kind))
    return host["values"], host["at"]


def main():
    engine = build()
    for n in (1, 4, 8):
        x = np.random.default_rng(n).standard_normal((n, 5)).astype(np.float32)
        values, at = infer(engine, x)
        moved = np.maximum(x * np.arange(1, 6, dtype=np.float32), 0) + np.float32(0.5)
        want = np.argsort(-moved, axis=-1, kind="stable")[:, :2]
        np.testing.assert_array_equal(at, want)
        np.testing.assert_allclose(values, np.take_along_axis(moved, want, -1), rtol=1e-6)
    print("PASSED")


if __name__ == "__main__":
    main()
