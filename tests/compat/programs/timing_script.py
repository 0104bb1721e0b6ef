"""Time an engine with pycuda: warm-up, CUDA events, percentiles, execute_async_v3 and execute_v2.

usage: timing_script.py [--iterations N] [--warmup N] [--batch N]
"""

import argparse
import time

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)


def build(batch):
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(flags=1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    config = builder.create_builder_config()
    if builder.platform_has_fast_fp16:
        config.set_flag(trt.BuilderFlag.FP16)
    config.clear_flag(trt.BuilderFlag.FP16)
    x = network.add_input("x", trt.float32, (batch, 3, 32, 32))
    resize = network.add_resize(x)
    resize.resize_mode = trt.InterpolationMode.LINEAR
    resize.coordinate_transformation = trt.ResizeCoordinateTransformation.ASYMMETRIC
    resize.scales = [1, 1, 2, 2]
    unary = network.add_unary(resize.get_output(0), trt.UnaryOperation.ABS)
    unary.get_output(0).name = "y"
    network.mark_output(unary.get_output(0))
    return builder.build_serialized_network(network, config)


class TRTEngine:
    def __init__(self, plan):
        self.runtime = trt.Runtime(TRT_LOGGER)
        self.engine = self.runtime.deserialize_cuda_engine(plan)
        self.context = self.engine.create_execution_context()
        self.stream = cuda.Stream()
        self.host, self.device, self.bindings = {}, {}, []
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            size = trt.volume(self.context.get_tensor_shape(name))
            self.host[name] = cuda.pagelocked_empty(size, trt.nptype(self.engine.get_tensor_dtype(name)))
            self.device[name] = cuda.mem_alloc(self.host[name].nbytes)
            self.bindings.append(int(self.device[name]))
            self.context.set_tensor_address(name, int(self.device[name]))

    def infer_async(self):
        cuda.memcpy_htod_async(self.device["x"], self.host["x"], self.stream)
        assert self.context.execute_async_v3(self.stream.handle)
        cuda.memcpy_dtoh_async(self.host["y"], self.device["y"], self.stream)
        self.stream.synchronize()

    def infer(self):
        cuda.memcpy_htod(self.device["x"], self.host["x"])
        assert self.context.execute_v2(self.bindings)
        cuda.memcpy_dtoh(self.host["y"], self.device["y"])


def measure(run, iterations, warmup):
    for _ in range(warmup):
        run()
    gpu_ms, wall_ms = [], []
    start, end = cuda.Event(), cuda.Event()
    for _ in range(iterations):
        begin = time.perf_counter()
        start.record()
        run()
        end.record()
        end.synchronize()
        gpu_ms.append(start.time_till(end))
        wall_ms.append((time.perf_counter() - begin) * 1e3)
    return gpu_ms, wall_ms


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--batch", type=int, default=2)
    args = parser.parse_args()

    print(f"device: {cuda.Device(0).name()}, TensorRT {trt.__version__}")
    trt_engine = TRTEngine(build(args.batch))
    x = np.random.default_rng(1).standard_normal((args.batch, 3, 32, 32), dtype=np.float32)
    np.copyto(trt_engine.host["x"], x.ravel())
    results = []
    for run in (trt_engine.infer_async, trt_engine.infer):
        trt_engine.host["y"].fill(-1)
        gpu_ms, wall_ms = measure(run, args.iterations, args.warmup)
        p50, p99 = np.percentile(gpu_ms, [50, 99])
        print(f"{run.__name__}: mean {np.mean(gpu_ms):.3f} ms, p50 {p50:.3f} ms, p99 {p99:.3f} ms")
        assert np.all(np.array(gpu_ms) <= np.array(wall_ms))
        results.append(trt_engine.host["y"].reshape(args.batch, 3, 64, 64).copy())

    # With asymmetric coordinates and factor 2, every second output pixel equals an input pixel.
    exact = all(np.array_equal(y[:, :, ::2, ::2], np.abs(x)) for y in results)
    print("PASSED" if exact and np.array_equal(*results) else "FAILED")


if __name__ == "__main__":
    main()
