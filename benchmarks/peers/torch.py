"""PyTorch, eager: in both memory layouts, or with several functions; and compiled by torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import torch
import torch._inductor.config as inductor

from benchmarks.peers import Kept, Peer, Task, Way
from benchmarks.values import HALVES, Array, fetched, packed

torch.set_grad_enabled(False)
# Types that NumPy lacks: the type of the words that hold them, and PyTorch's type; e8m0 are codes to it.
ODD = {
    np.dtype(ml_dtypes.bfloat16): (torch.int16, torch.bfloat16),
    np.dtype(ml_dtypes.float8_e4m3fn): (torch.uint8, torch.float8_e4m3fn),
    np.dtype(ml_dtypes.float8_e8m0fnu): (torch.uint8, torch.uint8),
}


def prepare(task: Task) -> tuple[Way, ...]:
    """The eager ways of the case's language."""
    torch.set_num_threads(task.threads)
    ways: tuple[Way, ...] = task.translated("in_torch").eager(task)
    return ways


def compiled(task: Task) -> tuple[Way, ...]:
    """The compiled way, for the case's shapes, with frozen weights, which it packs in advance."""
    torch.set_num_threads(task.threads)
    torch._dynamo.reset()
    language = task.translated("in_torch")
    inductor.freezing = language.FREEZES
    return (language.compiled(task),)


def called(
    label: str, function: Callable[..., Any], tensors: Iterable[torch.Tensor], outputs: tuple[Array, ...]
) -> Way:  # Any: one tensor or several
    """A function on its inputs; PyTorch allocates and reuses the memory of results."""
    call = Kept(partial(function, *tensors))
    return Way(label, call, partial(_results, call, outputs))


def _results(call: Kept, outputs: tuple[Array, ...]) -> tuple[Array, ...]:
    value: Any = call.value  # Any: see above
    tensors = value if isinstance(value, tuple) else (value,)
    return fetched(tuple(_array(t, y) for t, y in zip(tensors, outputs, strict=True)), outputs)


def tensor(x: Array) -> torch.Tensor:
    """A tensor on the array's memory; elements of 4 bits are packed bytes."""
    if x.dtype in HALVES:
        return torch.from_numpy(packed(x).view(np.int8))
    if x.dtype in ODD:
        _, kind = ODD[x.dtype]
        return torch.from_numpy(x.view(f"i{x.itemsize}")).view(kind)
    return torch.from_numpy(x)


def _array(x: torch.Tensor, like: Array) -> Array:
    whole = x.contiguous()
    if like.dtype in HALVES:
        return whole.view(torch.uint8).numpy().reshape(-1)
    if like.dtype in ODD:
        word, _ = ODD[like.dtype]
        return np.asarray(whole.view(word).numpy().view(like.dtype))
    return np.asarray(whole.numpy())


PEER = Peer("PyTorch", torch.__version__, prepare)
COMPILED = Peer("torch.compile", torch.__version__, compiled)
