"""INT8 with each kind of calibrator over a dataset and a cache for each; results are compared with FP32.

usage: calibrators.py DIRECTORY
"""

import os
import sys

import common
import numpy as np
import tensorrt as trt
from cuda import cudart

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)
BATCH, SHAPE = 8, (8, 1, 12, 12)


def dataset(count):
    rng = np.random.default_rng(3)
    return rng.gamma(2.0, 0.2, (count, *SHAPE[1:])).astype(np.float32)


def make_calibrator(base, data, cache_path, **methods):
    class Calibrator(base):
        def __init__(self):
            base.__init__(self)
            self.at, self.written = 0, 0
            self.device = common.cuda_call(cudart.cudaMalloc(data[:BATCH].nbytes))

        def get_batch_size(self):
            return BATCH

        def get_batch(self, names, p_str=None):
            assert names == ["x"]
            if self.at >= len(data):
                return None
            batch = np.ascontiguousarray(data[self.at : self.at + BATCH])
            self.at += BATCH
            kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
            common.cuda_call(cudart.cudaMemcpy(self.device, batch.ctypes.data, batch.nbytes, kind))
            return [self.device]

        def read_calibration_cache(self):
            if os.path.exists(cache_path):
                with open(cache_path, "rb") as f:
                    return f.read()
            return None

        def write_calibration_cache(self, cache):
            self.written += 1
            with open(cache_path, "wb") as f:
                f.write(cache)

    for name, method in methods.items():
        setattr(Calibrator, name, method)
    return Calibrator()


LEGACY = {
    "get_quantile": lambda self: 0.999,
    "get_regression_cutoff": lambda self: 1.0,
    "read_histogram_cache": lambda self, length: None,
    "write_histogram_cache": lambda self, ptr, length: None,
}
KINDS = {
    "entropy": (trt.IInt8EntropyCalibrator, {}),
    "entropy2": (trt.IInt8EntropyCalibrator2, {}),
    "minmax": (trt.IInt8MinMaxCalibrator, {}),
    "legacy": (trt.IInt8LegacyCalibrator, LEGACY),
    "generic": (
        trt.IInt8Calibrator,
        {"get_algorithm": lambda self: trt.CalibrationAlgoType.MINMAX_CALIBRATION},
    ),
}


def build(calibrator):
    builder = trt.Builder(TRT_LOGGER)
    network, config = builder.create_network(0), builder.create_builder_config()
    rng, x = np.random.default_rng(0), network.add_input("x", trt.float32, SHAPE)
    for i, (c, k) in enumerate(((1, 8), (8, 8))):
        w = rng.standard_normal((k, c, 3, 3)).astype(np.float32) * (2 / (9 * c)) ** 0.5
        conv = network.add_convolution_nd(x, k, (3, 3), w, np.zeros(k, np.float32))
        conv.name = f"conv{i}"
        x = network.add_activation(conv.get_output(0), trt.ActivationType.RELU).get_output(0)
    x.name = "y"
    network.mark_output(x)
    if calibrator is not None:
        config.set_flag(trt.BuilderFlag.INT8)
        config.int8_calibrator = calibrator
    return builder.build_engine_with_config(network, config)


def infer(engine, x):
    inputs, outputs, bindings, stream = common.allocate_buffers(engine)
    inputs[0].host = x.ravel()
    context = engine.create_execution_context()
    y = common.do_inference(context, engine, bindings, inputs, outputs, stream)[0].copy()
    common.free_buffers(inputs, outputs, stream)
    return y


def main():
    data = dataset(32)
    exact = infer(build(None), data[:BATCH])
    for name, (base, methods) in KINDS.items():
        path = os.path.join(sys.argv[1], name + ".cache")
        calibrator = make_calibrator(base, data, path, **methods)
        result = infer(build(calibrator), data[:BATCH])
        assert (calibrator.at, calibrator.written) == (len(data), 1)
        error = np.abs(result - exact).max() / np.abs(exact).max()
        print(f"{name:9} differs from FP32 by {error:.4f} of the largest value")
        assert 0 < error < (0.3 if name == "legacy" else 0.1)
        again = make_calibrator(base, data, path, **methods)
        np.testing.assert_array_equal(infer(build(again), data[:BATCH]), result)
        assert again.at == 0
    print("PASSED")


if __name__ == "__main__":
    main()
