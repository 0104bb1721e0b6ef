"""Grid samples of images and volumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.families.case import Case, Family, Make, Node, Random, Shape, normal, size
from benchmarks.layers.taps import cubic
from benchmarks.values import Array

TORCH_MODES = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}


def cases() -> Iterator[Case]:
    """Modes, paddings, few and many channels, volumes; warped images and scattered positions."""
    yield _sample((1, 64, 128, 128), (128, 128))
    yield _sample((1, 64, 128, 128), (128, 128), "linear", "border")
    yield _sample((1, 64, 128, 128), (128, 128), "linear", "reflection")
    yield _sample((1, 64, 128, 128), (128, 128), "nearest")
    yield _sample((1, 64, 128, 128), (128, 128), "cubic")
    yield _sample((8, 3, 224, 224), (224, 224))
    yield _sample((8, 3, 224, 224), (224, 224), "linear", align=True)
    yield _sample((1, 3, 1080, 1920), (640, 640))
    yield _sample((8, 256, 32, 32), (300, 4), scattered=True)
    yield _sample((1, 256, 64, 64), (64, 64), scattered=True)
    yield _sample((1, 16, 32, 64, 64), (32, 64, 64))
    yield _sample((1, 16, 32, 64, 64), (32, 64, 64), "nearest")
    yield _sample((2, 4, 32, 64, 64), (32, 64, 64), "linear", "border", scattered=True)


def _grid(batch: int, sizes: Shape, scattered: bool) -> Make:
    """Positions of a rotated, slightly larger image, or random positions."""

    def make(random: Random) -> Array:
        if scattered:
            return (random.random((batch, *sizes, len(sizes))) * 2.1 - 1.05).astype(np.float32)
        axes = np.meshgrid(*(np.linspace(-1.03, 1.03, n) for n in sizes), indexing="ij")[::-1]
        x, y, *rest = axes
        turned = np.stack([0.97 * x - 0.2 * y, 0.2 * x + 0.97 * y, *rest], -1)
        return np.broadcast_to(turned, (batch, *turned.shape)).astype(np.float32)

    return make


def _sample(
    shape: Shape, sizes: Shape, mode: str = "linear", pad: str = "zeros", align: bool = False,
    scattered: bool = False,
) -> Case:  # fmt: skip
    def torch(module: Any, x: Any, grid: Any) -> Any:  # Any: tensors
        sample = module.nn.functional.grid_sample
        return sample(x, grid, mode=TORCH_MODES[mode], padding_mode=pad, align_corners=align)

    words = [mode, *([pad] if pad != "zeros" else []), *(["align"] if align else [])]
    words += ["scattered"] if scattered else []
    attributes = {"mode": mode, "padding_mode": pad, "align_corners": int(align)}
    return Case(
        "_".join(("grid", size(shape), "to", size(sizes), *words)),
        Family.SAMPLE,
        {"x": normal(*shape), "grid": _grid(shape[0], sizes, scattered)},
        Node("GridSample", ("x", "grid"), attributes),
        torch,
        lambda x, grid: sampled(x, grid, mode, pad, align),  # ONNX's reference takes minutes
    )


def sampled(x: Array, grid: Array, mode: str, pad: str, align: bool) -> Array:
    """With float32 positions, as programs compute them, and float64 sums."""
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for n in range(x.shape[0]):
        taps = [
            _taps(grid[n, ..., len(x.shape) - 3 - k], size, mode, pad, align)
            for k, size in enumerate(x.shape[2:])
        ]
        for each in _products(taps):
            at, weight = tuple(t[0] for t in each), np.prod([t[1] for t in each], 0)
            out[n] += x[n][(slice(None), *at)] * weight
    return out.astype(np.float32)


def _products(taps: list[list[tuple[Array, Array]]]) -> Iterator[tuple[tuple[Array, Array], ...]]:
    if not taps:
        yield ()
        return
    for first in taps[0]:
        for rest in _products(taps[1:]):
            yield (first, *rest)


def _taps(g: Array, size: int, mode: str, pad: str, align: bool) -> list[tuple[Array, Array]]:
    """(clipped positions, weights) along an axis."""
    one, half = np.float32(1), np.float32(0.5)
    p = (g + one) * half * np.float32(size - 1) if align else ((g + one) * np.float32(size) - one) * half
    if pad == "border" and mode != "cubic":
        p = np.clip(p, 0, size - 1)
    if pad == "reflection":
        p = _mirrored(p, size, align)
    low = np.rint(p) if mode == "nearest" else np.floor(p)
    part = (p - low).astype(np.float64)
    taps = []
    for step in {"nearest": [0], "linear": [0, 1], "cubic": [-1, 0, 1, 2]}[mode]:
        at, d = low.astype(np.int64) + step, np.abs(part - step)
        weight = {"nearest": np.ones_like(d), "linear": 1 - d, "cubic": cubic(d)}[mode]
        inside = (at >= 0) & (at < size)
        taps.append((np.clip(at, 0, size - 1), weight if pad != "zeros" else weight * inside))
    return taps


def _mirrored(p: Array, size: int, align: bool) -> Array:
    low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
    d = np.abs(p - low) % (2 * span)
    return np.clip(np.where(d > span, 2 * span - d, d) + low, 0, size - 1).astype(np.float32)
