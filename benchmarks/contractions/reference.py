"""The language of calls in float64 NumPy: the expected result of a case, and the error of a result.

>>> result = Exact().softmax(np.zeros((1, 4)))
>>> result.tolist()
[[0.25, 0.25, 0.25, 0.25]]
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.contractions.calls import Act, Codes, Weights
from benchmarks.contractions.cases import ALL as CASES
from benchmarks.contractions.describe import describe, values_of
from benchmarks.contractions.forms import Case, Fold, Mask, Window, inputs, result
from benchmarks.language import Language
from benchmarks.layers import reference
from benchmarks.steps import Shape
from benchmarks.values import Array, like

Doubles: TypeAlias = NDArray[np.float64]
Place: TypeAlias = tuple[slice, ...]
EPSILON = 1e-5
ALL = slice(None)


def run(case: Case, arrays: dict[str, Array]) -> Doubles:
    """The result in float64; int8 results are not rounded."""
    return np.ascontiguousarray(describe(case, Exact(), {n: a.astype(np.float64) for n, a in arrays.items()}))


def error(case: Case, expected: Doubles, got: Array) -> tuple[float, bool]:
    """(largest error in ulp, whether the result is right)."""
    return reference.distance(result(case).dtype, expected, got)


class Exact:
    """Calls in float64. A convolution is a matrix product for each element of the window."""

    def constant(self, values: Weights) -> Doubles:
        return _doubles(values)

    def product(self, a: Doubles, b: Doubles) -> Doubles:
        return np.asarray(a @ b)

    def scores(self, q: Doubles, k: Doubles) -> Doubles:
        return np.asarray(q @ k.swapaxes(-1, -2))

    def convolution(self, x: Doubles, kernel: Weights, bias: Array | None, window: Window) -> Doubles:
        if window.transposed:
            return self._spread(x, _doubles(kernel), bias, window)
        weights, places = _doubles(kernel), window.sizes(x.shape[2:])
        x = _padded(x, window, 0.0)
        out = np.zeros((x.shape[0], weights.shape[0], *places))
        for tap, place in _places(window, places):
            out = out + _mixed(x[place], weights[tap], window.groups)
        return _biased(out, bias)

    def _spread(self, x: Doubles, weights: Doubles, bias: Array | None, window: Window) -> Doubles:
        """Each element adds its kernel to the result around its position."""
        groups = window.groups
        weights = weights.reshape(groups, -1, *weights.shape[1:]).swapaxes(1, 2)
        weights = weights.reshape(-1, *weights.shape[2:])
        size = window.sizes(x.shape[2:])
        whole = tuple(d + 2 * p for d, p in zip(size, window.pad, strict=True))
        out = np.zeros((x.shape[0], weights.shape[0], *whole))
        for tap, place in _places(window, x.shape[2:]):
            out[place] = out[place] + _mixed(x, weights[tap], groups)
        inside = (slice(p, p + d) for d, p in zip(size, window.pad, strict=True))
        return _biased(out[(ALL, ALL, *inside)], bias)

    def pool(self, x: Doubles, fold: Fold, window: Window) -> Doubles:
        """The maximum, or the mean without padding."""
        places = window.sizes(x.shape[2:])
        largest = fold is Fold.MAX
        wide = _padded(x, window, -math.inf if largest else 0.0)
        each = [wide[place] for _, place in _places(window, places)]
        if largest:
            return np.asarray(np.max(each, axis=0))
        inside = _padded(np.ones((1, 1, *x.shape[2:])), window, 0.0)
        counts = np.sum([inside[place] for _, place in _places(window, places)], axis=0)
        return np.asarray(np.sum(each, axis=0) / counts)

    def add(self, a: Doubles, b: Doubles) -> Doubles:
        return np.asarray(a + b)

    def act(self, x: Doubles, function: Act) -> Doubles:
        """ReLU, or x Φ(x)."""
        if function is Act.RELU:
            return np.maximum(x, 0)
        erf = np.fromiter(map(math.erf, (x / math.sqrt(2)).reshape(-1).tolist()), np.float64, x.size)
        return np.asarray(x * (1 + erf.reshape(x.shape)) / 2)

    def softmax(self, x: Doubles) -> Doubles:
        """The maximum is subtracted first, so that nothing overflows."""
        powers = np.exp(x - x.max(-1, keepdims=True))
        return np.asarray(powers / powers.sum(-1, keepdims=True))

    def attention(self, q: Doubles, k: Doubles, v: Doubles, mask: Mask, added: Doubles | None) -> Doubles:
        """All scores are in memory."""
        shared = q.shape[1] // k.shape[1]
        k, v = (np.repeat(a, shared, 1) for a in (k, v))
        scores = self.scores(q, k)
        if mask is Mask.CAUSAL:
            scores = np.where(np.tril(np.ones(scores.shape[-2:])) == 1, scores, -np.inf)
        return np.asarray(self.softmax(scores if added is None else scores + added) @ v)

    def normalize(self, x: Doubles, gain: Array, bias: Array) -> Doubles:
        centred = x - x.mean(-1, keepdims=True)
        spread = np.sqrt(np.square(centred).mean(-1, keepdims=True) + EPSILON)
        return np.asarray(centred / spread * gain.astype(np.float64) + bias.astype(np.float64))

    def transpose(self, x: Doubles, perm: Shape) -> Doubles:
        return x.transpose(perm)

    def reshape(self, x: Doubles, shape: Shape) -> Doubles:
        return x.reshape(shape)

    def dequantize(self, x: Doubles, scale: float) -> Doubles:
        return x * scale

    def quantize(self, x: Doubles, scale: float) -> Doubles:
        """Not rounded: the comparison allows a difference of one code."""
        return np.clip(x / scale, -128, 127)


def _doubles(values: Weights) -> Doubles:
    if isinstance(values, Codes):
        return values.codes.astype(np.float64) * values.scale
    return values.astype(np.float64)


def _padded(x: Doubles, window: Window, value: float) -> Doubles:
    pads = [(0, 0), (0, 0), *((p, p) for p in window.pad)]
    return np.pad(x, pads, constant_values=value) if any(window.pad) else x


def _places(window: Window, places: Shape) -> Iterator[tuple[tuple[int | slice, ...], Place]]:
    """Each element of the kernel, with the elements of the padded input that it multiplies."""
    for tap in itertools.product(*map(range, window.kernel)):
        starts = [t * window.dilation for t in tap]
        steps = zip(starts, window.stride, places, strict=True)
        places_of_tap = (slice(a, a + s * (n - 1) + 1, s) for a, s, n in steps)
        yield (ALL, ALL, *tap), (ALL, ALL, *places_of_tap)


def _mixed(x: Doubles, weights: Doubles, groups: int) -> Doubles:
    """Channels of (n, c, …) mixed by (k, c / groups)."""
    n, places = x.shape[0], x.shape[2:]
    columns = np.ascontiguousarray(x).reshape(n, groups, -1, math.prod(places))
    out = weights.reshape(groups, -1, weights.shape[1]) @ columns
    return np.asarray(out.reshape(n, -1, *places))


def _biased(x: Doubles, bias: Array | None) -> Doubles:
    if bias is None:
        return x
    return np.asarray(x + bias.astype(np.float64).reshape(-1, *(1,) * (x.ndim - 2)))


LANGUAGE = Language(
    {c.name: c for c in CASES},
    inputs=values_of,
    exact=lambda case, arrays: (run(case, arrays),),
    outputs=lambda case, exact: (like(result(case)),),
    empty=lambda case: {name: like(tensor) for name, tensor in inputs(case).items()},
    distance=lambda case, exact, got: error(case, *exact, *got),
)
