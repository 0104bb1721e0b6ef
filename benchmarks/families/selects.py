"""One-hot and reversed sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.families.case import Case, Family, Node, Shape, constant_of, normal, places, size


def cases() -> Iterator[Case]:
    """Wide and narrow new axes, last and first; sequences of both layouts."""
    yield _one_hot((4096,), 1000, -1)
    yield _one_hot((65536,), 32, -1)
    yield _one_hot((512, 512), 21, 0)
    yield _one_hot((64,), 100, -1)
    yield _reversed((512, 64, 128), 1, 0)
    yield _reversed((64, 512, 128), 0, 1)
    yield _reversed((4096, 1024), 0, 1)


def _one_hot(shape: Shape, depth: int, axis: int) -> Case:
    values = np.array([0, 1], np.float32)

    def ours(network: Any, indices: Any) -> Any:  # Any: tensors and layers
        depths = constant_of(network, np.array(depth, np.int32))
        return network.add_one_hot(indices, constant_of(network, values), depths, axis)

    def torch(module: Any, indices: Any) -> Any:  # Any: a tensor
        wide = (*shape, depth) if axis else (depth, *shape)
        return module.zeros(wide).scatter_(axis, indices.unsqueeze(axis), 1.0)

    def compared(module: Any, indices: Any) -> Any:  # Any: a tensor
        count = module.arange(depth).reshape((depth,) + (1,) * len(shape) if axis == 0 else (depth,))
        return (indices.unsqueeze(axis) == count).to(module.float32)

    return Case(
        f"one_hot_{size(shape)}_{depth}{'_first' if axis == 0 else ''}",
        Family.SELECT,
        {"indices": places(depth, *shape)},
        Node("OneHot", ("indices", np.array(depth, np.int64), values), {"axis": axis}),
        compared,
        ours=ours,
        eagerly=torch,
        wide=True,
    )


def _reversed(shape: Shape, batch: int, axis: int) -> Case:
    length, count = shape[axis], shape[batch]

    def torch(module: Any, x: Any, lengths: Any) -> Any:  # Any: tensors
        steps, rows = module.arange(length), module.arange(count)
        if axis == 0:
            at, n, row = steps[:, None], lengths[None, :], rows[None, :]
        else:
            at, n, row = steps[None, :], lengths[:, None], rows[:, None]
        place = module.where(at < n, n - 1 - at, at)
        return x[place, row] if axis == 0 else x[row, place]

    return Case(
        f"reverse_{size(shape)}_axis{axis}",
        Family.SELECT,
        {"x": normal(*shape), "lengths": places(length + 1, count)},
        Node("ReverseSequence", ("x", "lengths"), {"batch_axis": batch, "time_axis": axis}),
        torch,
        wide=True,
    )
