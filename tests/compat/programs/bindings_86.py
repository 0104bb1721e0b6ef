"""Enlarge an image as programs for TensorRT 8 do: numbered bindings, pycuda, an engine in a file.

usage: bindings_86.py engine_file
"""

import os
import sys

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.WARNING)
EXPLICIT_BATCH = 1 << (int)(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
SHAPE = (1, 3, 6, 5)


class HostDeviceMem:
    def __init__(self, host_mem, device_mem):
        self.host = host_mem
        self.device = device_mem


def populate_network(network):
    x = network.add_input(name="image", dtype=trt.float32, shape=SHAPE)
    scaled = network.add_scale(
        x, trt.ScaleMode.UNIFORM, np.float32([-1]), np.float32([2 / 255]), np.float32([1])
    )
    padded = network.add_padding(scaled.get_output(0), (1, 1), (1, 1))
    assert padded.pre_padding == (1, 1)
    resized = network.add_resize(padded.get_output(0))
    resized.resize_mode = trt.ResizeMode.NEAREST
    resized.scales = [1, 1, 2, 2]
    relu = network.add_activation(resized.get_output(0), trt.ActivationType.RELU)
    relu.get_output(0).name = "larger"
    network.mark_output(tensor=relu.get_output(0))


def get_engine(engine_file_path):
    if os.path.exists(engine_file_path):
        print(f"Reading engine from file {engine_file_path}")
        with open(engine_file_path, "rb") as f, trt.Runtime(TRT_LOGGER) as runtime:
            return runtime.deserialize_cuda_engine(f.read())
    with (
        trt.Builder(TRT_LOGGER) as builder,
        builder.create_network(EXPLICIT_BATCH) as network,
        builder.create_builder_config() as config,
    ):
        config.max_workspace_size = 1 << 28
        builder.max_batch_size = 1
        config.set_flag(trt.BuilderFlag.STRICT_TYPES)
        populate_network(network)
        engine = builder.build_engine(network, config)
        with open(engine_file_path, "wb") as f:
            f.write(engine.serialize())
        return engine


def allocate_buffers(engine):
    inputs, outputs, bindings = [], [], []
    stream = cuda.Stream()
    for binding in engine:
        size = trt.volume(engine.get_binding_shape(binding)) * engine.max_batch_size
        dtype = trt.nptype(engine.get_binding_dtype(binding))
        host_mem = cuda.pagelocked_empty(size, dtype)
        device_mem = cuda.mem_alloc(host_mem.nbytes)
        bindings.append(int(device_mem))
        if engine.binding_is_input(binding):
            inputs.append(HostDeviceMem(host_mem, device_mem))
        else:
            outputs.append(HostDeviceMem(host_mem, device_mem))
    return inputs, outputs, bindings, stream


def do_inference_v2(context, bindings, inputs, outputs, stream):
    for inp in inputs:
        cuda.memcpy_htod_async(inp.device, inp.host, stream)
    context.execute_async_v2(bindings=bindings, stream_handle=stream.handle)
    for out in outputs:
        cuda.memcpy_dtoh_async(out.host, out.device, stream)
    stream.synchronize()
    return [out.host for out in outputs]


def main():
    image = np.random.default_rng(0).integers(0, 256, SHAPE).astype(np.float32)
    padded = np.pad(image * np.float32(2 / 255) - 1, [(0, 0), (0, 0), (1, 1), (1, 1)])
    expected = np.maximum(padded, 0).repeat(2, axis=2).repeat(2, axis=3)
    passed = trt.__version__.startswith("8.6")
    for _ in range(2):  # builds, then loads
        with get_engine(sys.argv[1]) as engine, engine.create_execution_context() as context:
            inputs, outputs, bindings, stream = allocate_buffers(engine)
            np.copyto(inputs[0].host, image.ravel())
            (larger,) = do_inference_v2(context, bindings, inputs, outputs, stream)
            larger = larger.reshape(engine.get_binding_shape(engine.get_binding_index("larger")))
            passed &= np.allclose(larger, expected, atol=1e-6)
            outputs[0].host[:] = 0
            cuda.memcpy_htod(outputs[0].device, outputs[0].host)
            passed &= context.execute_v2(bindings) and context.execute(1, bindings)
            cuda.memcpy_dtoh(outputs[0].host, outputs[0].device)
            passed &= np.allclose(outputs[0].host, expected.ravel(), atol=1e-6)
    print("PASSED" if passed else "FAILED")


if __name__ == "__main__":
    main()
