"""A classifier in int8 with explicit Quantize and Dequantize layers, beside the same one in float32.

python examples/quantised.py
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

import anyrt as trt

Weights = dict[str, np.ndarray]
LARGEST = 127  # the largest code


@dataclass(frozen=True)
class Size:
    """Numbers of a sample, of each hidden layer, and classes."""

    input: int = 64
    hidden: tuple[int, ...] = (256, 128)
    classes: int = 10

    @property
    def layers(self) -> list[tuple[int, int]]:
        """(inputs, outputs) of each layer."""
        widths = [self.input, *self.hidden, self.classes]
        return list(pairwise(widths))


def samples(size: Size, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy points around two centres for each class, and their classes."""
    centres = np.random.default_rng(0).standard_normal((2 * size.classes, size.input))
    random = np.random.default_rng(seed)
    own = random.integers(0, len(centres), count)
    points = centres[own] + 2.5 * random.standard_normal((count, size.input))
    return points.astype(np.float32), own % size.classes


def trained(size: Size, steps: int = 300) -> Weights:
    """Weights after some steps of gradient descent."""
    random, weights = np.random.default_rng(1), Weights()
    for n, (inner, outer) in enumerate(size.layers):
        noise = random.standard_normal((outer, inner)) * (2 / inner) ** 0.5
        weights[f"{n}.weight"] = noise.astype(np.float32)
        weights[f"{n}.bias"] = np.zeros(outer, np.float32)
    last = len(size.layers) - 1
    for step in range(steps):
        x, wanted = samples(size, 256, 100 + step)
        inputs = []
        for n in range(last + 1):
            inputs.append(x)
            x = x @ weights[f"{n}.weight"].T + weights[f"{n}.bias"]
            x = np.maximum(x, 0) if n < last else x
        powers = np.exp(x - x.max(1, keepdims=True))
        slope = powers / powers.sum(1, keepdims=True)
        slope[np.arange(len(x)), wanted] -= 1
        slope /= len(x)
        for n in reversed(range(last + 1)):
            before = (slope @ weights[f"{n}.weight"]) * (inputs[n] > 0)
            weights[f"{n}.weight"] -= np.float32(0.3) * (slope.T @ inputs[n])
            weights[f"{n}.bias"] -= np.float32(0.3) * slope.sum(0)
            slope = before
    return weights


def largest(size: Size, weights: Weights, x: np.ndarray) -> list[float]:
    """The largest magnitude of the input of each layer, from samples."""
    magnitudes = []
    for n in range(len(size.layers)):
        magnitudes.append(float(np.abs(x).max()))
        x = np.maximum(x @ weights[f"{n}.weight"].T + weights[f"{n}.bias"], 0)
    return magnitudes


def describe(
    network: trt.INetworkDefinition, size: Size, weights: Weights, ranges: list[float] | None
) -> None:
    """From "x" (samples, numbers) to "scores"; in int8 where `ranges` says what each layer reads."""
    matrix = trt.MatrixOperation

    def constant(array: np.ndarray) -> trt.ITensor:
        return network.add_constant(array.shape, array).get_output(0)

    def in_codes(x: trt.ITensor, most: float) -> trt.ITensor:
        """What x is as int8, and back: products of both are int8 products."""
        scale = constant(np.array([most / LARGEST], np.float32))
        codes = network.add_quantize(x, scale, trt.int8).get_output(0)
        return network.add_dequantize(codes, scale, trt.float32).get_output(0)

    def kernel(array: np.ndarray) -> trt.ITensor:
        """Weights with a scale for each output."""
        if ranges is None:
            return constant(array)
        scales = np.abs(array).max(1) / LARGEST
        codes = np.rint(array / scales[:, None]).astype(np.int8)
        layer = network.add_dequantize(constant(codes), constant(scales), trt.float32)
        layer.axis = 0
        return layer.get_output(0)

    x = network.add_input("x", trt.float32, (-1, size.input))
    for n in range(len(size.layers)):
        x = x if ranges is None else in_codes(x, ranges[n])
        right = kernel(weights[f"{n}.weight"])
        x = network.add_matrix_multiply(x, matrix.NONE, right, matrix.TRANSPOSE).get_output(0)
        bias = constant(weights[f"{n}.bias"][None])
        x = network.add_elementwise(x, bias, trt.ElementWiseOperation.SUM).get_output(0)
        if n < len(size.layers) - 1:
            x = network.add_activation(x, trt.ActivationType.RELU).get_output(0)
    x.name = "scores"
    network.mark_output(x)


def build(size: Size, weights: Weights, ranges: list[float] | None = None) -> trt.ICudaEngine:
    """The engine for 1 to 4096 samples."""
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network, config = builder.create_network(), builder.create_builder_config()
    describe(network, size, weights, ranges)
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, size.input), (1024, size.input), (4096, size.input))
    config.add_optimization_profile(profile)
    engine = builder.build_engine_with_config(network, config)
    if engine is None:
        raise SystemExit("the build failed; the log says why")
    return engine


def main() -> None:
    """Train, build both, and compare how many samples they tell right."""
    size = Size()
    weights, (known, _) = trained(size), samples(size, 512, 50)
    engines = build(size, weights), build(size, weights, largest(size, weights, known))
    x, wanted = samples(size, 4096, 7)
    exact, codes = (engine.run(x=x)["scores"] for engine in engines)
    for name, scores in (("float32", exact), ("int8", codes)):
        print(f"{name:8} {100 * (scores.argmax(1) == wanted).mean():.1f} % right")
    print(f"alike in {100 * (exact.argmax(1) == codes.argmax(1)).mean():.1f} % of the samples")


if __name__ == "__main__":
    main()
