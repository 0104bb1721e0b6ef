"""torch.compile, for the case's shapes; weights of modules are frozen, so that it packs them beforehand."""

from __future__ import annotations

import torch
import torch._inductor.config as inductor

from benchmarks.peers import Peer, Task, Way

torch.set_grad_enabled(False)


def prepare(task: Task) -> tuple[Way, ...]:
    """As the case's language says."""
    torch.set_num_threads(task.threads)
    torch._dynamo.reset()
    language = task.translated("in_torch")
    inductor.freezing = language.FREEZES
    way: Way = language.compiled(task)
    return (way,)


PEER = Peer("torch.compile", torch.__version__, prepare)
