"""Remove noise from a picture: each pixel becomes the median of its neighbours, which no layer computes.

The median is a plug-in of two functions, between ordinary layers, for images of any size.

python examples/median.py
"""

import numpy as np

import anyrt as trt
import anyrt.plugin as trtp


@trtp.register("examples::median")
def median(x: trtp.TensorDesc, edge: int) -> trtp.TensorDesc:
    """Sizes and type of the output: those of the input, without a border. x: (height, width)."""
    y = x.like()
    for axis in range(2):
        y.shape_expr[axis] -= edge - 1
    return y


@trtp.impl("examples::median")
def median_of_windows(x: trtp.Tensor, edge: int, outputs: tuple[trtp.Tensor], stream: int) -> None:
    """What is computed: arrays of NumPy are views of the tensors."""
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(x, np.float32), (edge, edge))
    np.asarray(outputs[0])[:] = np.median(windows, axis=(2, 3))


def describe(network: trt.INetworkDefinition, edge: int) -> None:
    """From "picture", of any size up to 512, to "clean", between 0 and 1."""
    picture = network.add_input("picture", trt.float32, (-1, -1))
    layer = network.add_plugin(trtp.op.examples.median(picture, edge=edge))
    layer.name = "median"
    clean = network.add_activation(layer.get_output(0), trt.ActivationType.CLIP)
    clean.alpha, clean.beta = 0, 1
    clean.get_output(0).name = "clean"
    network.mark_output(clean.get_output(0))


def build(edge: int = 3) -> trt.ICudaEngine:
    """The engine."""
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network, config = builder.create_network(), builder.create_builder_config()
    describe(network, edge)
    profile = builder.create_optimization_profile()
    profile.set_shape("picture", (edge, edge), (64, 64), (512, 512))
    config.add_optimization_profile(profile)
    engine = builder.build_engine_with_config(network, config)
    if engine is None:
        raise SystemExit("the build failed; the log says why")
    return engine


def main() -> None:
    """A ring with specks of salt and pepper."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[-1:1:40j, -1:1:60j]
    ring = (abs(np.hypot(x, y) - 0.7) < 0.15).astype(np.float32)
    specks = rng.random(ring.shape)
    noisy = np.where(specks < 0.05, 0, np.where(specks > 0.95, 1, ring)).astype(np.float32)
    clean = build().run(picture=noisy)["clean"]
    for row in clean[::2]:
        print("".join(" #"[int(pixel > 0.5)] for pixel in row))
    wrong = [int(np.sum(a != ring[1:-1, 1:-1])) for a in (noisy[1:-1, 1:-1], clean)]
    print(f"wrong pixels: {wrong[0]} before, {wrong[1]} after")


if __name__ == "__main__":
    main()
