"""Fourier transforms as matrix products, window functions, and mel weights.

Numbers have one part or two (complex), so that a transform of n numbers to k is one matrix of
(n · parts, k · parts). With a data-dependent axis, each axis has a matrix; all but one are identities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from anyrt.api.compose.normalizations import wide
from anyrt.api.compose.sizes import Size, entries, larger, length, lengths, positions, smaller, window
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import DataType, UnaryOperation
from anyrt.onnx.node import Node, importer

D, U = DataType, UnaryOperation
MOST = 1 << 26  # numbers in a table
SHORT = 1 << 14


@dataclass(frozen=True, slots=True)
class Transform:
    """count: the number of numbers in the transform; inverse, onesided: as in ONNX's DFT; here: for a
    data-dependent axis, whether this axis is transformed; dtype: the type of the numbers, DOUBLE or FLOAT."""

    count: Size
    inverse: bool
    onesided: bool
    here: Tensor | None = None
    dtype: DataType = D.FLOAT

    def sizes(self, n: Size) -> tuple[Size, Size]:
        """The numbers of inputs that are read and of outputs, for an axis of `n` numbers."""
        half = self.count // 2 + 1 if self.onesided else self.count
        return (smaller(n, half), self.count) if self.inverse else (smaller(n, self.count), half)

    def chosen(self, size: Size, n: Size) -> Size:
        """`size` if the axis is transformed, otherwise `n`."""
        if self.here is None or (isinstance(size, int) and size == n):
            return size
        layers = self.here.layers
        a, b = (layers.constant([s], D.INT64) if isinstance(s, int) else s for s in (size, n))
        return entries(layers.where_(self.here.reshape((1,)), a, b))[0]


def _angles(node: Node, n: Size, how: Transform) -> tuple[Tensor, Tensor]:
    """Cosines and sines of 2π j k / n, weighted: (numbers read, numbers written)."""
    read, written = how.sizes(n)
    if isinstance(n, int) and isinstance(how.count, int):
        return _known(node, n, (_int(read), _int(written)), how)
    rows, columns = how.chosen(read, n), how.chosen(written, n)
    j, k = positions(node, rows).unsqueeze(1), positions(node, columns).unsqueeze(0)
    m = node.constant([[how.count]], D.INT64) if isinstance(how.count, int) else how.count.reshape((1, 1))
    cosines, sines = _circle(node, j * k - j * k // m * m, m, how.dtype)
    if how.inverse:
        scale = 1.0 / m.cast(how.dtype)
        if how.onesided:
            is_single = j.equal(0) | (j * 2).equal(m)
            scale = scale * node.where_(is_single, node.like(1.0, scale), node.like(2.0, scale))
        cosines, sines = cosines * scale, sines * scale
    if how.here is None:
        return cosines, sines
    here = how.here.reshape((1, 1))
    same = j.equal(k).cast(how.dtype)
    return node.where_(here, cosines, same), node.where_(here, sines, node.like(0.0, sines))


def _int(size: Size) -> int:
    assert isinstance(size, int), "sizes of known ones are known"
    return size


def _circle(node: Node, at: Tensor, n: Tensor, dtype: DataType) -> tuple[Tensor, Tensor]:
    """Cosines and sines of 2π at / n, from small angles, so that 0 and 1 are exact."""
    near = at.minimum(n - at)
    unit = math.pi / n.cast(dtype)
    cosines = node.unary(U.SIN, (n - near * 4).cast(dtype) * unit * 0.5)
    sines = node.unary(U.SIN, (near * 2).minimum(n - near * 2).cast(dtype) * unit)
    return cosines, node.where_(near < at, -sines, sines)


def _known(node: Node, n: int, sizes: tuple[int, int], how: Transform) -> tuple[Tensor, Tensor]:
    """The same as constants; for a data-dependent axis in the larger of two shapes, then cropped."""
    rows, columns = sizes if how.here is None else (max(sizes[0], n), max(sizes[1], n))
    if rows * columns > MOST:
        raise node.unsupported(f"a transform of {rows} numbers to {columns}", "transform shorter frames")
    count = _int(how.count)
    # Short transforms sum in float64, which costs little and keeps zeros close to zero.
    dtype = D.DOUBLE if rows * columns <= SHORT else how.dtype
    turns = np.outer(np.arange(rows), np.arange(columns)) % count / count * 2 * np.pi
    weights = _weights(np.arange(rows).reshape(-1, 1), count, how)
    tables = [node.constant(f(turns) * weights, dtype) for f in (np.cos, np.sin)]
    if how.here is None:
        return tables[0], tables[1]
    lengths = [how.chosen(size, n) for size in sizes]
    others = np.eye(rows, columns), np.zeros((rows, columns))
    here = how.here.reshape((1, 1))
    cosines, sines = (
        node.slice(node.where_(here, a, node.constant(b, dtype)), [0, 0], lengths)
        for a, b in zip(tables, others, strict=True)
    )
    return cosines, sines


def _weights(j: np.ndarray, n: int, how: Transform) -> np.ndarray:
    """The weights of an inverse: 1 / n, and twice that for frequencies that represent two."""
    if not how.inverse:
        return np.ones_like(j, np.float64)
    return np.where((j == 0) | (2 * j == n) | (not how.onesided), 1, 2) / n


def _table(node: Node, n: Size, parts: tuple[int, int], how: Transform) -> Tensor:
    """The matrix for `n` numbers; parts: those of a number before and after the transform."""
    rows, columns = (how.chosen(size, n) for size in how.sizes(n))
    cosines, sines = (x.reshape([rows, 1, columns, 1]) for x in _angles(node, n, how))
    sign = -sines if not how.inverse else sines
    real, imaginary = [cosines, sign][: parts[1]], [-sign, cosines][: parts[1]]
    table = node.concat([node.concat(x, 3) for x in (real, imaginary)[: parts[0]]], 1)
    return table.reshape([rows * parts[0], columns * parts[1]])


def _transformed(node: Node, x: Tensor, axis: int, how: Transform, parts: int) -> Tensor:
    """`x`, (…, parts before), transformed along one axis to (…, parts after)."""
    before, n = x.sizes[-1], length(x, axis)
    how = replace(how, dtype=wide(x).dtype)
    read, written = (how.chosen(size, n) for size in how.sizes(n))
    order = [a for a in range(x.rank - 1) if a != axis]
    moved = window(x, axis, 0, read).transpose(*order, axis, x.rank - 1)
    kept = lengths(moved)[:-2]
    table = _table(node, n, (before, parts), how)
    y = node.matmul(moved.reshape([*kept, read * before]).cast(table.dtype), table)
    y = y.reshape([*kept, written, parts]).cast(x.dtype)
    places = [*order, axis]
    return y.transpose(*(places.index(a) for a in range(x.rank - 1)), x.rank - 1)


@importer("DFT")
def fourier(node: Node) -> Tensor:
    """DFT: of real or complex numbers along an axis, an attribute until opset 19."""
    x, count_input = node.input(0), node.optional(1)
    if x.sizes[-1] not in (1, 2):
        raise node.unsupported(
            f"numbers of {x.sizes[-1]} parts", "use 1 (real) or 2 (complex) as the last size"
        )
    inverse, onesided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    count = None if count_input is None else entries(count_input)[0]
    where = node.optional(2) if node.version >= 20 else None
    known = (node.attr("axis", 1) if node.version < 20 else -2,) if where is None else node.ints(where)
    parts = 1 if inverse and onesided else 2
    if known is not None:
        axis = known[0] % x.rank
        return _transformed(node, x, axis, Transform(_count(x, axis, count, parts), inverse, onesided), parts)
    assert where is not None, "a run decides the axis"
    return _along_any(node, x, where.reshape(()), count, Transform(0, inverse, onesided))


def _count(x: Tensor, axis: int, count: Size | None, parts: int) -> Size:
    n = length(x, axis) if count is None else count
    return larger((n - 1) * 2, 1) if count is None and parts == 1 else n


def _along_any(node: Node, x: Tensor, where: Tensor, count: Size | None, how: Transform) -> Tensor:
    """DFT along a data-dependent axis: each axis multiplies by its own matrix."""
    parts = 1 if how.inverse and how.onesided else 2
    if x.sizes[-1] == 1:
        x = node.concat([x, node.where_(x.equal(x), node.like(0.0, x), node.like(0.0, x))], x.rank - 1)
    for axis in range(x.rank - 1):
        here = where.equal(axis) | where.equal(axis - x.rank)
        each = replace(how, count=_count(x, axis, count, parts), here=here)
        x = _transformed(node, x, axis, each, 2)
    return window(x, -1, 0, parts)


@importer("STFT")
def short_fourier(node: Node) -> Tensor:
    """STFT: DFT of frames of a signal at regular distances, times a window."""
    signal, window, frame = node.input(0), node.optional(2), node.optional(3)
    signal = signal if signal.rank == 3 else signal.unsqueeze(2)
    (step,) = entries(node.input(1))
    n = length(signal, 1)
    count = entries(frame)[0] if frame is not None else n if window is None else length(window, 0)
    frames = (n - count) // step + 1
    moved = positions(node, frames) * step
    at = moved.reshape((-1, 1)) + positions(node, count).unsqueeze(0)
    cut = node.gather(signal, at, 1)
    if window is not None:
        cut = cut * window.reshape((1, 1, -1, 1))
    return _transformed(node, cut, 2, Transform(count, False, bool(node.attr("onesided", 1))), 2)


def _window(node: Node, mean: float, wave: float, second: float = 0.0) -> Tensor:
    """mean − wave · cos 2πk/n + second · cos 4πk/n for each k; symmetric unless `periodic` is set. ONNX's
    function computes it in float32 for every type."""
    (count,), to = entries(node.input(0)), node.dtype("output_datatype", D.FLOAT)
    dtype = to if to is D.DOUBLE else D.FLOAT
    around = count if node.attr("periodic", 1) else count - 1
    turn = node.constant([2 * math.pi], dtype) / _number(node, around, dtype)
    angle = positions(node, count).cast(dtype) * turn
    y = mean - node.unary(U.COS, angle) * wave
    return (y + node.unary(U.COS, angle * 2.0) * second if second else y).cast(to)


def _number(node: Node, size: Size, dtype: DataType) -> Tensor:
    return node.constant([size], dtype) if isinstance(size, int) else size.cast(dtype)


@importer("HannWindow")
def hann_window(node: Node) -> Tensor:
    """The Hann window, from 0 to 1 and back."""
    return _window(node, 0.5, 0.5)


@importer("HammingWindow")
def hamming_window(node: Node) -> Tensor:
    """The Hamming window, which begins at 2/23."""
    return _window(node, 25 / 46, 21 / 46)


@importer("BlackmanWindow")
def blackman_window(node: Node) -> Tensor:
    """The Blackman window, with a second cosine of half the period."""
    return _window(node, 0.42, 0.5, 0.08)


@importer("MelWeightMatrix")
def mel_weights(node: Node) -> Tensor:
    """Triangles over frequencies, whose corners are evenly spaced on the mel scale."""
    (bins,), (count,) = (entries(node.input(i)) for i in range(2))
    edges, to = [node.input(i) for i in (3, 4)], node.dtype("output_datatype", D.FLOAT)
    dtype = D.DOUBLE if D.DOUBLE in (to, *(x.dtype for x in edges)) else D.FLOAT
    low, high = (_mel(node, x.reshape((1,)).cast(dtype)) for x in edges)
    corner = positions(node, bins + 2).cast(dtype)
    width = (high - low) / (bins + 2 if isinstance(bins, int) else (bins + 2).cast(dtype))
    hertz = (node.unary(U.EXP, (corner * width + low) * (math.log(10) / 2595)) - 1.0) * 700.0
    rate = node.input(2).reshape((1,)).cast(dtype)
    longer = float(count + 1) if isinstance(count, int) else (count + 1).cast(dtype)
    places = node.unary(U.FLOOR, hertz * longer / rate)
    left, middle, right = (window(places, 0, k, bins).unsqueeze(0) for k in range(3))
    at = positions(node, count // 2 + 1).cast(dtype).unsqueeze(1)
    zero = node.like(0.0, at)
    rises = node.where_(at < left, zero, node.where_(at > middle, zero, (at - left) / (middle - left)))
    rises = node.where_(left.equal(middle), at.equal(middle).cast(dtype), rises)
    falls = ~(at < middle) & (at < right)
    return node.where_(falls, (right - at) / (right - middle), rises).cast(to)


def _mel(node: Node, hertz: Tensor) -> Tensor:
    return node.unary(U.LOG, hertz / 700.0 + 1.0) * (2595 / math.log(10))
