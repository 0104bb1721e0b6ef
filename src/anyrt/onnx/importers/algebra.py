"""Einsum and determinants."""

from __future__ import annotations

from collections import Counter
from string import ascii_lowercase

import numpy as np

from anyrt.api.compose.normalizations import wide
from anyrt.api.compose.ordered import best
from anyrt.api.compose.sizes import window
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import DataType, ReduceOperation, TopKOperation, UnaryOperation
from anyrt.onnx.node import Node, importer

R, INT64 = ReduceOperation, DataType.INT64
LARGEST = 64  # maximum rows of a matrix for the elimination
BYTES = {DataType.INT8: DataType.INT32, DataType.UINT8: DataType.INT32}


@importer("Einsum")
def einsum(node: Node) -> Tensor:
    """An Einsum layer, which supports only lowercase letters."""
    inputs = node.present()
    dtype = inputs[0].dtype
    ready = [x.cast(BYTES.get(dtype, dtype)).it for x in inputs]
    return node.layer("add_einsum", ready, _small(node.required("equation", ""))).cast(dtype)


def _small(equation: str) -> str:
    """The equation with lowercase letters, and with an explicit output."""
    text = "".join(equation.split())
    if text == text.lower():
        return text
    if "->" not in text:
        counts = Counter(text.replace(".", "").replace(",", ""))
        dots = "..." if "..." in text else ""
        text = f"{text}->{dots}{''.join(sorted(c for c, n in counts.items() if n == 1))}"
    used = sorted({c for c in text if c.isalpha()})
    small = dict(zip(used, ascii_lowercase, strict=False))
    return "".join(small.get(c, c) for c in text)


@importer("Det")
def determinant(node: Node) -> Tensor:
    """The product of the pivots of an elimination. Each pivot is the largest remaining element of its column.
    Rows are not exchanged; those of pivots become 0, and their order determines the sign."""
    x = node.input(0)
    n = x.sizes[-1]
    if not 0 < n <= LARGEST:
        raise node.unsupported(f"a matrix of {n} columns", f"use a static number of at most {LARGEST}")
    a, rows = wide(x), node.constant(np.arange(n).reshape(n, 1), INT64)
    product, places = None, []
    for k in range(n):
        column = window(a, -1, 0, 1)
        at = best(node, node.unary(UnaryOperation.ABS, column), TopKOperation.MAX, a.rank - 2)
        places.append(at)
        row = node.reduce(R.SUM, node.where_(at.equal(rows), a, node.like(0.0, a)), [-2])
        pivot = window(row, -1, 0, 1)
        product = pivot if product is None else product * pivot
        if k < n - 1:
            zero = node.like(0.0, a)
            factor = node.where_(pivot.equal(0.0), zero, column / pivot)
            a = window(a, -1, 1, n - 1 - k) - factor * window(row, -1, 1, n - 1 - k)
    assert product is not None, "there is a column"
    signed = product * _sign(node, places).cast(product.dtype)
    if x.is_float:  # a pivot of 0 would hide it
        spoilt = node.reduce(R.MAX, node.unary(UnaryOperation.ISNAN, x).cast(INT64), [-2, -1])
        signed = node.where_(spoilt.equal(1), node.like(np.nan, signed), signed)
    return signed.squeeze(-2, -1).cast(x.dtype)


def _sign(node: Node, places: list[Tensor]) -> Tensor:
    """The sign of the permutation of rows: 1 for an even number of inversions, −1 for an odd number."""
    down, n = node.concat(places, places[0].rank - 2), len(places)
    across = node.concat(places, places[0].rank - 1)
    later = node.constant(np.triu(np.ones((n, n), bool), 1))
    pairs = node.reduce(R.SUM, ((down > across) & later).cast(INT64), [-2, -1])
    return 1 - (pairs - pairs // 2 * 2) * 2
