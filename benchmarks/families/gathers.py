"""Gathers: rows of tables, elements, points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.families.case import Case, Family, Node, Shape, normal, places, size


def cases() -> Iterator[Case]:
    """Embeddings by row length, columns, elements along both axes, points."""
    yield _rows(30522, 768, (512,))
    yield _rows(30522, 768, (8, 512))
    yield _rows(50257, 1024, (1024,), np.float16)
    yield _rows(100000, 64, (16384,))
    yield _rows(1000000, 16, (65536,))
    yield _rows(1000, 64, (64,))
    yield _columns(512, 4096, 1024)
    yield _elements((1024, 1024), (1024, 1024), 1)
    yield _elements((1024, 1024), (1024, 1024), 0)
    yield _elements((64, 30522), (64, 128), 1)
    yield _elements((1024, 1024), (1024, 1024), 1, np.float16)
    yield _points((128, 128, 64), (8192,), 2)
    yield _points((64, 64, 64), (65536,), 3)


def _rows(count: int, length: int, shape: Shape, dtype: Any = np.float32) -> Case:  # Any: a NumPy type
    half = "_f16" if dtype is np.float16 else ""
    read = int(np.prod(shape)) * (length * np.dtype(dtype).itemsize + 4)
    return Case(
        f"embedding_{count}x{length}_{size(shape)}{half}",
        Family.GATHER,
        {"data": normal(count, length, dtype=dtype), "indices": places(count, *shape)},
        Node("Gather", ("data", "indices")),
        lambda torch, data, indices: torch.nn.functional.embedding(indices, data),
        eagerly=lambda torch, data, indices: torch.index_select(data, 0, indices.reshape(-1)).reshape(
            *indices.shape, -1
        ),
        read=read,
    )


def _columns(rows: int, length: int, count: int) -> Case:
    return Case(
        f"gather_columns_{rows}x{length}_{count}",
        Family.GATHER,
        {"data": normal(rows, length), "indices": places(length, count)},
        Node("Gather", ("data", "indices"), {"axis": 1}),
        lambda torch, data, indices: torch.index_select(data, 1, indices),
    )


def _elements(shape: Shape, taken: Shape, axis: int, dtype: Any = np.float32) -> Case:  # Any: see above
    half = "_f16" if dtype is np.float16 else ""
    read = int(np.prod(taken)) * 4 + min(int(np.prod(shape)) * 4, int(np.prod(taken)) * 64)
    return Case(
        f"gather_elements_{size(shape)}_{size(taken)}_axis{axis}{half}",
        Family.GATHER,
        {"data": normal(*shape, dtype=dtype), "indices": places(shape[axis], *taken)},
        Node("GatherElements", ("data", "indices"), {"axis": axis}),
        lambda torch, data, indices: torch.gather(data, axis, indices),
        lambda data, indices: np.take_along_axis(data, indices, axis),  # ONNX's reference has a fault
        read=read,
    )


def _points(shape: Shape, count: Shape, length: int) -> Case:
    row = int(np.prod(shape[length:]))
    return Case(
        f"gather_nd_{size(shape)}_{size(count)}x{length}",
        Family.GATHER,
        {"data": normal(*shape), "indices": places(min(shape[:length]), *count, length)},
        Node("GatherND", ("data", "indices")),
        lambda torch, data, indices: data[tuple(indices[..., k] for k in range(length))],
        wide=True,
        read=min(int(np.prod(shape)) * 4, int(np.prod(count)) * max(64, row * 4))
        + int(np.prod(count)) * length * 4,
    )
