"""Cumulative sums: along rows, along columns, of long rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.families.case import Case, Family, Make, Node, Shape, size
from benchmarks.values import Array


def cases() -> Iterator[Case]:
    """Every axis, lengths from 64 to a million, both directions, types."""
    yield _sum((1024, 1024), 1)
    yield _sum((1024, 1024), 0)
    yield _sum((16384, 64), 1)
    yield _sum((4, 262144), 1)
    yield _sum((1048576,), 0)
    yield _sum((8, 512, 256), 1)
    yield _sum((1, 1000), 1)
    yield _sum((1024, 1024), 1, exclusive=True)
    yield _sum((1024, 1024), 1, reverse=True)
    yield _sum((1024, 1024), 1, dtype=np.int32)
    yield _sum((1024, 1024), 1, dtype=np.float16)
    yield _sum((262144, 4), 0)


def _numbers(shape: Shape, dtype: Any) -> Make:  # Any: a NumPy type
    """Small integers, whose sum does not depend on the order; sums stay small in half types."""

    def make(random: np.random.Generator) -> Array:
        if dtype is np.float16:
            return (random.integers(0, 2, shape) * 2 - 1).astype(dtype)
        return random.integers(-8, 9, shape).astype(dtype)

    return make


def _sum(
    shape: Shape, axis: int, exclusive: bool = False, reverse: bool = False, dtype: Any = np.float32
) -> Case:  # Any: a NumPy type
    def torch(module: Any, x: Any) -> Any:  # Any: tensors
        y = x.flip(axis) if reverse else x
        total = module.cumsum(y, axis, dtype=y.dtype)
        total = total - y if exclusive else total
        return total.flip(axis) if reverse else total

    words = ("exclusive" * exclusive, "reverse" * reverse, np.dtype(dtype).name * (dtype is not np.float32))
    return Case(
        "_".join(("cumsum", size(shape), f"axis{axis}", *filter(None, words))),
        Family.SUM,
        {"x": _numbers(shape, dtype)},
        Node(
            "CumSum", ("x", np.array(axis, np.int64)), {"exclusive": int(exclusive), "reverse": int(reverse)}
        ),
        torch,
    )
