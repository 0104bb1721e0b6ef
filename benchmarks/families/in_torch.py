"""The functions of a case in PyTorch. Indices are int64, as its functions require."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.peers import Cannot, Task, Way
from benchmarks.peers.torch import called, tensor
from benchmarks.values import Array

FREEZES = True


def eager(task: Task) -> tuple[Way, ...]:
    """The function of the case, and the other one if it has two."""
    functions = {"": _function(task), "other": task.case.eagerly}
    return tuple(_way(label, task, partial(f, torch)) for label, f in functions.items() if f)


def compiled(task: Task) -> Way:
    """The first function."""
    return _way("", task, torch.compile(partial(_function(task), torch), dynamic=False))


def _function(task: Task) -> Callable[..., Any]:  # Any: one tensor or several
    function: Callable[..., Any] | None = task.case.torch
    if function is None:
        raise Cannot("no function of PyTorch")
    return function


def _way(label: str, task: Task, function: Callable[..., Any]) -> Way:  # Any: see above
    return called(label, function, map(_indexed, task.inputs.values()), task.outputs)


def _indexed(x: Array) -> torch.Tensor:
    return tensor(x).long() if x.dtype == np.int32 and x.ndim else tensor(x)
