"""Products with weights of a few bits in blocks of 32, each with a scale, as ONNX models of one node.

python -m benchmarks.bits.products FOLDER MODEL FORM ...     a form as `Form` names it

>>> Product(1, 2048, 4096).name, Product.parse("product_1x2048x4096") == Product(1, 2048, 4096)
('product_1x2048x4096', True)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.bits.files import Facts, Files, Form
from benchmarks.machine import last_cache_bytes
from benchmarks.onnx_writer import model_of
from benchmarks.values import Array, Floats

BLOCK = 32
OPSET, IR_VERSION = 17, 10
PREFIX = "product_"
PART = 512  # results whose weights are float64 at a time
BITS = {
    Form.I2: (2, 0),
    Form.I4: (4, 0),
    Form.I4_LEVEL4: (4, 4),
    Form.I8: (8, 0),
    Form.I8_LEVEL4: (8, 4),
    Form.F32: (4, 0),
}
LARGER = 2  # than the last cache: none of the weights are in it when they are read again


@dataclass(frozen=True, slots=True)
class Product:
    """x: (rows, terms) times weights: (results, terms), transposed."""

    rows: int
    terms: int
    results: int

    @property
    def sizes(self) -> str:
        """Rows, terms and results."""
        return f"{self.rows}x{self.terms}x{self.results}"

    @property
    def name(self) -> str:
        """The name of the model."""
        return PREFIX + self.sizes

    @classmethod
    def parse(cls, name: str) -> Self:
        """The product of a name."""
        return cls(*map(int, name.removeprefix(PREFIX).split("x")))

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.rows * self.terms * self.results

    def packed_bytes(self, bits: int) -> int:
        """Bytes of codes and scales."""
        return self.terms * self.results * bits // 8 + 4 * self.terms // BLOCK * self.results

    @property
    def moved_bytes(self) -> int:
        """Bytes that are read and written besides the weights."""
        return 4 * self.rows * (self.terms + self.results)


def streamed(cache_bytes: int | None = None, terms: int = 4096) -> Product:
    """One row whose weights of 4 bits do not fit into the last cache, by a factor.

    >>> streamed(32 << 20)
    Product(rows=1, terms=4096, results=26368)
    """
    cache = last_cache_bytes() if cache_bytes is None else cache_bytes
    each = 256 * Product(1, terms, 1).packed_bytes(4)
    return Product(1, terms, 256 * -(-LARGER * cache // each))


@dataclass(frozen=True, slots=True)
class Weights:
    """codes: (results, blocks, bytes of a block), the first code lowest; scales: (results, blocks)."""

    codes: Array
    scales: Floats
    bits: int

    def numbers(self, begin: int, end: int) -> Floats:
        """Those of some results, exactly as float32 has them: (results, terms)."""
        shifts = np.arange(0, 8, self.bits, dtype=np.uint8)
        codes = (self.codes[begin:end, :, :, None] >> shifts) & ((1 << self.bits) - 1)
        steps = codes.reshape(*self.scales[begin:end].shape, BLOCK).astype(np.float32)
        numbers = (steps - (1 << (self.bits - 1))) * self.scales[begin:end, :, None]
        return np.asarray(numbers.reshape(end - begin, -1), np.float32)


def weights(size: Product, bits: int) -> Weights:
    """Random weights, the same in every run."""
    random, blocks = np.random.default_rng(4), size.terms // BLOCK
    codes = random.integers(0, 256, (size.results, blocks, BLOCK * bits // 8), np.uint8)
    scales = random.uniform(0.01, 0.1, (size.results, blocks)).astype(np.float32)
    return Weights(codes, scales, bits)


def input_of(size: Product) -> Floats:
    """The left operand."""
    return np.random.default_rng(7).standard_normal((size.rows, size.terms), np.float32)


def exact(size: Product, held: Weights) -> Array:
    """The product in float64."""
    x = input_of(size).astype(np.float64)
    return np.concatenate([x @ part.astype(np.float64).T for part in _parts(size, held)], 1)


def _parts(size: Product, held: Weights) -> Iterator[Floats]:
    for begin in range(0, size.results, PART):
        yield held.numbers(begin, min(size.results, begin + PART))


def coded(size: Product, held: Weights, level: int) -> onnx.ModelProto:
    """A model of one MatMulNBits node."""
    sizes: dict[str, Any] = {"K": size.terms, "N": size.results, "bits": held.bits, "block_size": BLOCK}
    node = helper.make_node(
        "MatMulNBits", ["x", "codes", "scales"], ["y"], domain="com.microsoft", accuracy_level=level, **sizes
    )
    constants = {"codes": held.codes, "scales": held.scales.reshape(-1)}
    return _model(size, node, constants)


def wide(size: Product, held: Weights) -> onnx.ModelProto:
    """A product of the same numbers in float32."""
    return _model(
        size,
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        {"w": np.concatenate([*_parts(size, held)]).T.copy()},
    )


def _model(size: Product, node: onnx.NodeProto, constants: dict[str, Array]) -> onnx.ModelProto:
    x, y = ((TensorProto.FLOAT, (size.rows, columns)) for columns in (size.terms, size.results))
    opsets = {"": OPSET, "com.microsoft": 1}
    return model_of([node], size.name, ({"x": x}, {"y": y}), constants, opsets, IR_VERSION)


def export(folder: Path, name: str, forms: Iterable[Form]) -> None:
    """Write the models of these forms, the input and the float64 result. The float32 model has the numbers of
    the 4-bit weights."""
    files, size = Files(folder, name), Product.parse(name)
    held = {bits: weights(size, bits) for bits, _ in {BITS[f] for f in forms}}
    for form in forms:
        bits, level = BITS[form]
        model = wide(size, held[bits]) if form is Form.F32 else coded(size, held[bits], level)
        files.of(form).write_bytes(model.SerializeToString())
        files.keep_expected([exact(size, held[bits])], form)
    files.keep("inputs", {"x": input_of(size)})
    packed = {f.value: size.packed_bytes(BITS[f][0]) for f in forms if f is not Form.F32}
    files.keep_facts(Facts(size.flops, 4 * size.terms * size.results, size.moved_bytes, packed))


if __name__ == "__main__":
    export(Path(sys.argv[1]), sys.argv[2], [Form(f) for f in sys.argv[3:]])
