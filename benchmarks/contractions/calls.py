"""The language that cases and networks are written in: calls, which each program translates.

A program's class of calls makes its own kind of value; `describe` and `networks` know none of them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from benchmarks.contractions.forms import Fold, Mask, Window
from benchmarks.steps import Element, Shape
from benchmarks.values import Array

T = TypeVar("T")
LARGEST = 127  # code


class Act(enum.Enum):
    """A function of one element; GELU with the error function."""

    RELU = "relu"
    GELU = "gelu"


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Weights that are int8 codes times `scale`."""

    codes: Array
    scale: float

    @property
    def numbers(self) -> Array:
        """The weights in float32."""
        return np.asarray(self.codes.astype(np.float32) * np.float32(self.scale))


Weights: TypeAlias = Array | Codes


class Calls(Protocol[T]):
    """The operations that a program adds to a network. Arrays are constants of the case's element type."""

    def constant(self, values: Weights) -> T:
        """A constant."""

    def product(self, a: T, b: T) -> T:
        """(…, m, k) times (…, k, n); weights may have two axes only."""

    def scores(self, q: T, k: T) -> T:
        """(…, m, k) times the transpose of (…, n, k)."""

    def convolution(self, x: T, kernel: Weights, bias: Array | None, window: Window) -> T:
        """Of (n, c, …), the kernel as (k, c / groups, …), or (c, k / groups, …) for a deconvolution."""

    def pool(self, x: T, fold: Fold, window: Window) -> T:
        """Pooling of (n, c, …); means exclude the padding."""

    def add(self, a: T, b: T) -> T:
        """The sum, with broadcasting; `b` may lack the first axes."""

    def act(self, x: T, function: Act) -> T:
        """A function of each element."""

    def softmax(self, x: T) -> T:
        """Softmax along the last axis."""

    def attention(self, q: T, k: T, v: T, mask: Mask, added: T | None) -> T:
        """softmax(q kᵀ + added) v of (n, heads, tokens, size), without division by √size."""

    def normalize(self, x: T, gain: Array, bias: Array) -> T:
        """Layer normalisation along the last axis, ε 1e-5."""

    def transpose(self, x: T, perm: Shape) -> T:
        """Output axis i is axis perm[i]."""

    def reshape(self, x: T, shape: Shape) -> T:
        """The same numbers in another shape."""

    def dequantize(self, x: T, scale: float) -> T:
        """int8 codes times `scale`."""

    def quantize(self, x: T, scale: float) -> T:
        """Divided by `scale`, rounded half to even, saturated to int8."""


class Numbers:
    """Weights, equal in every run and for every program; each call returns the next ones."""

    __slots__ = ("dtype", "seed")

    def __init__(self, dtype: Element) -> None:
        self.dtype = dtype
        self.seed = 100

    def weights(self, shape: Shape, terms: int) -> Array:
        """Weights for sums of so many terms: the results are about as large as the operands."""
        self.seed += 1
        numbers = np.random.default_rng(self.seed).standard_normal(shape, np.float32)
        return np.asarray((numbers * np.float32(terms**-0.5)).astype(self.dtype.numpy))

    def ones(self, shape: Shape) -> Array:
        """Gains near 1."""
        self.seed += 1
        numbers = np.random.default_rng(self.seed).random(shape, np.float32) + np.float32(0.5)
        return np.asarray(numbers.astype(self.dtype.numpy))

    def codes(self, shape: Shape, scale: float) -> Codes:
        """int8 weights; each row along the first and the last axis contains the largest code."""
        self.seed += 1
        codes = np.random.default_rng(self.seed).integers(-LARGEST, LARGEST, shape, np.int8, endpoint=True)
        codes.reshape(shape[0], -1)[:, 0] = LARGEST  # so that scales computed from the weights are exact
        codes.reshape(-1, shape[-1])[0] = LARGEST
        return Codes(codes, scale)
