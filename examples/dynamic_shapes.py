"""One engine for many sizes: a profile gives the range, a context the size of each run.

python examples/dynamic_shapes.py
"""

import numpy as np

import anyrt as trt


def build(logger: trt.ILogger) -> trt.IHostMemory:
    """A plan that resizes images of 16 x 16 to 512 x 512 to 32 x 32 and scales them to 0 … 1."""
    builder = trt.Builder(logger)
    network = builder.create_network()
    image = network.add_input("image", trt.float32, (1, 3, -1, -1))
    resize = network.add_resize(image)
    resize.resize_mode = trt.InterpolationMode.LINEAR
    resize.shape = (1, 3, 32, 32)
    scale = network.add_scale(
        resize.get_output(0), trt.ScaleMode.UNIFORM, scale=np.array([1 / 255], np.float32)
    )
    scale.get_output(0).name = "small"
    network.mark_output(scale.get_output(0))

    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 28)
    profile = builder.create_optimization_profile()
    profile.set_shape("image", (1, 3, 16, 16), (1, 3, 224, 224), (1, 3, 512, 512))
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise SystemExit("the build failed; the log says why")
    return plan


def main() -> None:
    """Three sizes through one context."""
    logger = trt.Logger(trt.Logger.WARNING)
    engine = trt.Runtime(logger).deserialize_cuda_engine(build(logger))
    least, best, most = engine.get_tensor_profile_shape("image", 0)
    print("from", least, "to", most, "best", best)

    context = engine.create_execution_context()
    for height, width in ((16, 16), (300, 200), (512, 512)):
        image = np.full((1, 3, height, width), 51, np.float32)
        if not context.set_input_shape("image", image.shape):
            raise SystemExit(f"no profile takes {image.shape}")
        small = np.empty(context.get_tensor_shape("small"), trt.nptype(engine.get_tensor_dtype("small")))
        context.set_tensor_address("image", image.ctypes.data)
        context.set_tensor_address("small", small.ctypes.data)
        context.execute_async_v3(0)
        print(image.shape, "->", small.shape, "mean", round(float(small.mean()), 3))


if __name__ == "__main__":
    main()
