"""Images that shrink, with kernels that widen by the same factor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.families.case import Case, Family, Node, Shape, normal, size
from benchmarks.layers.taps import cubic
from benchmarks.values import Array

TORCH_MODES = {"linear": "bilinear", "cubic": "bicubic"}
A = -0.5  # of the cubic kernel, as libraries of images have it


def cases() -> Iterator[Case]:
    """Photographs to input sizes of networks, feature maps to half; both kernels."""
    yield _shrunk((1, 3, 1080, 1920), (640, 640), "linear")
    yield _shrunk((1, 3, 1080, 1920), (224, 224), "linear")
    yield _shrunk((1, 3, 1080, 1920), (224, 224), "cubic")
    yield _shrunk((8, 3, 256, 256), (224, 224), "linear")
    yield _shrunk((1, 64, 128, 128), (64, 64), "linear")
    yield _shrunk((1, 64, 128, 128), (64, 64), "cubic")


def _shrunk(shape: Shape, sizes: Shape, mode: str) -> Case:
    after = (*shape[:2], *sizes)

    def exact(x: Array) -> Array:
        y = x.astype(np.float64)
        for axis, n in zip((2, 3), sizes, strict=True):
            y = np.moveaxis(np.tensordot(weights(shape[axis], n, mode), y, (1, axis)), 0, axis)
        return y.astype(np.float32)

    def torch(module: Any, x: Any) -> Any:  # Any: tensors
        return module.nn.functional.interpolate(x, sizes, mode=TORCH_MODES[mode], antialias=True)

    attributes = {"mode": mode, "antialias": 1, "cubic_coeff_a": A, "exclude_outside": 1}
    return Case(
        f"antialias_{size(shape)}_to_{size(sizes)}_{mode}",
        Family.RESIZE,
        {"x": normal(*shape)},
        Node("Resize", ("x", "", "", np.array(after, np.int64)), attributes),
        torch,
        exact,
    )


def weights(before: int, after: int, mode: str) -> Array:
    """A row of weights for each position, with the sum 1."""
    scale = before / after
    at = (np.arange(after)[:, None] + 0.5) * scale - 0.5
    d = np.abs(at - np.arange(before)) / max(scale, 1)
    taps = np.clip(1 - d, 0, None) if mode == "linear" else cubic(d, A)
    return np.asarray(taps / taps.sum(1, keepdims=True))
