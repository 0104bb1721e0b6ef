"""Fills: evenly spaced and random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import anyrt as trt
from benchmarks.families.case import Case, Family, Node, constant
from benchmarks.values import Array

UNIFORM, NORMAL = trt.FillOperation.RANDOM_UNIFORM, trt.FillOperation.RANDOM_NORMAL


def cases() -> Iterator[Case]:
    """Each operation, for few and many numbers, with ends as inputs: without them, a small fill would be a
    constant of the engine."""
    for n in (65536, 1 << 20):
        yield _steps(n, np.float32)
        yield _random(n, UNIFORM, "uniform", np.float32)
        yield _random(n, NORMAL, "normal", np.float32)
    yield _steps(1 << 20, np.int32)
    yield _random(1 << 20, UNIFORM, "uniform", np.float16)
    yield _random(1 << 20, NORMAL, "normal", np.float16)


def _steps(n: int, dtype: Any) -> Case:  # Any: a NumPy type
    first, step = (3, 2) if dtype is np.int32 else (0.5, 0.25)

    def ours(network: Any, start: Any, delta: Any) -> Any:  # Any: tensors and layers
        kind = trt.int32 if dtype is np.int32 else trt.float32
        layer = network.add_fill((n,), trt.FillOperation.LINSPACE, kind)
        layer.set_input(1, start)
        layer.set_input(2, delta)
        return layer

    def torch(module: Any, start: Any, delta: Any) -> Any:  # Any: tensors
        if dtype is np.int32:
            return module.arange(first, first + n * step, step, dtype=module.int32)
        return module.linspace(first, first + step * (n - 1), n)

    def ranged(module: Any, start: Any, delta: Any) -> Any:  # Any: tensors
        return module.arange(first, first + n * step, step, dtype=getattr(module, np.dtype(dtype).name))

    limit = np.array(first + n * step, dtype)
    return Case(
        f"linspace_{n}{'_int32' if dtype is np.int32 else ''}",
        Family.FILL,
        {"start": constant(first, dtype), "delta": constant([step], dtype)},
        Node("Range", ("start", limit, "delta")),
        torch,
        lambda start, delta: (start + delta * np.arange(n)).astype(dtype),
        ours,
        eagerly=ranged,
    )


def _random(n: int, operation: trt.FillOperation, name: str, dtype: Any) -> Case:  # Any: a NumPy type
    half = dtype is np.float16

    def ours(network: Any, first: Any, second: Any) -> Any:  # Any: tensors and layers
        layer = network.add_fill((n,), operation, trt.float16 if half else trt.float32)
        layer.set_input(1, first)
        layer.set_input(2, second)
        return layer

    def torch(module: Any, *ends: Any) -> Any:  # Any: tensors
        make = module.rand if operation is UNIFORM else module.randn
        return make(n, dtype=module.float16 if half else module.float32)

    def exact(*ends: Array) -> Array:
        random = np.random.default_rng(1)
        return (random.random(n) if operation is UNIFORM else random.standard_normal(n)).astype(dtype)

    attributes = {"shape": [n], "dtype": 10 if half else 1}
    return Case(
        f"{name}_{n}{'_f16' if half else ''}",
        Family.FILL,
        {"first": constant(0, dtype), "second": constant(1, dtype)},
        Node(f"Random{name.title()}", (), attributes),
        torch,
        exact,
        ours,
        noise=True,
    )
