"""ResNet-18, layer by layer, with random weights: convolutions, batch norm as scales, residual sums.

python examples/resnet18.py
"""

from dataclasses import dataclass

import numpy as np

import anyrt as trt

BLOCKS = 2  # in each of four stages
EPSILON = 1e-5
Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class Size:
    """Of the image, of the first stage's channels, and how many classes."""

    image: int = 64
    width: int = 64
    classes: int = 1000


def random_weights(size: Size, seed: int = 0) -> Weights:
    """Every weight by its name in torchvision's model."""
    random, out = np.random.default_rng(seed), Weights()

    def add(name: str, *shape: int) -> None:
        terms = int(np.prod(shape[1:]))
        out[name] = (random.standard_normal(shape) * (2 / terms) ** 0.5).astype(np.float32)

    def add_convolution(name: str, norm: str, c_in: int, c_out: int, kernel: int) -> None:
        add(f"{name}.weight", c_out, c_in, kernel, kernel)
        for part, low in (("weight", 0.5), ("bias", -0.5), ("running_mean", -0.5), ("running_var", 0.5)):
            out[f"{norm}.{part}"] = (random.random(c_out) + low).astype(np.float32)

    add_convolution("conv1", "bn1", 3, size.width, 7)
    channels = size.width
    for name, width, _ in blocks(size):
        add_convolution(f"{name}.conv1", f"{name}.bn1", channels, width, 3)
        add_convolution(f"{name}.conv2", f"{name}.bn2", width, width, 3)
        if channels != width:
            add_convolution(f"{name}.downsample.0", f"{name}.downsample.1", channels, width, 1)
        channels = width
    add("fc.weight", size.classes, channels)
    out["fc.bias"] = random.random(size.classes).astype(np.float32)
    return out


def blocks(size: Size) -> list[tuple[str, int, int]]:
    """(name, channels, stride) of each block."""
    return [
        (f"layer{stage + 1}.{block}", size.width << stage, 2 if stage and not block else 1)
        for stage in range(4)
        for block in range(BLOCKS)
    ]


def describe(network: trt.INetworkDefinition, size: Size, weights: Weights) -> None:
    """From "image" to "logits"."""

    def convolved(x: trt.ITensor, name: str, norm: str, stride: int = 1) -> trt.ITensor:
        """A convolution and a batch normalization with the trained statistics."""
        kernel = weights[f"{name}.weight"]
        edge = kernel.shape[-1]
        layer = network.add_convolution_nd(x, kernel.shape[0], (edge, edge), trt.Weights(kernel))
        layer.stride_nd, layer.padding_nd = (stride, stride), (edge // 2, edge // 2)
        gain, bias, mean, variance = (
            weights[f"{norm}.{part}"] for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = gain / np.sqrt(variance + np.float32(EPSILON))
        shift = bias - mean * scale
        y = layer.get_output(0)
        return network.add_scale(y, trt.ScaleMode.CHANNEL, shift, scale).get_output(0)

    def relu(x: trt.ITensor) -> trt.ITensor:
        return network.add_activation(x, trt.ActivationType.RELU).get_output(0)

    x = network.add_input("image", trt.float32, (1, 3, size.image, size.image))
    x = relu(convolved(x, "conv1", "bn1", 2))
    pool = network.add_pooling_nd(x, trt.PoolingType.MAX, (3, 3))
    pool.stride_nd, pool.padding_nd = (2, 2), (1, 1)
    x = pool.get_output(0)
    for name, _, stride in blocks(size):
        y = relu(convolved(x, f"{name}.conv1", f"{name}.bn1", stride))
        y = convolved(y, f"{name}.conv2", f"{name}.bn2")
        if f"{name}.downsample.0.weight" in weights:
            x = convolved(x, f"{name}.downsample.0", f"{name}.downsample.1", stride)
        x = relu(network.add_elementwise(x, y, trt.ElementWiseOperation.SUM).get_output(0))

    mean = network.add_reduce(x, trt.ReduceOperation.AVG, 1 << 2 | 1 << 3, keep_dims=False).get_output(0)
    last = network.add_constant(weights["fc.weight"].shape, weights["fc.weight"]).get_output(0)
    plain, transposed = trt.MatrixOperation.NONE, trt.MatrixOperation.TRANSPOSE
    product = network.add_matrix_multiply(mean, plain, last, transposed).get_output(0)
    bias = network.add_constant((1, size.classes), weights["fc.bias"]).get_output(0)
    logits = network.add_elementwise(product, bias, trt.ElementWiseOperation.SUM).get_output(0)
    logits.name = "logits"
    network.mark_output(logits)


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
    image = np.random.default_rng(1).random((1, 3, size.image, size.image), np.float32)
    logits = engine.run(image=image)["logits"]
    print("logits", logits.shape, "largest is class", int(logits.argmax()))


if __name__ == "__main__":
    main()
