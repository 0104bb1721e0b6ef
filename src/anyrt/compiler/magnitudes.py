"""Histograms of the magnitudes of tensors over many inferences, and the int8 ranges for them.

An inference outputs of each tensor its largest magnitude, or some of its elements, at most about `SHOWN`,
evenly spaced, or both: counting all of them would take longer than the inference. The bins are the leading
bits of float32, 1024 between powers of two, so that histograms with different maxima can be added.

>>> a, b = spread(np.float32([1, 2]), 2.0), spread(np.float32([-4]), 4.0)
>>> both = joined(a, b)
>>> both.most, both.quantile(1.0), round(both.quantile(0.5), 2)
(4.0, 4.0, 2.0)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd, prod
from typing import Final

import numpy as np
import numpy.typing as npt

from anyrt.core.dims import product
from anyrt.core.enums import DataType
from anyrt.ir.counted import computed_sizes, counted
from anyrt.ir.graph import Graph, Value
from anyrt.prims import build

Floats = npt.NDArray[np.float32]
Counts = npt.NDArray[np.float64]
SHOWN: Final = 1 << 14
DROPPED: Final = 13  # bits of float32 that bins ignore
OCTAVES: Final = 12  # below the largest number; smaller numbers are in the first bin
BINS: Final = OCTAVES << 23 - DROPPED
LINEAR: Final = 2048  # bins that entropy is computed of
LEVELS: Final = 128  # magnitudes that int8 represents
STRIDE: Final = 4  # bins from one tested range to the next


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Counts of magnitudes: the last bin is number `top`; `most`: the largest magnitude."""

    most: float
    top: int
    counts: Counts

    def linear(self, bins: int = LINEAR) -> Counts:
        """The counts in bins of one width from 0 to `most`."""
        numbers = np.arange(self.top - BINS + 1, self.top + 2)
        edges = (np.maximum(numbers, 0) << DROPPED).astype(np.uint32).view(np.float32).astype(np.float64)
        edges[0] = 0
        below = np.concatenate(([0], np.cumsum(self.counts)))
        at = np.interp(np.linspace(0, self.most, bins + 1), np.minimum(edges, self.most), below)
        at[-1] = below[-1]
        return np.diff(at)

    def quantile(self, share: float) -> float:
        """The least magnitude that is above all but at most `share` of the elements."""
        below = np.concatenate(([0], np.cumsum(self.linear())))
        return float(np.interp(share * below[-1], below, np.linspace(0, self.most, LINEAR + 1)))

    def entropy(self) -> float:
        """The range whose codes lose the least information."""
        return self.most * least_divergence(self.linear()) / LINEAR


def spread(some: Floats, most: float) -> Spread:
    """The magnitudes of elements of a tensor whose largest magnitude is `most`."""
    top = int(np.float32(most).view(np.uint32) >> DROPPED)
    numbers = (some.view(np.uint32) & 0x7FFFFFFF) >> DROPPED
    places = np.maximum(numbers.astype(np.int64) - (top - BINS + 1), 0)
    return Spread(most, top, np.bincount(places, minlength=BINS).astype(np.float64))


def joined(a: Spread, b: Spread) -> Spread:
    """The sum of both."""
    if a.top < b.top:
        a, b = b, a
    by, counts = min(a.top - b.top, BINS - 1), a.counts.copy()
    counts[: BINS - by] += b.counts[by:]
    counts[0] += b.counts[:by].sum()
    return Spread(max(a.most, b.most), a.top, counts)


def least_divergence(bins: Counts) -> int:
    """How many of the bins a range includes, as in "8-bit inference with TensorRT" (GTC 2017): larger
    magnitudes count as the last bin, groups of bins become one of 128 levels, and the Kullback-Leibler
    divergence of both is least. The first bin counts as its neighbour, since zeros need no code."""
    held = bins.copy()
    held[0] = held[1]
    tried = np.arange(LEVELS, len(held) + 1, STRIDE)
    starts = -(-np.arange(LEVELS + 1)[None] * tried[:, None] // LEVELS)
    below, filled = (np.concatenate(([0], np.cumsum(x))) for x in (held, held > 0))
    sums, many = np.diff(below[starts]), np.diff(filled[starts])
    with np.errstate(all="ignore"):
        levels = np.where(sums > 0, np.log(sums / many), 0)
        own = np.concatenate(([0], np.cumsum(np.where(held > 0, held * np.log(held), 0))))
        beyond, total = below[-1] - below[tried], below[-1]
        last = held[tried - 1]
        joint = last + beyond
        real = own[tried - 1] + np.where(joint > 0, joint * np.log(joint), 0)
        coded = (sums * levels).sum(1) + np.where(last > 0, beyond * levels[:, -1], 0)
        divergence = (real - coded) / total - np.log(total) + np.log(below[tried])
    divergence[(beyond > 0) & (last == 0)] = np.inf  # numbers that codes would not represent
    best = len(tried) - 1 - int(np.argmin(divergence[::-1]))
    return int(tried[best])


def watching(graph: Graph, watched: Iterable[Value], *, most: bool, some: bool) -> Graph:
    """`graph` with statistics of values as outputs, in place of its own: the largest magnitudes in their
    order, "most", and elements, "0", "1", …"""
    values, outputs = [build.cast(v, DataType.FLOAT) for v in watched], list[tuple[str, Value]]()
    if most:
        outputs.append(("most", build.concat([_most(v) for v in values], 0)))
    if some:
        outputs += ((str(n), _some(v)) for n, v in enumerate(values))
    own = dict(computed_sizes(graph))  # outputs for the data-dependent sizes that the new outputs need
    symbols = tuple(s for s in graph.symbols if s.sym not in own)
    return counted(Graph(graph.inputs, tuple(outputs), graph.names, symbols))


def _most(value: Value) -> Value:
    """The largest magnitude."""
    largest = build.reduce_("max", build.map_("abs", value), range(value.type.rank))
    return build.reshape(largest, (1,))


def _some(value: Value) -> Value:
    """Elements of a tensor, all of them or at a stride: a stride that shares no divisor with a dimension
    samples all channels and all positions. All elements of one with data-dependent sizes."""
    sizes = [d for d in value.shape if isinstance(d, int)]
    if len(sizes) < value.type.rank:
        return build.identity(build.reshape(value, (product(value.shape),)))
    count = prod(sizes)
    step = -(-count // SHOWN)
    while step > 1 and any(gcd(step, d) > 1 for d in sizes):
        step += 1
    flat = build.reshape(value, (count,))
    if step <= 1:
        return build.identity(flat) if flat is value else flat
    return build.slice_(flat, (0,), (-(-count // step),), (step,))
