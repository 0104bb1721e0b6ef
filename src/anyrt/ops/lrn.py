"""LRN: each element, divided by a power of the mean square over its neighbouring channels.

add_lrn(x, window=5, alpha=1e-4, beta=0.75, k=2.0)        # x: (N, C, H, W)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.ir.graph import Value
from anyrt.ops._math import in_float
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS
from anyrt.ops._window_folds import fold
from anyrt.ops._windows import Slide, Span
from anyrt.prims.build import map_, scalar

WIDEST = 15
# The minimum and maximum of each attribute.
RANGES = {"alpha": (-1e20, 1e20), "beta": (0.01, 1e5), "k": (1e-5, 1e10)}


@dataclass(frozen=True, slots=True)
class LRNAttrs(Attrs):
    """Attributes of LRN."""

    window_size: int = attr(Kind.INT, "number of channels in a window, centred on each channel; odd, 1 to 15")
    alpha: float = attr(Kind.FLOAT, "factor of the mean square, -1e20 to 1e20")
    beta: float = attr(Kind.FLOAT, "the exponent, 0.01 to 1e5")
    k: float = attr(Kind.FLOAT, "constant that is added to the mean square, 1e-5 to 1e10")


def expand(layer: Layer[LRNAttrs]) -> tuple[Value, ...]:
    """Windows over the channels of the squares, padded with zeros; computed in float32."""
    x, attrs = layer.input(0), layer.attrs
    _check(layer, x)
    return (in_float(x, lambda y: map_("div", y, _divisor(layer.name, y, attrs))),)


def _divisor(where: str, x: Value, attrs: LRNAttrs) -> Value:
    half, last = attrs.window_size // 2, x.shape[-3:]
    by = (Slide(attrs.window_size), Slide(1), Slide(1))
    at = (Span(half, half, 0, last[0]), Span(0, 0, 0, last[1]), Span(0, 0, 0, last[2]))
    total = fold("sum", where, map_("square", x), by, at)
    mean = map_("fma", total, scalar(attrs.alpha / attrs.window_size, total), scalar(attrs.k, total))
    return map_("pow", mean, scalar(attrs.beta, total))


def _check(layer: Layer[LRNAttrs], x: Value) -> None:
    attrs = layer.attrs
    if x.type.rank < 3:
        do = "add dimensions of size 1 with a shuffle or unsqueeze"
        raise ShapeError("AR101", layer.name, f"rank {x.type.rank}", "rank >= 3", do)
    if not (1 <= attrs.window_size <= WIDEST and attrs.window_size % 2 == 1):
        got, do = f"window_size {attrs.window_size}", "set an odd number of channels, as 5"
        raise ArgumentError("AR304", layer.name, got, f"an odd number from 1 to {WIDEST}", do)
    for name, number in (("alpha", attrs.alpha), ("beta", attrs.beta), ("k", attrs.k)):
        low, high = RANGES[name]
        if not math.isfinite(number):
            raise ArgumentError("AR308", layer.name, f"{name} {number}", "a finite number", f"set {name}")
        if not low <= number <= high:
            raise ArgumentError(
                "AR304", layer.name, f"{name} {number}", f"{low:g} to {high:g}", f"set {name}"
            )


def ref(attrs: LRNAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Channel by channel, over the channels of the window that exist."""
    x = arrays[0].astype(np.float64)
    half, y = attrs.window_size // 2, np.empty_like(x)
    for c in range(x.shape[-3]):
        near = x[..., max(0, c - half) : c + half + 1, :, :]
        total = np.sum(near * near, axis=-3)
        y[..., c, :, :] = x[..., c, :, :] / (attrs.k + attrs.alpha / attrs.window_size * total) ** attrs.beta
    return (y,)


def dla(layer: Layer[LRNAttrs]) -> str | None:
    """Windows of 3, 5, 7 and 9 channels."""
    fits = layer.attrs.window_size in (3, 5, 7, 9)
    return None if fits else "DLA runs LRN with windows of 3, 5, 7 or 9 channels"


def cases() -> tuple[Case[LRNAttrs], ...]:
    """Every type; windows of one channel, and of more than exist; ranks 3 to 8; no elements."""
    a, usual = LRNAttrs, LRNAttrs(5, 1e-4, 0.75, 2.0)
    return (
        Case(usual, ((2, 7, 3, 5),)),
        *(Case(a(3, 1.0, 1.0, 0.1), ((1, 4, 3, 5),), (t,)) for t in sorted(FLOATS, key=int)),
        Case(a(5, 0.5, 0.6, 1.0), ((3, 2, 17),), rtol=4e-6),
        Case(a(1, 2.0, 0.5, 1e-5), ((2, 3, 2, 3),)),
        Case(a(15, 2.0, 0.01, 1.0), ((2, 3, 2, 2),)),
        Case(a(7, -0.125, 2.0, 9.0), ((1, 9, 1, 3),), rtol=4e-6),
        Case(usual, ((0, 3, 2, 2),)),
        Case(usual, ((1, 0, 2, 2),)),
        Case(usual, ((1, 2, 1, 2, 1, 6, 3, 2),)),
    )


def mistakes() -> tuple[Mistake[LRNAttrs], ...]:
    """Ranks, ranges and types."""
    a, x = LRNAttrs, ((1, 4, 2, 2),)
    return (
        Mistake("AR101", "an input of fewer than three dimensions", a(3, 1.0, 1.0, 1.0), ((4, 2),)),
        Mistake("AR304", "a window with an even number of channels", a(4, 1.0, 1.0, 1.0), x),
        Mistake("AR304", "a window of more than 15 channels", a(17, 1.0, 1.0, 1.0), x),
        Mistake("AR304", "a window of no channels", a(-1, 1.0, 1.0, 1.0), x),
        Mistake("AR304", "an alpha outside its range", a(3, 1e21, 1.0, 1.0), x),
        Mistake("AR304", "a beta outside its range", a(3, 1.0, 0.0, 1.0), x),
        Mistake("AR304", "a k outside its range", a(3, 1.0, 1.0, 0.0), x),
        Mistake("AR308", "alpha, beta or k that is not finite", a(3, math.nan, 1.0, 1.0), x),
        Mistake("AR202", "a type that LRN does not support", a(3, 1.0, 1.0, 1.0), x, (DataType.INT32,)),
    )


OPS = (
    Op(
        layer=LayerType.LRN,
        cls="ILRNLayer",
        methods=(
            Method(
                "add_lrn",
                ("input", "window", "alpha", "beta", "k"),
                renamed=(("window", "window_size"),),
                example="layer = network.add_lrn(x, 5, 1e-4, 0.75, 2.0)",
            ),
        ),
        inputs=(Input("input", FLOATS),),
        attrs=LRNAttrs,
        expand=expand,
        ref=ref,
        doc="x / (k + alpha / window · Σ x²)^beta, where the sum covers the channel and up to (window − 1) "
        "/ 2 channels on each side. Channels are the third axis from the end. Computed in float32. bfloat16 "
        "is an extension.",
        cases=cases,
        mistakes=mistakes,
        dla=dla,
        onnx=("LRN",),
        source="operator page LRN",
    ),
)
