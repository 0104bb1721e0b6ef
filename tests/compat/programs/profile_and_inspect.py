"""Layer times from a profiler, and an engine inspector's description of the same layers as JSON and as lines.

usage: profile_and_inspect.py
"""

import json

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)


class LayerTimes(trt.IProfiler):
    def __init__(self):
        trt.IProfiler.__init__(self)
        self.layers = {}

    def report_layer_time(self, layer_name, ms):
        self.layers.setdefault(layer_name, []).append(ms)

    def print_layer_times(self):
        total = sum(sum(times) for times in self.layers.values())
        for name, times in self.layers.items():
            share = 100 * sum(times) / total
            print(f"{name[:60]:60} {np.mean(times):8.4f} ms {share:5.1f} %")


def build():
    builder = trt.Builder(TRT_LOGGER)
    network, config = builder.create_network(0), builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    rng, x = np.random.default_rng(0), network.add_input("x", trt.float32, (1, 8, 32, 32))
    for i in range(2):
        w = rng.standard_normal((8, 8, 3, 3)).astype(np.float32) * 0.1
        conv = network.add_convolution_nd(x, 8, (3, 3), w)
        conv.name, conv.padding_nd = f"conv{i}", (1, 1)
        relu = network.add_activation(conv.get_output(0), trt.ActivationType.RELU)
        relu.name = f"relu{i}"
        x = relu.get_output(0)
    softmax = network.add_softmax(x)
    softmax.name = "probabilities"
    softmax.get_output(0).name = "y"
    network.mark_output(softmax.get_output(0))
    engine = builder.build_engine_with_config(network, config)
    assert engine.profiling_verbosity == trt.ProfilingVerbosity.DETAILED
    return engine


def main():
    engine = build()
    context, times = engine.create_execution_context(), LayerTimes()
    context.profiler = times
    assert context.profiler is times
    x, y = (cuda.pagelocked_empty((1, 8, 32, 32), np.float32) for _ in range(2))
    x[:] = np.random.default_rng(1).standard_normal(x.shape)
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address("y", y.ctypes.data)
    for _ in range(5):
        assert context.execute_v2([x.ctypes.data, y.ctypes.data])
    times.print_layer_times()
    assert {len(t) for t in times.layers.values()} == {5}
    assert min(min(t) for t in times.layers.values()) >= 0
    np.testing.assert_allclose(y.sum(axis=1), np.ones((1, 32, 32)), rtol=1e-5)

    context.enqueue_emits_profile = False
    assert context.execute_async_v3(0)
    assert {len(t) for t in times.layers.values()} == {5}
    assert context.report_to_profiler()
    assert {len(t) for t in times.layers.values()} == {6}

    inspector = engine.create_engine_inspector()
    inspector.execution_context = context
    whole = json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON))
    assert len(whole["Layers"]) == engine.num_layers
    for i in range(engine.num_layers):
        one = json.loads(inspector.get_layer_information(i, trt.LayerInformationFormat.JSON))
        assert one == whole["Layers"][i]
        assert one["Name"] in inspector.get_layer_information(i, trt.LayerInformationFormat.ONELINE)
    names = [layer["Name"] for layer in whole["Layers"]]
    assert set(times.layers) <= set(names), (sorted(times.layers), names)
    text = json.dumps(whole)
    assert all(name in text for name in ("conv0", "conv1", "probabilities"))
    print("PASSED")


if __name__ == "__main__":
    main()
