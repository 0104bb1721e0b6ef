"""PyTorch, eager: the best of both memory layouts, or of several functions."""

from __future__ import annotations

import torch

from benchmarks.peers import Peer, Task, Way

torch.set_grad_enabled(False)


def prepare(task: Task) -> tuple[Way, ...]:
    """As the case's language says."""
    torch.set_num_threads(task.threads)
    ways: tuple[Way, ...] = task.translated("in_torch").eager(task)
    return ways


PEER = Peer("PyTorch", torch.__version__, prepare)
