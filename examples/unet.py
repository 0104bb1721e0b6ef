"""A U-Net with group normalisation, with random weights: what the way down stored is joined on the way up.

python examples/unet.py
"""

from dataclasses import dataclass

import numpy as np

import anyrt as trt

GROUPS = 4
EPSILON = 1e-5
Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class Size:
    """Of the image, its channels, those of each level, and those of the result."""

    image: int = 64
    channels: int = 3
    levels: tuple[int, ...] = (16, 32, 64)
    classes: int = 2


def random_weights(size: Size, seed: int = 0) -> Weights:
    """Every weight by its name."""
    random, out = np.random.default_rng(seed), Weights()

    def add(name: str, terms: int, *shape: int) -> None:
        out[f"{name}.weight"] = (random.standard_normal(shape) * terms**-0.5).astype(np.float32)

    def add_bias(name: str, count: int) -> None:
        out[f"{name}.bias"] = (random.random(count) - 0.5).astype(np.float32)

    def add_block(name: str, c_in: int, c_out: int) -> None:
        for part, before in (("0", c_in), ("1", c_out)):
            add(f"{name}.{part}.conv", 9 * before, c_out, before, 3, 3)
            out[f"{name}.{part}.norm.weight"] = (random.random(c_out) + 0.5).astype(np.float32)
            add_bias(f"{name}.{part}.norm", c_out)

    before = size.channels
    for level, width in enumerate(size.levels):
        add_block(f"down{level}", before, width)
        before = width
    for level in reversed(range(len(size.levels) - 1)):
        width = size.levels[level]
        add(f"up{level}.grow", before, before, width, 2, 2)
        add_bias(f"up{level}.grow", width)
        add_block(f"up{level}", 2 * width, width)
        before = width
    add("last", before, size.classes, before, 1, 1)
    add_bias("last", size.classes)
    return out


def describe(network: trt.INetworkDefinition, size: Size, weights: Weights) -> None:
    """From "image" to "mask"."""

    def constant(array: np.ndarray) -> trt.ITensor:
        shape = (1, len(array), 1, 1)
        return network.add_constant(shape, array).get_output(0)

    def block(x: trt.ITensor, name: str) -> trt.ITensor:
        """Twice a convolution, group normalisation, and x · sigmoid(x)."""
        for part in (f"{name}.0", f"{name}.1"):
            kernel = weights[f"{part}.conv.weight"]
            layer = network.add_convolution_nd(x, kernel.shape[0], (3, 3), trt.Weights(kernel))
            layer.padding_nd = (1, 1)
            gain, bias = (constant(weights[f"{part}.norm.{w}"]) for w in ("weight", "bias"))
            norm = network.add_normalization_v2(layer.get_output(0), gain, bias, 1 << 2 | 1 << 3)
            norm.num_groups, norm.epsilon = GROUPS, EPSILON
            x = norm.get_output(0)
            gate = network.add_activation(x, trt.ActivationType.SIGMOID).get_output(0)
            x = network.add_elementwise(x, gate, trt.ElementWiseOperation.PROD).get_output(0)
        return x

    def halved(x: trt.ITensor) -> trt.ITensor:
        layer = network.add_pooling_nd(x, trt.PoolingType.MAX, (2, 2))
        layer.stride_nd = (2, 2)
        return layer.get_output(0)

    def doubled(x: trt.ITensor, name: str) -> trt.ITensor:
        kernel, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        layer = network.add_deconvolution_nd(
            x, kernel.shape[1], (2, 2), trt.Weights(kernel), trt.Weights(bias)
        )
        layer.stride_nd = (2, 2)
        return layer.get_output(0)

    x = network.add_input("image", trt.float32, (1, size.channels, size.image, size.image))
    stored = []
    for level in range(len(size.levels)):
        x = block(x if level == 0 else halved(x), f"down{level}")
        stored.append(x)
    for level in reversed(range(len(size.levels) - 1)):
        x = doubled(x, f"up{level}.grow")
        x = block(network.add_concatenation([stored[level], x]).get_output(0), f"up{level}")
    kernel, bias = weights["last.weight"], weights["last.bias"]
    layer = network.add_convolution_nd(x, size.classes, (1, 1), trt.Weights(kernel), trt.Weights(bias))
    layer.get_output(0).name = "mask"
    network.mark_output(layer.get_output(0))


def build(size: Size, weights: Weights) -> trt.ICudaEngine:
    """The engine."""
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network = builder.create_network()
    describe(network, size, weights)
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    if engine is None:
        raise SystemExit("the build failed; the log says why")
    return engine


def main() -> None:
    """One image of noise."""
    size = Size()
    engine = build(size, random_weights(size))
    image = np.random.default_rng(1).random((1, size.channels, size.image, size.image), np.float32)
    mask = engine.run(image=image)["mask"]
    print("mask", mask.shape, "mean", round(float(mask.mean()), 2))


if __name__ == "__main__":
    main()
