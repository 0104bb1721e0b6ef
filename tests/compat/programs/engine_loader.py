"""Build an engine with two optimization profiles once, load it, and run every profile at its largest shape.

usage: engine_loader.py engine_file
"""

import os
import sys

import common
import numpy as np
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.INFO)
trt.init_libnvinfer_plugins(TRT_LOGGER, namespace="")

SMALL = ((1, 3, 4, 4), (1, 3, 8, 8), (1, 3, 16, 16))
LARGE = ((1, 3, 16, 16), (2, 3, 32, 32), (4, 3, 33, 65))


def GiB(val):
    return val * 1 << 30


def build(path):
    with trt.Builder(TRT_LOGGER) as builder, builder.create_network() as network:
        config = builder.create_builder_config()
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, GiB(1))
        x = network.add_input("x", trt.float32, (-1, 3, -1, -1))
        scale = network.add_scale(
            x, trt.ScaleMode.UNIFORM, np.float32([-0.5]), np.float32([2.0]), np.float32([1])
        )
        act = network.add_activation(scale.get_output(0), type=trt.ActivationType.RELU)
        y = act.get_output(0)
        y.name = "y"
        network.mark_output(y)
        for shapes in (SMALL, LARGE):
            profile = builder.create_optimization_profile()
            profile.set_shape("x", *shapes)
            config.add_optimization_profile(profile)
        plan = builder.build_serialized_network(network, config)
    with open(path, "wb") as f:
        f.write(plan)


def get_engine(path):
    if not os.path.exists(path):
        build(path)
    print(f"Reading engine from file {path}")
    with open(path, "rb") as f, trt.Runtime(TRT_LOGGER) as runtime:
        return runtime.deserialize_cuda_engine(f.read())


class ProfileOutputs:
    """The engine as `allocate_buffers` sees it, with output shapes for the chosen input shape."""

    def __init__(self, engine, context):
        self.engine, self.context = engine, context

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def get_tensor_shape(self, name):
        return self.context.get_tensor_shape(name)


def main():
    engine = get_engine(sys.argv[1])
    if engine is None:
        sys.exit("cannot load the engine")
    passed = engine.num_optimization_profiles == 2
    with engine.create_execution_context() as context:
        for index in range(engine.num_optimization_profiles):
            shape = engine.get_tensor_profile_shape("x", index)[-1]
            _, stream = common.cudart.cudaStreamCreate()
            context.set_optimization_profile_async(index, stream)
            context.set_input_shape("x", shape)
            assert context.all_binding_shapes_specified
            inputs, outputs, bindings, stream = common.allocate_buffers(
                ProfileOutputs(engine, context), index
            )
            x = np.linspace(-1, 1, trt.volume(shape), dtype=np.float32)
            inputs[0].host = x
            (y,) = common.do_inference(context, engine, bindings, inputs, outputs, stream)
            same = np.allclose(y, np.maximum(x * 2 - 0.5, 0), atol=1e-6)
            print(f"profile {index}: {tuple(shape)} {'ok' if same else 'WRONG'}")
            passed &= same
            common.free_buffers(inputs, outputs, stream)
    print("PASSED" if passed else "FAILED")


if __name__ == "__main__":
    main()
