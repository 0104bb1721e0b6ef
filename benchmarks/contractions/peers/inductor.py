"""torch.compile with frozen weights, which it packs beforehand."""

from __future__ import annotations

import torch
import torch._inductor.config as inductor

from benchmarks.contractions.forms import Case
from benchmarks.contractions.peers import Peer
from benchmarks.contractions.peers.torch import way
from benchmarks.contractions.peers.torch_calls import module_of
from benchmarks.peers import Way
from benchmarks.peers.torch_steps import shared
from benchmarks.values import Array

torch.set_grad_enabled(False)


def prepare(case: Case, given: dict[str, Array], threads: int) -> tuple[Way, ...]:
    """Compiled for the case's shapes."""
    torch.set_num_threads(threads)
    torch._dynamo.reset()
    inductor.freezing = True
    module = torch.compile(module_of(case).eval(), dynamic=False)
    return (way("", module, tuple(map(shared, given.values()))),)


PEER = Peer("torch.compile", torch.__version__, prepare)
