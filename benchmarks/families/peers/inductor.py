"""The same functions through torch.compile."""

from __future__ import annotations

from functools import partial

import torch
import torch._inductor.config as inductor

from benchmarks.families.peers import Peer, Results, Task
from benchmarks.families.peers.torch import way
from benchmarks.peers import Cannot


def prepare(task: Task) -> tuple[Results, ...]:
    """Compiled for the case's shapes."""
    torch.set_num_threads(task.threads)
    torch._dynamo.reset()
    inductor.freezing = True
    if task.case.torch is None:
        raise Cannot("no function of PyTorch")
    return (way("", task, torch.compile(partial(task.case.torch, torch), dynamic=False)),)


PEER = Peer("torch.compile", torch.__version__, prepare)
