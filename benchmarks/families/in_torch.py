"""The functions of a case in PyTorch. Indices are int64, as its functions require."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import torch

from benchmarks.peers import Cannot, Kept, Task, Way
from benchmarks.values import HALVES, Array, fetched, packed

FREEZES = True
FP8, E8M0 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e8m0fnu)


def eager(task: Task) -> tuple[Way, ...]:
    """The function of the case, and the other one if it has two."""
    if task.case.torch is None:
        raise Cannot("no function of PyTorch")
    ways = [_way("", task, partial(task.case.torch, torch))]
    if task.case.eagerly is not None:
        ways.append(_way("other", task, partial(task.case.eagerly, torch)))
    return tuple(ways)


def compiled(task: Task) -> Way:
    """The first function."""
    if task.case.torch is None:
        raise Cannot("no function of PyTorch")
    return _way("", task, torch.compile(partial(task.case.torch, torch), dynamic=False))


def _way(label: str, task: Task, function: Callable[..., Any]) -> Way:  # Any: one tensor or several
    """A function on the inputs; PyTorch allocates and reuses the memory of results."""
    call = Kept(partial(function, *map(_tensor, task.inputs.values())))
    return Way(label, call, partial(_results, call, task))


def _tensor(x: Array) -> torch.Tensor:
    if x.dtype in HALVES:
        return torch.from_numpy(packed(x).view(np.int8))
    if x.dtype == FP8:
        return torch.from_numpy(x.view(np.uint8)).view(torch.float8_e4m3fn)
    tensor = torch.from_numpy(x)
    return tensor.long() if x.dtype == np.int32 and x.ndim else tensor


def _results(call: Kept, task: Task) -> tuple[Array, ...]:
    value: Any = call.value  # Any: see above
    tensors = value if isinstance(value, tuple) else (value,)
    held = tuple(_array(t, y) for t, y in zip(tensors, task.outputs, strict=True))
    return fetched(held, task.outputs)


def _array(x: torch.Tensor, like: Array) -> Array:
    whole = x.contiguous()
    if like.dtype in HALVES:
        return whole.view(torch.uint8).numpy().reshape(-1)
    if like.dtype in (FP8, E8M0):
        return np.asarray(whole.view(torch.uint8).numpy().view(like.dtype))
    return np.asarray(whole.numpy())
