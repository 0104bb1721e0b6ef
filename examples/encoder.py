"""A transformer's encoder of six layers, with random weights: attention, products, layer normalisation, GELU.

python examples/encoder.py
"""

from dataclasses import dataclass

import numpy as np

import anyrt as trt

EPSILON = 1e-5
Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class Size:
    """Layers, tokens, numbers a token, heads of attention, and numbers a token between the two products."""

    layers: int = 6
    tokens: int = 32
    width: int = 128
    heads: int = 4
    hidden: int = 512


def random_weights(size: Size, seed: int = 0) -> Weights:
    """Every weight by its name in PyTorch's TransformerEncoderLayer; matrices as (out, in)."""
    random, out = np.random.default_rng(seed), Weights()

    def add(name: str, *shape: int) -> None:
        out[f"{name}weight"] = (random.standard_normal(shape) * shape[-1] ** -0.5).astype(np.float32)
        out[f"{name}bias"] = (random.random(shape[0]) - 0.5).astype(np.float32)

    for layer in range(size.layers):
        name = f"layers.{layer}"
        add(f"{name}.self_attn.in_proj_", 3 * size.width, size.width)
        add(f"{name}.self_attn.out_proj.", size.width, size.width)
        add(f"{name}.linear1.", size.hidden, size.width)
        add(f"{name}.linear2.", size.width, size.hidden)
        for norm in ("norm1", "norm2"):
            add(f"{name}.{norm}.", size.width)
            out[f"{name}.{norm}.weight"] = (random.random(size.width) + 0.5).astype(np.float32)
    return out


def describe(network: trt.INetworkDefinition, size: Size, weights: Weights) -> None:
    """From "tokens" to "encoded", each layer normalised after its sums."""
    op, matrix = trt.ElementWiseOperation, trt.MatrixOperation

    def constant(array: np.ndarray) -> trt.ITensor:
        shape = (1,) * (3 - array.ndim) + array.shape
        return network.add_constant(shape, array).get_output(0)

    def add(a: trt.ITensor, b: trt.ITensor) -> trt.ITensor:
        return network.add_elementwise(a, b, op.SUM).get_output(0)

    def dense(x: trt.ITensor, kernel: np.ndarray, bias: np.ndarray) -> trt.ITensor:
        layer = network.add_matrix_multiply(x, matrix.NONE, constant(kernel), matrix.TRANSPOSE)
        return add(layer.get_output(0), constant(bias))

    def normalized(x: trt.ITensor, name: str) -> trt.ITensor:
        gain, bias = constant(weights[f"{name}.weight"]), constant(weights[f"{name}.bias"])
        layer = network.add_normalization_v2(x, gain, bias, 1 << 2)
        layer.epsilon = EPSILON
        return layer.get_output(0)

    def split(x: trt.ITensor) -> trt.ITensor:
        """(1, tokens, width) as (1, heads, tokens, width / heads)."""
        layer = network.add_shuffle(x)
        layer.reshape_dims, layer.second_transpose = (1, size.tokens, size.heads, -1), (0, 2, 1, 3)
        return layer.get_output(0)

    def attended(x: trt.ITensor, name: str) -> trt.ITensor:
        kernels = np.split(weights[f"{name}.in_proj_weight"], 3)
        biases = np.split(weights[f"{name}.in_proj_bias"], 3)
        root = np.float32((size.width / size.heads) ** -0.5)  # the layer itself divides by nothing
        kernels[0], biases[0] = kernels[0] * root, biases[0] * root
        query, key, value = (split(dense(x, k, b)) for k, b in zip(kernels, biases, strict=True))
        layer = network.add_attention(query, key, value, trt.AttentionNormalizationOp.SOFTMAX, False)
        joined = network.add_shuffle(layer.get_output(0))
        joined.first_transpose, joined.reshape_dims = (0, 2, 1, 3), (1, size.tokens, size.width)
        y = joined.get_output(0)
        return dense(y, weights[f"{name}.out_proj.weight"], weights[f"{name}.out_proj.bias"])

    x = network.add_input("tokens", trt.float32, (1, size.tokens, size.width))
    for layer in range(size.layers):
        name = f"layers.{layer}"
        x = normalized(add(x, attended(x, f"{name}.self_attn")), f"{name}.norm1")
        y = dense(x, weights[f"{name}.linear1.weight"], weights[f"{name}.linear1.bias"])
        y = network.add_activation(y, trt.ActivationType.GELU_ERF).get_output(0)
        y = dense(y, weights[f"{name}.linear2.weight"], weights[f"{name}.linear2.bias"])
        x = normalized(add(x, y), f"{name}.norm2")
    x.name = "encoded"
    network.mark_output(x)


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
    """A text of noise."""
    size = Size()
    engine = build(size, random_weights(size))
    tokens = np.random.default_rng(1).standard_normal((1, size.tokens, size.width), np.float32)
    encoded = engine.run(tokens=tokens)["encoded"]
    print("encoded", encoded.shape, "largest", round(float(np.abs(encoded).max()), 1))


if __name__ == "__main__":
    main()
