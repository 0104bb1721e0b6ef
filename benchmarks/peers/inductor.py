"""torch.compile for the case's shapes, with frozen weights, which it packs in advance."""

from __future__ import annotations

import torch
import torch._inductor.config as inductor

from benchmarks.peers import Peer, Task, Way

torch.set_grad_enabled(False)


def prepare(task: Task) -> tuple[Way, ...]:
    """The compiled way of the case's language."""
    torch.set_num_threads(task.threads)
    torch._dynamo.reset()
    language = task.translated("in_torch")
    inductor.freezing = language.FREEZES
    way: Way = language.compiled(task)
    return (way,)


PEER = Peer("torch.compile", torch.__version__, prepare)
