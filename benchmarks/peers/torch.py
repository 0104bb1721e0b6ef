"""PyTorch, eager: in both memory layouts, or with several functions."""

from __future__ import annotations

import torch

from benchmarks.peers import Peer, Task, Way

torch.set_grad_enabled(False)


def prepare(task: Task) -> tuple[Way, ...]:
    """The eager ways of the case's language."""
    torch.set_num_threads(task.threads)
    ways: tuple[Way, ...] = task.translated("in_torch").eager(task)
    return ways


PEER = Peer("PyTorch", torch.__version__, prepare)
