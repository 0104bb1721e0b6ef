"""PyTorch, eager. Positions are int64, as its functions take them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import torch

from benchmarks.families.case import HALVES, fetched, packed
from benchmarks.families.peers import Peer, Results, Task, made
from benchmarks.peers import Cannot, Kept
from benchmarks.values import Array

torch.set_grad_enabled(False)
FP8, E8M0 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e8m0fnu)


def prepare(task: Task) -> tuple[Results, ...]:
    """One function, or two."""
    torch.set_num_threads(task.threads)
    if task.case.torch is None:
        raise Cannot("no function of PyTorch")
    ways = [way("", task, partial(task.case.torch, torch))]
    if task.case.eagerly is not None:
        ways.append(way("other", task, partial(task.case.eagerly, torch)))
    return tuple(ways)


def way(label: str, task: Task, function: Callable[..., Any]) -> Results:  # Any: one tensor or several
    """A function on the inputs; it makes its results' memory, which PyTorch uses again."""
    call = Kept(partial(function, *map(_tensor, task.given.values())))
    return made(label, call, partial(_results, call, task))


def _tensor(x: Array) -> torch.Tensor:
    if x.dtype in HALVES:
        return torch.from_numpy(packed(x).view(np.int8))
    if x.dtype == FP8:
        return torch.from_numpy(x.view(np.uint8)).view(torch.float8_e4m3fn)
    made = torch.from_numpy(x)
    return made.long() if x.dtype == np.int32 and x.ndim else made


def _results(call: Kept, task: Task) -> tuple[Array, ...]:
    found: Any = call.value  # Any: see above
    tensors = found if isinstance(found, tuple) else (found,)
    held = tuple(_array(t, y) for t, y in zip(tensors, task.results, strict=True))
    return fetched(held, task.results)


def _array(x: torch.Tensor, like: Array) -> Array:
    whole = x.contiguous()
    if like.dtype in HALVES:
        return whole.view(torch.uint8).numpy().reshape(-1)
    if like.dtype in (FP8, E8M0):
        return np.asarray(whole.view(torch.uint8).numpy().view(like.dtype))
    return np.asarray(whole.numpy())


PEER = Peer("PyTorch", torch.__version__, prepare)
