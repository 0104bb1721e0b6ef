"""Sums over windows of 3 × 3 with fewer products: Winograd's minimal filtering, for tiles of m × m results.

    y[k, p, q] = Σ w[k, c, i, j] · x[c, p + i, q + j]

    ->  v[u, v, t, s, c] = Σ B[u, a] B[v, b] · x[c, m·t + a, m·s + b]     tiles of (m + 2)², m apart
        z[u, v, t, s, k] = Σ v[u, v, t, s, c] · (G w Gᵀ)[k, c, u, v]      a product of matrices at each place
        y[k, m·t + p, m·s + q] = Σ A[p, u] A[q, v] · z[u, v, t, s, k]

F(2, 3) needs 16 products instead of 36, F(4, 3) 36 instead of 144 (Lavin and Gray, "Fast Algorithms for
Convolutional Neural Networks", 2016). All three steps are ordinary contractions with ordinary loops; the last
kernel also computes the layers after y. If the tiles of a row fill vectors, they are the lanes, and nothing
is transposed; otherwise channels are the lanes. Tiles are whole: zeros are padded behind the input, and
surplus results are cut off.

The results are differences of sums, which lose digits. The loss depends on the points at which the
polynomials are evaluated. The points 0, ±3/4, ±3/2 and ∞, whose powers and products are exact in float32,
halve the error that the points 0, ±1, ±2 and ∞ have in F(4, 3).

Only v may overflow, not z or y. B is scaled so that v is at most 2⁶⁴ times the largest input, and the weights
of each k are scaled so that no z or y is larger than the largest v. The factor that restores y at the end is
at most 1. All scales are powers of two. If an element of v is infinite or NaN, every result of its tile is,
in each map, and `Mended` replaces these results by the sum itself. Tiles with inputs of 2⁶⁴ and more,
infinities or NaN therefore have the results of the sum, and other tiles never overflow. If a refit sets
weights that are too large for this, or not finite, the transformed weights are NaN: then all results are
mended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from math import ceil, isfinite, log, log2, nan, prod
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import Dim, add, ceildiv, maximum, mul, symbols, total
from anyrt.core.dimvalues import evaluate
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE, Machine
from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import Fail, transformed
from anyrt.prims import build
from anyrt.prims.closed import constant
from anyrt.prims.const import Blob, Const
from anyrt.prims.contract import Contract
from anyrt.prims.mended import Mended
from anyrt.prims.pad import Pad
from anyrt.prims.view import Axis, View

Labels = tuple[int, ...]
Array = NDArray[np.float64]

SIZE: Final = 3  # of windows
TILES: Final = (4, 2)  # results of a tile along an axis
POINTS: Final = {2: (0.0, 1.0, -1.0), 4: (0.0, 0.75, -0.75, 1.5, -1.5)}  # besides infinity
GAIN: Final = 1.16  # minimum ratio of the work: below it, the sum itself takes as long
# Products that take as long as the transfer of a byte, if two threads with AVX-512 compute 160 in 1 ns.
NEAR: Final = 6  # a byte of tiles whose columns are lanes, which are stored and loaded again
FAR: Final = 10  # a byte of weights, which are loaded once
FLOAT: Final = 4  # bytes
# Products that take as long as an element of a tile, which is computed, stored and loaded again: in the last
# cache (TURNED), and beyond it (LAST); measured on two threads with AVX-512.
TURNED: Final = 13
LAST: Final = 44
SHARE: Final = 4  # transformed tiles may fill a quarter of the last cache
RAISED: Final = 2.0**64  # upper bound of transformed tiles, relative to the largest input
LARGE: Final = 2.0**50  # of the largest weight times channels: above it, the last factor of y might exceed 1
LEAST_SCALE: Final = 2.0**-60  # of a map's weights, so that the last factor of y is representable in float32
SPARE: Final = 1.03  # margin of a map's weights, since sums and bfloat16 may round up
KNOWN: Final[Mapping[str, int]] = MappingProxyType({})
ONE_OF_EACH: Final = [(False, True), (True, False)]  # a position of windows, and a position within one


def winograd(
    graph: Graph,
    tiles: Sequence[int] = TILES,
    always: bool = False,
    usual: Mapping[str, int] = KNOWN,
    machine: Machine = REFERENCE,
) -> Graph:
    """The graph with tiles of one of these sizes where they reduce the work, or wherever possible if
    `always`. Open sizes count as the `usual` ones, by name."""
    few = machine.panel // 2  # fewer channels make short sums, and fewer channels or tiles empty lanes

    def change(old: Value, new: Value) -> Value:
        windows = _windows(new, few)
        if isinstance(windows, Fail):
            return new
        m = tiles[0] if always else _chosen(windows, tiles, _Price(usual, few, machine.last_bytes // SHARE))
        return new if m is None else _tiled(windows, m, few)

    return transformed(graph, change) if tiles else graph


@dataclass(frozen=True, slots=True)
class _Windows:
    """A sum of products of weights and windows of `x`, which slide along its two `axes`. Labels: `seen` are
    those of the windows, `kernel` of the weights, `out` of the result; `at` are the positions of windows,
    `inside` the positions within a window; `batch` and `maps` are labels of one factor alone, `channels` are
    summed."""

    x: Value
    view: View
    weights: Const
    seen: Labels
    kernel: Labels
    out: Labels
    axes: Labels
    at: Labels
    inside: Labels
    batch: Labels
    channels: Labels
    maps: Labels

    def size(self, label: int) -> Dim:
        """The extent of a label."""
        if label in self.seen:
            return self.view.shape[self.seen.index(label)]
        return self.weights.shape[self.kernel.index(label)]

    def volume(self, labels: Labels) -> int | None:
        """The number of elements along these labels, None if it is dynamic."""
        sizes = [d for d in map(self.size, labels) if isinstance(d, int)]
        return prod(sizes) if len(sizes) == len(labels) else None


def _windows(value: Value, few: int) -> _Windows | Fail:
    """The value as a sum over windows of 3 × 3 with stride 1, or the reason why it is none."""
    op = value.op
    if not isinstance(op, Contract) or {value.dtype, *(a.dtype for a in value.args)} != {DataType.FLOAT}:
        return Fail("it is no sum of products in float32")
    windows, weights, seen, kernel = *value.args, op.left, op.right
    if not isinstance(weights.op, Const):
        windows, weights, seen, kernel = weights, windows, kernel, seen
    view = windows.op
    if not isinstance(view, View) or not isinstance(weights.op, Const):
        return Fail("it is no sum over windows with constant weights")
    axes = tuple(k for k, moving in enumerate(view.windows) if moving)
    pairs = [_some(seen, view.windows[k]) for k in axes]
    slid = tuple(chain.from_iterable(pairs))
    inside = _without(slid, {*slid} - {*kernel} | {*op.out})
    at, maps = _without(slid, kernel), _without(kernel, seen)
    batch, channels = _without(seen, (*kernel, *at)), _without(seen, {*seen} - {*kernel} | {*inside})
    (x,) = windows.args
    sums = _Windows(x, view, weights.op, seen, kernel, op.out, axes, at, inside, batch, channels, maps)
    return _misfit(sums, pairs) or _doubt(sums, few) or sums


def _some(labels: Labels, places: Sequence[int]) -> Labels:
    return tuple(labels[k] for k in places)


def _without(labels: Labels, others: Collection[int]) -> Labels:
    return tuple(label for label in labels if label not in others)


def _misfit(f: _Windows, pairs: Sequence[Labels]) -> Fail | None:
    """The reason why it is no sum over windows of 3 × 3 with stride 1."""
    moving = [out for axis in f.view.axes for out, _ in axis.terms]
    if len(f.axes) != 2 or len(moving) != len(set(moving)):
        return Fail("its windows do not slide along two axes")
    if any(sorted((label in f.at, label in f.inside) for label in pair) != ONE_OF_EACH for pair in pairs):
        return Fail("its weights are not those of windows")
    if any(step != 1 for k in f.axes for _, step in f.view.axes[k].terms):
        return Fail("it has strides, or gaps in its windows")
    if any(f.size(label) != SIZE for label in f.inside):
        return Fail("its windows are not 3 × 3")
    return None


def _doubt(f: _Windows, few: int) -> Fail | None:
    """The reason why tiles would change its numbers, or would not be faster."""
    if sorted(f.out) != sorted((*f.batch, *f.at, *f.maps)):
        return Fail("it has groups")
    if min(channels := f.volume(f.channels) or 0, f.volume(f.maps) or 0) < few:
        return Fail("it has few channels")
    if f.weights.blob.is_known and not float(np.abs(f.weights.blob.data).max()) * channels < LARGE:
        return Fail("its weights are not finite, or large")
    if isinstance(f.x.op, Pad) and not isfinite(f.x.op.value):
        return Fail("its border is not finite")
    return None


@dataclass(frozen=True, slots=True)
class _Price:
    """The parameters of the work: `usual` sizes, a number of lanes that is too low (`few`), and the bytes of
    tiles that exceed the cache (`far`)."""

    usual: Mapping[str, int]
    few: int
    far: int


def _chosen(f: _Windows, tiles: Sequence[int], price: _Price) -> int | None:
    """The tile with the least work; None if sizes are unknown, or the sum itself takes hardly more."""
    if any(s.name not in price.usual for k in (*f.batch, *f.at) for s in symbols(f.size(k))):
        return None
    best = min(tiles, key=lambda m: _work(f, m, price))
    return best if GAIN * _work(f, best, price) <= _work(f, 1, price) else None


def _work(f: _Windows, m: int, price: _Price) -> float:
    """The estimated time in products; with m = 1, that of the sum itself."""
    c, k = f.volume(f.channels) or 1, f.volume(f.maps) or 1
    along, batch = ([max(1, evaluate(f.size(x), price.usual)) for x in some] for some in (f.at, f.batch))
    places, tiles = (m + SIZE - 1) ** 2, prod(-(-d // m) for d in along) * prod(batch)
    products = places * (tiles * c * k + FAR * FLOAT * c * k)
    if m == 1:
        return products
    if _across(f, m, price.few):
        turned = places * tiles * (c * places + k * m * m)
        return products + turned + NEAR * FLOAT * 2 * places * tiles * (c + k)
    return products + (LAST if FLOAT * places * tiles * c > price.far else TURNED) * places * tiles * (c + k)


def _tiled(f: _Windows, m: int, few: int) -> Value:
    """The three contractions, and the parts of their results that the output has."""
    inputs, weights, outputs = matrices(m)
    new = 1 + max(*f.seen, *f.kernel)
    places, within = (new, new + 1), dict(zip(f.at, (new + 2, new + 3), strict=True))
    across = _across(f, m, few)

    def order(channels: Labels) -> Labels:
        return (*places, *f.batch, *((*channels, *f.at) if across else (*f.at, *channels)))

    def sums(a: Value, left: Labels, b: Value, right: Labels, out: Labels) -> Value:
        return apply(Contract(left, right, out, DataType.FLOAT), a, b)

    turned, products = order(f.channels), order(f.maps)
    to = tuple(x for k in f.out for x in ((k, within[k]) if k in within else (k,)))
    raised = RAISED * 2.0 ** -ceil(log2(np.abs(inputs).sum(1).max() ** 2))
    w, kernel, scale = _transformed(f, weights, outputs, raised, places, across)
    padded = _padded(f.x, _behind(f, m))
    v = sums(_square(inputs, raised), (*places, *f.inside), _cut(f, padded, m), f.seen, turned)
    z = sums(w, kernel, v, turned, products) if across else sums(v, turned, w, kernel, products)
    y = sums(_square(outputs), (*within.values(), *places), z, products, to)
    whole = tuple(mul(_count(f, f.at.index(k), m), m) if k in within else f.size(k) for k in f.out)
    y = _scaled(f, build.reshape(y, whole), build.map_("mul", scale, build.scalar(1 / raised, scale)))
    windows = build.windows(padded, f.view.axes, f.view.shape)
    return apply(Mended(f.seen, f.kernel, f.out), y, windows, apply(f.weights))


def _across(f: _Windows, m: int, few: int) -> bool:
    """True if the tiles of a row fill vectors, and are the lanes."""
    columns = _count(f, 1, m)
    return isinstance(columns, int) and columns >= few


def _scaled(f: _Windows, y: Value, scale: Value) -> Value:
    """The results without the surplus ones of whole tiles, each map times its scale."""
    sizes = [f.size(k) for k in f.out]
    y = build.slice_(y, [0] * len(sizes), sizes, [1] * len(sizes))
    scale = constant(build.cast(scale, DataType.FLOAT), f.weights.blob.name)
    along = build.transpose(scale, [f.maps.index(k) for k in f.out if k in f.maps])
    return build.map_("mul", y, build.reshape(along, tuple(f.size(k) if k in f.maps else 1 for k in f.out)))


def _count(f: _Windows, axis: int, m: int) -> Dim:
    """The number of tiles along the first or second axis."""
    return ceildiv(f.size(f.at[axis]), m)


def _cut(f: _Windows, padded: Value, m: int) -> Value:
    """The tiles of `x`, with the labels of its windows."""
    axes, shape = [*f.view.axes], [*f.view.shape]
    for n, (k, at, inside) in enumerate(zip(f.axes, f.at, f.inside, strict=True)):
        place, element = f.seen.index(at), f.seen.index(inside)
        shape[place], shape[element] = _count(f, n, m), m + SIZE - 1
        axes[k] = Axis(axes[k].start, place, m, ((element, 1),))
    return build.windows(padded, axes, tuple(shape))


def _behind(f: _Windows, m: int) -> list[Dim]:
    """The elements that tiles read behind the end of `x`."""
    behind: list[Dim] = [0] * f.x.type.rank
    for n, k in enumerate(f.axes):
        end = total((f.view.axes[k].start, mul(_count(f, n, m), m), SIZE - 1))
        behind[k] = maximum(0, add(end, mul(f.x.shape[k], -1)))
    return behind


def _padded(x: Value, behind: Sequence[Dim]) -> Value:
    """`x` with a border behind it, joined with its own border."""
    if isinstance(x.op, Pad):
        return build.pad(x.args[0], x.op.lo, [*map(add, x.op.hi, behind)], x.op.value)
    return build.pad(x, [0] * len(behind), behind, 0.0)


def _transformed(
    f: _Windows, matrix: Array, outputs: Array, largest: float, places: Labels, across: bool
) -> tuple[Value, Labels, Value]:
    """The weights at each place of a tile, with their labels, and the divisor of each map: either channels
    are rows and lie side by side, or maps become lanes, which pack_constants.py arranges in panels."""
    labels = (*f.maps, *f.channels)
    order = [f.kernel.index(label) for label in (*labels, *f.inside)]
    turned = build.cast(build.transpose(apply(f.weights), order), DataType.DOUBLE)
    columns = build.reshape(turned, (prod(f.volume((k,)) or 0 for k in labels), SIZE * SIZE))
    both = build.const(np.kron(matrix, matrix), DataType.DOUBLE)
    sizes, count, name = turned.shape[: len(labels)], len(matrix), f.weights.blob.name
    rows = build.contract("rs,us->ru", columns, both)
    each = build.reshape(rows, (f.volume(f.maps) or 0, f.volume(f.channels) or 0, count * count))
    scale = _scale(each, outputs, largest)
    rows = build.reshape(build.map_("div", each, scale), rows.shape)
    rows, scale = build.cast(rows, DataType.FLOAT), build.reshape(scale, sizes[: len(f.maps)])
    if across:
        flat = build.reshape(build.transpose(rows, (1, 0)), (build.volume(rows),))
        return build.reshape(constant(flat, name), (count, count, *sizes)), (*places, *labels), scale
    return constant(build.reshape(rows, (*sizes, count, count)), name), (*labels, *places), scale


def _scale(weights: Value, outputs: Array, largest: float) -> Value:
    """A power of two for each map, larger than any result of its transformed weights [map, channel, place]
    and the last transform for inputs of ±1; NaN for all maps if one result might exceed `largest`."""
    both = build.const(SPARE * np.abs(np.kron(outputs, outputs)), DataType.DOUBLE)
    sums = build.reduce_("sum", build.map_("abs", weights), (1,))
    most = build.reduce_("max", build.contract("kcu,pu->kcp", sums, both), (2,))
    fits = build.map_("le", build.reduce_("max", most, (0,)), build.scalar(largest / 2, most))
    most = build.map_("max", most, build.scalar(LEAST_SCALE, most))
    exponent = build.map_("ceil", build.map_("mul", build.map_("log", most), build.scalar(1 / log(2), most)))
    power = build.map_("pow", build.scalar(2.0, most), exponent)
    return build.map_("select", fits, power, build.scalar(nan, most))


def _square(matrix: Array, times: float = 1.0) -> Value:
    """The same transform along two axes: [r, s, u, v] of [r, u]."""
    both = times * np.einsum("ru,sv->rsuv", matrix, matrix)
    flat = both.reshape(-1).astype(np.float32)
    return apply(Const(Blob(flat, DataType.FLOAT), both.shape, is_part=True))


@lru_cache
def matrices(m: int) -> tuple[Array, Array, Array]:
    """(B, G, A): y = Aᵀ (G w · B d) are the m sums over windows of d, which has m + 2 elements.

    Row k of G is the value of the polynomial w at point k, and column k of A has the powers of that point.
    Row k of B is the polynomial that is 0 at all other points; its value at its own point divides row k of G,
    since weights are rounded only after their transform. Infinity stands for the highest coefficient."""
    points = POINTS[m]
    others = {x: [other for other in points if other != x] for x in points}
    zeros = [np.append(np.poly(others[x])[::-1], 0.0) for x in points]
    inputs = np.array([*zeros, np.poly(points)[::-1]])
    rows = [[x**k / prod(x - other for other in others[x]) for k in range(SIZE)] for x in points]
    weights = np.array([*rows, [0.0, 0.0, 1.0]])
    outputs = np.array([*([x**k for k in range(m)] for x in points), [0.0] * (m - 1) + [1.0]])
    return inputs, weights, outputs.T
