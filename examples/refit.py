"""A plan without weights, which takes those of a model when it is loaded, and other ones while it runs.

python examples/refit.py
"""

import numpy as np

import anyrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)
Weights = dict[str, np.ndarray]


def draw(seed: int) -> Weights:
    """Weights of a small classifier, as training would give them."""
    rng = np.random.default_rng(seed)
    shapes = {"kernel": (16, 3, 3, 3), "bias": (16,), "dense": (16 * 30 * 30, 10)}
    return {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}


def build(weights: Weights, *flags: trt.BuilderFlag) -> trt.IHostMemory:
    """The plan of a convolution and a product, whose weights have names."""
    builder = trt.Builder(LOGGER)
    network, config = builder.create_network(), builder.create_builder_config()
    network.name = "classifier"
    x = network.add_input("x", trt.float32, (1, 3, 32, 32))
    conv = network.add_convolution_nd(x, 16, (3, 3), weights["kernel"], weights["bias"])
    relu = network.add_activation(conv.get_output(0), trt.ActivationType.RELU)
    flat = network.add_shuffle(relu.get_output(0))
    flat.reshape_dims = (1, -1)
    dense = network.add_constant(weights["dense"].shape, weights["dense"]).get_output(0)
    none = trt.MatrixOperation.NONE
    y = network.add_matrix_multiply(flat.get_output(0), none, dense, none).get_output(0)
    y.name = "y"
    network.mark_output(y)
    for name, array in weights.items():
        network.set_weights_name(array, name)
    for flag in flags:
        config.set_flag(flag)
    return builder.build_serialized_network(network, config)


def refit(engine: trt.ICudaEngine, weights: Weights) -> None:
    """Give the engine weights by their names; contexts may run meanwhile."""
    refitter = trt.Refitter(engine, LOGGER)
    for name, array in weights.items():
        refitter.set_named_weights(name, array)
    if not refitter.refit_cuda_engine():
        raise SystemExit(f"missing: {refitter.get_missing_weights()}")


def main() -> None:
    """Build twice, with and without weights, and compare what both compute."""
    first, second = draw(1), draw(2)
    stripped = build(first, trt.BuilderFlag.STRIP_PLAN, trt.BuilderFlag.REFIT)
    whole = build(first)
    print(f"with weights {whole.nbytes:,} bytes, without {stripped.nbytes:,}")
    runtime, x = trt.Runtime(LOGGER), np.ones((1, 3, 32, 32), np.float32)
    engine, plain = (runtime.deserialize_cuda_engine(plan) for plan in (stripped, whole))
    print("lacks", trt.Refitter(engine, LOGGER).get_missing_weights())
    refit(engine, first)
    print("same as with weights:", np.array_equal(engine.run(x=x)["y"], plain.run(x=x)["y"]))
    refit(engine, second)
    again = runtime.deserialize_cuda_engine(build(second))
    print("same as built again:", np.array_equal(engine.run(x=x)["y"], again.run(x=x)["y"]))


if __name__ == "__main__":
    main()
