"""Build an INT8 engine with an entropy calibrator over pycuda and a cache file; some layers stay FP32, and
tactics are recorded and selected again.

usage: calibrate.py CACHE
"""

import os
import sys

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)
BATCH, SHAPE = 4, (3, 16, 16)


def load_images(count):
    rng = np.random.default_rng(0)
    return rng.standard_normal((count, *SHAPE)).astype(np.float32)


class EntropyCalibrator(trt.IInt8EntropyCalibrator2):
    def __init__(self, data, cache_file, batch_size=BATCH):
        trt.IInt8EntropyCalibrator2.__init__(self)
        self.cache_file = cache_file
        self.data = data
        self.batch_size = batch_size
        self.current_index = 0
        self.device_input = cuda.mem_alloc(self.data[0].nbytes * self.batch_size)

    def get_batch_size(self):
        return self.batch_size

    def get_batch(self, names):
        if self.current_index + self.batch_size > self.data.shape[0]:
            return None
        batch = self.data[self.current_index : self.current_index + self.batch_size].ravel()
        cuda.memcpy_htod(self.device_input, batch)
        self.current_index += self.batch_size
        return [self.device_input]

    def read_calibration_cache(self):
        if os.path.exists(self.cache_file):
            with open(self.cache_file, "rb") as f:
                return f.read()
        return None

    def write_calibration_cache(self, cache):
        with open(self.cache_file, "wb") as f:
            f.write(cache)


class TacticRecorder(trt.IAlgorithmSelector):
    def __init__(self, expected=None):
        trt.IAlgorithmSelector.__init__(self)
        self.expected, self.chosen = expected, {}

    def select_algorithms(self, context, choices):
        if self.expected is None:
            return list(range(len(choices)))
        tactic = self.expected[context.name]
        return [i for i, c in enumerate(choices) if c.algorithm_variant.tactic == tactic]

    def report_algorithms(self, contexts, choices):
        for context, choice in zip(contexts, choices, strict=True):
            self.chosen[context.name] = choice.algorithm_variant.tactic


def populate(network):
    rng = np.random.default_rng(1)
    x = network.add_input("data", trt.float32, (-1, *SHAPE))
    for i, (c_in, c_out) in enumerate([(3, 16), (16, 16)]):
        w = rng.standard_normal((c_out, c_in, 3, 3)).astype(np.float32) * 0.2
        conv = network.add_convolution_nd(x, c_out, (3, 3), trt.Weights(w), trt.Weights())
        conv.name, conv.padding_nd = "conv" + str(i), (1, 1)
        x = network.add_activation(conv.get_output(0), trt.ActivationType.RELU).get_output(0)
    x.name = "prob"
    network.mark_output(x)


def build(calibrator=None, fp32_layers=(), selector=None):
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 28)
    populate(network)
    profile = builder.create_optimization_profile()
    profile.set_shape("data", (1, *SHAPE), (BATCH, *SHAPE), (BATCH, *SHAPE))
    config.add_optimization_profile(profile)
    if calibrator is not None:
        config.set_flag(trt.BuilderFlag.INT8)
        config.int8_calibrator = calibrator
        config.set_calibration_profile(profile)
    if fp32_layers:
        config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
        for layer in network:
            if layer.name in fp32_layers:
                layer.precision = trt.float32
                layer.set_output_type(0, trt.float32)
    if selector is not None:
        config.algorithm_selector = selector
    plan = builder.build_serialized_network(network, config)
    assert plan is not None
    return trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(plan)


def infer(engine, batch):
    context = engine.create_execution_context()
    context.set_input_shape("data", batch.shape)
    out = np.empty(tuple(context.get_tensor_shape("prob")), np.float32)
    d_in, d_out = cuda.mem_alloc(batch.nbytes), cuda.mem_alloc(out.nbytes)
    cuda.memcpy_htod(d_in, np.ascontiguousarray(batch))
    assert context.execute_v2([int(d_in), int(d_out)])
    cuda.memcpy_dtoh(out, d_out)
    return out


def main():
    cache, images = sys.argv[1], load_images(32)
    plain = infer(build(), images[:BATCH])
    calibrator = EntropyCalibrator(images, cache)
    first = infer(build(calibrator), images[:BATCH])
    assert calibrator.current_index == len(images)
    with open(cache) as f:
        head, *lines = f.read().splitlines()
    assert head.startswith("TRT-")
    assert head.endswith("-EntropyCalibration2")
    assert len(lines) == 2
    assert lines[0].split(": ")[0] == "data"
    again = EntropyCalibrator(images, cache)
    second = infer(build(again), images[:BATCH])
    assert again.current_index == 0
    assert (first == second).all()
    assert 0 < np.abs(first - plain).max() < 0.05 * np.abs(plain).max()
    kept = infer(build(again, fp32_layers=("conv0", "conv1")), images[:BATCH])
    assert (kept == plain).all()
    recorder = TacticRecorder()
    build(selector=recorder)
    replay = TacticRecorder(recorder.chosen)
    assert (infer(build(selector=replay), images[:BATCH]) == plain).all()
    assert replay.chosen == recorder.chosen
    print("PASSED")


if __name__ == "__main__":
    main()
