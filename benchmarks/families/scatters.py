"""Scatters: elements along both axes, rows, points, sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.families.case import Case, Family, Make, Node, Random, Shape, distinct, normal, size
from benchmarks.values import Array

NAMES = ("data", "indices", "updates")


def cases() -> Iterator[Case]:
    """Few and many updates, stored and added."""
    yield _elements((1024, 1024), (256, 1024), 0)
    yield _elements((1024, 1024), (1024, 256), 1)
    yield _elements((64, 32000), (64, 128), 1)
    yield _elements((1024, 1024), (1024, 256), 1, "add")
    yield _rows(4096, 768, 512)
    yield _rows(32768, 768, 16)
    yield _rows(4096, 768, 4096)
    yield _rows(4096, 768, 512, "add")
    yield _points((1024, 1024), 65536)
    yield _points((256, 256), 1024)
    yield _points((1024, 1024), 65536, "add")


def _along(shape: Shape, updates: Shape, axis: int) -> Make:
    """Distinct positions for each line of updates."""

    def make(random: Random) -> Array:
        lines = np.moveaxis(np.zeros(updates, np.int32), axis, -1)
        for place in np.ndindex(lines.shape[:-1]):
            lines[place] = random.permutation(shape[axis])[: updates[axis]]
        return np.ascontiguousarray(np.moveaxis(lines, -1, axis))

    return make


def _elements(shape: Shape, updates: Shape, axis: int, reduction: str = "none") -> Case:
    def torch(module: Any, data: Any, indices: Any, new: Any) -> Any:  # Any: tensors
        if reduction == "add":
            return data.scatter_add(axis, indices, new)
        return data.scatter(axis, indices, new)

    return Case(
        f"scatter_elements_{size(shape)}_{size(updates)}_axis{axis}{_suffix(reduction)}",
        Family.SCATTER,
        {"data": normal(*shape), "indices": _along(shape, updates, axis), "updates": normal(*updates)},
        Node("ScatterElements", NAMES, {"axis": axis, "reduction": reduction}),
        torch,
    )


def _rows(count: int, length: int, updates: int, reduction: str = "none") -> Case:
    def torch(module: Any, data: Any, indices: Any, new: Any) -> Any:  # Any: tensors
        copy = data.index_add if reduction == "add" else data.index_copy
        return copy(0, indices[:, 0], new)

    inputs: dict[str, Make] = {
        "data": normal(count, length),
        "indices": lambda random: distinct(count, updates)(random)[:, None],
        "updates": normal(updates, length),
    }
    name, node = (
        f"scatter_rows_{count}x{length}_{updates}",
        Node("ScatterND", NAMES, {"reduction": reduction}),
    )
    return Case(name + _suffix(reduction), Family.SCATTER, inputs, node, torch, wide=True)


def _points(shape: Shape, updates: int, reduction: str = "none") -> Case:
    def indices(random: Random) -> Array:
        chosen = random.permutation(int(np.prod(shape)))[:updates]
        return np.stack(np.unravel_index(chosen, shape), -1).astype(np.int32)

    def torch(module: Any, data: Any, where: Any, new: Any) -> Any:  # Any: tensors
        at = tuple(where[:, k] for k in range(len(shape)))
        return data.index_put(at, new, accumulate=reduction == "add")

    inputs = {"data": normal(*shape), "indices": indices, "updates": normal(updates)}
    node = Node("ScatterND", NAMES, {"reduction": reduction})
    name = f"scatter_nd_{size(shape)}_{updates}{_suffix(reduction)}"
    return Case(name, Family.SCATTER, inputs, node, torch, wide=True)


def _suffix(reduction: str) -> str:
    return "" if reduction == "none" else f"_{reduction}"
