"""Top k: of classes, tokens and boxes; difficult orders; and k = all, which sorts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import anyrt as trt
from benchmarks.families.case import Case, Family, Make, Node, Shape, shuffled, size


def cases() -> Iterator[Case]:
    """Short and long rows, few and many of them, one to a thousand; ascending, descending, equal elements."""
    yield _top((1, 1000), 5)
    yield _top((64, 1000), 5)
    yield _top((1, 32000), 50)
    yield _top((8, 128256), 40)
    yield _top((8, 8400), 300)
    yield _top((1, 100000), 1000)
    yield _top((1024, 1024), 1)
    yield _top((128, 256), 64)
    yield _top((1024, 64), 8)
    yield _top((1, 32000), 50, order="ascending")
    yield _top((1, 32000), 50, order="descending")
    yield _top((64, 1000), 10, order="ascending")
    yield _top((8, 8400), 300, order="ascending")
    yield _top((1, 100000), 1000, order="ascending")
    yield _top((8, 32000), 50, order="few")
    yield _top((1024, 64), 4, axis=0)
    yield _top((1, 21, 512, 512), 1, axis=1)
    yield _top((32, 1000), 1)
    yield _top((1024, 64), 64)
    yield _top((64, 1000), 1000)
    yield _top((1, 100000), 100000)


def _numbers(shape: Shape, order: str) -> Make:
    if order == "random":
        return shuffled(*shape)
    up = np.broadcast_to(np.arange(shape[-1], dtype=np.float32), shape).copy()
    if order == "few":  # two values, the best ones distinct: the order of equal elements is free
        return lambda random: np.where(up % 640 == 7, up, random.integers(-3, -1, shape)).astype(np.float32)
    return lambda random: up if order == "ascending" else up[..., ::-1].copy()


def _top(shape: Shape, k: int, order: str = "random", axis: int = -1) -> Case:
    def ours(network: Any, x: Any) -> Any:  # Any: tensors and layers
        count = -1 if k == shape[axis] else k  # all are sorted, however many
        return network.add_topk(x, trt.TopKOperation.MAX, count, 1 << (axis % len(shape)))

    suffix = ("" if order == "random" else f"_{order}") + ("" if axis == -1 else f"_axis{axis}")
    return Case(
        f"topk_{size(shape)}_{k}{suffix}",
        Family.RANK,
        {"x": _numbers(shape, order) if axis == -1 else _columns(shape, axis)},
        Node("TopK", ("x", np.array([k], np.int64)), {"axis": axis}, results=2),
        lambda torch, x: tuple(torch.topk(x, k, axis)),
        ours=ours,
        eagerly=(lambda torch, x: tuple(torch.sort(x, axis, descending=True))) if k == shape[axis] else None,
        wide=True,
    )


def _columns(shape: Shape, axis: int) -> Make:
    """Distinct numbers along another axis."""
    turned = (*shape[:axis], *shape[axis + 1 :], shape[axis])
    return lambda random: np.ascontiguousarray(np.moveaxis(shuffled(*turned)(random), -1, axis))
