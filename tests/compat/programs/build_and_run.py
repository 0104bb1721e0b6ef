"""Build a small engine layer by layer, save it, load it again, run it with cuda-python.

usage: build_and_run.py engine_file
"""

import sys

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart

TRT_LOGGER = trt.Logger(trt.Logger.WARNING)
INPUT, RESIDUAL, OUTPUT = "image", "residual", "scores"
SHAPE = (2, 3, 8, 8)


def check(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}: {cudart.cudaGetErrorString(err)[1].decode()}")
    return values[0] if len(values) == 1 else values


def build_engine():
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 28)

    image = network.add_input(name=INPUT, dtype=trt.float32, shape=SHAPE)
    residual = network.add_input(name=RESIDUAL, dtype=trt.DataType.FLOAT, shape=trt.Dims([2, 64, 3]))

    scale = np.array([0.5, 2.0, -1.0], dtype=np.float32)
    shift = np.array([1.0, 0.0, 0.25], dtype=np.float32)
    power = np.ones(3, dtype=np.float32)
    normalize = network.add_scale(
        image, trt.ScaleMode.CHANNEL, trt.Weights(shift), trt.Weights(scale), trt.Weights(power)
    )
    normalize.name = "normalize"

    # NCHW -> N, HW, C
    shuffle = network.add_shuffle(normalize.get_output(0))
    shuffle.name = "to_tokens"
    shuffle.first_transpose = trt.Permutation([0, 2, 3, 1])
    shuffle.reshape_dims = (0, -1, 3)

    add = network.add_elementwise(shuffle.get_output(0), residual, trt.ElementWiseOperation.SUM)
    add.get_output(0).name = OUTPUT
    network.mark_output(tensor=add.get_output(0))

    assert network.num_layers == 3
    assert network.num_inputs == 2
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise RuntimeError("engine build failed")
    return plan


def load_engine(path):
    with open(path, "rb") as f:
        runtime = trt.Runtime(TRT_LOGGER)
        return runtime.deserialize_cuda_engine(f.read())


def infer(engine, feeds):
    context = engine.create_execution_context()
    stream = check(cudart.cudaStreamCreate())
    host, device = {}, {}
    for i in range(engine.num_io_tensors):
        name = engine.get_tensor_name(i)
        dtype = trt.nptype(engine.get_tensor_dtype(name))
        shape = tuple(context.get_tensor_shape(name))
        is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
        host[name] = np.ascontiguousarray(feeds[name], dtype) if is_input else np.empty(shape, dtype)
        device[name] = check(cudart.cudaMalloc(host[name].nbytes))
        context.set_tensor_address(name, device[name])
        if is_input:
            kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
            check(
                cudart.cudaMemcpyAsync(device[name], host[name].ctypes.data, host[name].nbytes, kind, stream)
            )
    if not context.execute_async_v3(stream_handle=stream):
        raise RuntimeError("inference failed")
    kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
    check(cudart.cudaMemcpyAsync(host[OUTPUT].ctypes.data, device[OUTPUT], host[OUTPUT].nbytes, kind, stream))
    check(cudart.cudaStreamSynchronize(stream))
    for pointer in device.values():
        check(cudart.cudaFree(pointer))
    check(cudart.cudaStreamDestroy(stream))
    return host[OUTPUT]


def main():
    path = sys.argv[1]
    with open(path, "wb") as f:
        f.write(build_engine())
    engine = load_engine(path)

    rng = np.random.default_rng(0)
    image = rng.standard_normal(SHAPE, dtype=np.float32)
    residual = rng.standard_normal((2, 64, 3), dtype=np.float32)
    got = infer(engine, {INPUT: image, RESIDUAL: residual})

    factor, offset = np.float32([0.5, 2.0, -1.0]), np.float32([1.0, 0.0, 0.25])
    want = (image.transpose(0, 2, 3, 1) * factor + offset).reshape(2, 64, 3) + residual
    error = np.abs(got - want).max()
    print(f"{trt.__version__}: output {got.shape} {got.dtype}, max error {error:.1e}")
    print("PASSED" if got.shape == want.shape and error < 1e-5 else "FAILED")


if __name__ == "__main__":
    main()
