"""MatMulNBits: products with packed weights of 2, 4 or 8 bits, in blocks with a scale each.

The weights become signed codes minus zero points, times scales, like those of DequantizeLinear, so the
kernels are the same. If `g_idx` assigns columns to blocks in another order, columns are sorted by blocks:
those of the weights now, those of the other factor in each inference. Incomplete blocks are padded with codes
that are multiplied by 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from anyrt.api.compose.tensor import Tensor
from anyrt.api.model.weights import Weights
from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType, SampleMode
from anyrt.core.errors import ArgumentError, DTypeError, NotSupportedError, ShapeError
from anyrt.onnx.importers.contrib import biased, contrib
from anyrt.onnx.importers.quantized import REALS, Grain, dequantized, numbers
from anyrt.onnx.node import Node

FLOAT, INT8, UINT8 = DataType.FLOAT, DataType.INT8, DataType.UINT8
SIGNED = {2: DataType.INT2, 4: DataType.INT4, 8: INT8}
UNSIGNED = {2: DataType.UINT2, 4: DataType.UINT4, 8: UINT8}
INDICES = frozenset({DataType.INT32, DataType.INT64})
LEVELS = range(5)
COARSE = 4  # the accuracy_level that permits int8
LEAST = 16  # terms of a block
WORD, BYTE = 32, 8  # bits
LONG = 2  # maximum growth of the number of columns by padding of blocks

Codes = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Form:
    """The attributes: weights of `rows` × `columns`, in blocks of `size` columns."""

    rows: int
    columns: int
    size: int
    bits: int

    @property
    def blocks(self) -> int:
        """The number of blocks in a row; the last one may be incomplete."""
        return -(-self.columns // self.size)

    @property
    def middle(self) -> int:
        """The code of 0 without zero points."""
        return 1 << (self.bits - 1)


@dataclass(frozen=True, slots=True)
class Order:
    """The positions of the columns of blocks of `size` among those of the model; −1: padding, whose weights
    are multiplied by 0. places: None for the order of the model, with padding after the last column."""

    size: int
    places: NDArray[np.int64] | None = None


@contrib("MatMulNBits")
def matmul_nbits(node: Node) -> Tensor:
    """x · weights, transposed, computed in float32."""
    form, x, bias = _form(node), node.input(0), _bias(node)
    _real(node, x, "an input")
    level = node.attr("accuracy_level", 0)
    if level not in LEVELS:
        got, wanted = f"accuracy_level {level}", "0 (the type of the input) to 4 (int8 is permitted)"
        raise ArgumentError("AR304", node.where, got, wanted, "set one of these")
    if x.rank < 1 or x.sizes[-1] not in (-1, form.columns):
        got, wanted = f"an input of shape {x.sizes}", f"K = {form.columns} columns"
        raise ShapeError("AR123", node.where, got, wanted, "use the number of columns of the weights")
    order = _order(node, form)
    weights = _weights(node, form, order)
    factor = _placed(node, x.cast(FLOAT), form, order)
    if level == COARSE:
        factor = _coarse(node, factor, order.size)
    y = node.matmul(factor, weights, turn_b=True)
    return biased(y, None if bias is None else bias.cast(FLOAT)).cast(x.dtype)


def _bias(node: Node) -> Tensor | None:
    """The bias of the product; None if there is none."""
    bias = node.optional(5)
    if bias is None:
        return None
    _real(node, bias, "a bias")
    rows = node.required("N", 0)
    if bias.sizes != (rows,):
        got, do = f"a bias of shape {bias.sizes}", "pass one value for each column of the result"
        raise ShapeError("AR123", node.where, got, f"({rows},)", do)
    return bias


def _real(node: Node, x: Tensor, what: str) -> None:
    """Raise AR202 unless the elements are float32, float16 or bfloat16."""
    if x.dtype not in REALS:
        got, wanted = f"{what} of {short_name(x.dtype)}", "float32, float16 or bfloat16"
        raise DTypeError("AR202", node.where, got, wanted, "cast it")


def _form(node: Node) -> Form:
    rows, columns, size = (node.required(n, 0) for n in ("N", "K", "block_size"))
    form = Form(rows, columns, size, node.attr("bits", 4))
    if form.bits not in SIGNED:
        got, do = f"weights of {form.bits} bits", "quantize them to 4 bits"
        raise NotSupportedError("AR901", node.where, got, "2, 4 or 8 bits", do)
    if form.size < LEAST or form.size & (form.size - 1):
        got, wanted = f"block_size {form.size}", f"a power of two, {LEAST} or more"
        raise ArgumentError("AR304", node.where, got, wanted, "quantize in blocks of this size")
    if form.rows < 1 or form.columns < 1:
        got = f"weights of N = {form.rows}, K = {form.columns}"
        raise ArgumentError("AR304", node.where, got, "sizes above 0", "set the sizes of the weights")
    return form


# ---- columns --------------------------------------------------------------------------------------


def _order(node: Node, form: Form) -> Order:
    """The order of columns in which those of a block are adjacent."""
    index = node.optional(4)
    if index is None:
        return Order(form.size)
    held = node.held(index)
    if held is None:
        raise node.unsupported("a computed g_idx", "make it a constant of the model")
    groups = np.asarray(held.elements()).reshape(-1)
    if index.dtype not in INDICES:
        got, do = f"g_idx of {short_name(index.dtype)}", "pass the numbers of blocks as integers"
        raise DTypeError("AR202", node.where, got, "int32", do)
    if groups.size not in (form.columns, form.blocks * form.size):
        got, wanted = f"g_idx of {groups.size} elements", f"{form.columns} elements, the block of each column"
        raise ShapeError("AR123", node.where, got, wanted, "pass one value per column")
    block = groups[: form.columns].astype(np.int64)
    wrong = block[(block < 0) | (block >= form.blocks)]
    if wrong.size:
        got, wanted = f"block {wrong[0]} in g_idx", f"0 to {form.blocks - 1}"
        raise ArgumentError("AR304", node.where, got, wanted, "use indices of blocks with a scale")
    if np.array_equal(block, np.arange(form.columns) // form.size):
        return Order(form.size)
    most, word = int(np.bincount(block).max()), WORD // form.bits
    size = -(-most // word) * word
    if size * form.blocks > LONG * form.blocks * form.size:
        return Order(1, block)
    places = np.full((form.blocks, size), -1)
    for k in range(form.blocks):
        own = np.flatnonzero(block == k)
        places[k, : own.size] = own
    return Order(size, places.reshape(-1))


def _placed(node: Node, x: Tensor, form: Form, order: Order) -> Tensor:
    """The columns of the other factor in this order, zeros for padding."""
    if x.sizes[-1] < 0:
        x = node.reshape(x, [*(0 for _ in x.sizes[1:]), form.columns], zero_copies=True)
    whole = form.blocks * form.size
    if order.size == 1 or (order.places is None and whole == form.columns):
        return x
    gaps = order.places is not None and bool((order.places < 0).any())
    wide = whole if order.places is None else form.columns + gaps
    if wide > form.columns:
        sizes = [*(node.size(x, k) if d < 0 else d for k, d in enumerate(x.sizes[:-1])), wide]
        x = node.slice(x, [0] * x.rank, sizes, mode=SampleMode.FILL)
    if order.places is None:
        return x
    at = np.where(order.places < 0, form.columns, order.places)
    return node.gather(x, node.constant(at, DataType.INT64), x.rank - 1)


def _coarse(node: Node, x: Tensor, size: int) -> Tensor:
    """Round numbers to int8 codes, with one scale per block of `size` terms."""
    layer = node.add("add_dynamic_quantize", x, x.rank - 1, size, INT8, FLOAT)
    codes, scale = node.outputs(layer)
    outer, blocks = [0] * (x.rank - 1), x.sizes[-1] // size  # a size of 0 keeps the size of the input
    parts = node.reshape(codes.cast(FLOAT), [*outer, blocks, size], zero_copies=True)
    each = node.reshape(scale, [*outer, blocks, 1], zero_copies=True)
    return node.reshape(parts * each, [*outer, blocks * size], zero_copies=True)


# ---- weights --------------------------------------------------------------------------------------


def _weights(node: Node, form: Form, order: Order) -> Tensor:
    """(code − zero) · scale, as FLOAT, with a row for each result and columns in this order."""
    codes, scales, zeros = _codes(node, form), _scales(node, form), _zeros(node, form)
    signed = zeros is None or not zeros.is_float
    middle, types = (form.middle, SIGNED) if signed else (0, UNSIGNED)
    if order.places is not None and order.size == 1:  # the scale of each column is that of its block
        at = node.constant(order.places, DataType.INT64)
        scales = node.gather(scales, at, 1)
        zeros = None if zeros is None else node.gather(numbers(zeros), at, 1)
        codes = codes[:, : form.columns]
    elif order.places is not None:
        codes = np.where(order.places < 0, form.middle, codes[:, np.maximum(order.places, 0)])
    held = node.constant(codes.astype(np.int16) - middle, types[form.bits])
    return dequantized(node, held, scales, zeros, grain=Grain(1, order.size))


def _codes(node: Node, form: Form) -> Codes:
    """The codes of the weights, with padding."""
    held, each = node.held(node.input(1)), form.size * form.bits // 8
    if held is None:
        raise node.unsupported("computed weights", "make them constants of the model")
    return _unpacked(node, held, (form.rows, form.blocks * each), form.bits, "weights")


def _scales(node: Node, form: Form) -> Tensor:
    """A scale for each block."""
    return _each(node, node.input(2), form, "a scale", "pass finite scales")


def _zeros(node: Node, form: Form) -> Tensor | None:
    """The zero points of the blocks: codes relative to the code of 0, or numbers."""
    zeros = node.optional(3)
    if zeros is None:
        return None
    if zeros.is_float:
        return _each(node, zeros, form, "a zero point", "pass finite zero points")
    held = node.held(zeros)
    if held is None:
        raise node.unsupported("computed zero points", "make them constants of the model")
    shape = (form.rows, -(-form.blocks * form.bits // 8))
    codes = _unpacked(node, held, shape, form.bits, "zero points")[:, : form.blocks]
    return node.constant(codes - form.middle, SIGNED[form.bits])


def _each(node: Node, x: Tensor, form: Form, what: str, do: str) -> Tensor:
    """Finite numbers, one for each block, as FLOAT."""
    _real(node, x, what)
    _check_shape(node, x.sizes, (form.rows, form.blocks), f"{what[2:]}s")
    held = node.held(x)
    values = np.asarray([] if held is None else held.elements()).astype(np.float32)
    wrong = values[~np.isfinite(values)]
    if wrong.size:
        raise ArgumentError("AR304", node.where, f"{what} of {wrong[0]:g}", "finite numbers", do)
    return x.cast(FLOAT).reshape((form.rows, form.blocks))


def _check_shape(node: Node, sizes: Sequence[int], rows: tuple[int, int], what: str) -> None:
    """Raise AR123 unless there are complete rows, either flat or along the first axis."""
    if -1 not in sizes and (prod(sizes) != prod(rows) or (len(sizes) > 1 and sizes[0] != rows[0])):
        got, wanted = (
            f"{prod(sizes)} {what} of shape {tuple(sizes)}",
            f"{prod(rows)}, {rows[0]} rows of {rows[1]}",
        )
        raise ShapeError("AR123", node.where, got, wanted, "pass complete rows")


def _unpacked(node: Node, held: Weights, shape: tuple[int, int], bits: int, what: str) -> Codes:
    """Unpack the elements of bytes, from the low bits on."""
    data = np.asarray(held.elements())
    if data.dtype.itemsize != 1 or data.dtype.kind not in "ui":
        got, do = f"{what} of {short_name(held.dtype)}", "pack them into bytes"
        raise DTypeError("AR202", node.where, got, "uint8", do)
    _check_shape(node, data.shape, shape, f"bytes of {what}")
    bytes, low = data.view(np.uint8).reshape(shape), (1 << bits) - 1
    parts = [bytes >> k & low for k in range(0, BYTE, bits)]
    return np.stack(parts, -1).reshape(shape[0], -1).astype(np.int16)
