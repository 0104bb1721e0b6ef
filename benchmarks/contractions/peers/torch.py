"""PyTorch, eager: images in both memory layouts."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from benchmarks.contractions.forms import Case, Convolution, Pool, Whole
from benchmarks.contractions.peers import Peer
from benchmarks.contractions.peers.torch_calls import module_of
from benchmarks.peers import Kept, Way
from benchmarks.peers.torch_steps import shared
from benchmarks.steps import Element
from benchmarks.values import Array

IMAGE_RANK = 4
torch.set_grad_enabled(False)


def prepare(case: Case, given: dict[str, Array], threads: int) -> tuple[Way, ...]:
    """The calls as they are, and with an image's channels last in memory."""
    torch.set_num_threads(threads)
    ways = [way("", module_of(case), tuple(map(shared, given.values())))]
    if isinstance(case.form, Convolution | Pool | Whole) and given["x"].ndim == IMAGE_RANK:
        last = [shared(x).to(memory_format=torch.channels_last) for x in given.values()]
        ways.append(way("channels last", module_of(case, last=True), tuple(last)))
    return tuple(ways)


def way(label: str, module: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> Way:
    """A module on its inputs; it makes its result's memory, which PyTorch uses again."""
    call = Kept(partial(module, *given))
    return Way(label, call, lambda: host(call.value))


def host(made: object) -> Array:
    """A result as an array."""
    assert isinstance(made, torch.Tensor), "a module gives a tensor"
    whole = made.contiguous()
    if made.dtype is torch.bfloat16:
        return np.asarray(whole.view(torch.int16).numpy().view(Element.BF16.numpy))
    return np.asarray(whole.numpy())


PEER = Peer("PyTorch", torch.__version__, prepare)
