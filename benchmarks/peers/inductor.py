"""torch.compile, whose kernels write the case's memory."""

from __future__ import annotations

import torch

from benchmarks.cases import Case
from benchmarks.peers import Peer, Way
from benchmarks.peers.torch_steps import chained, pieces, shared
from benchmarks.steps import types
from benchmarks.values import Array, aligned

torch.set_grad_enabled(False)


def prepare(case: Case, x: Array, threads: int) -> tuple[Way, ...]:
    """The steps, then a copy to the output, which the compiler takes away."""
    torch.set_num_threads(threads)
    torch._dynamo.reset()
    out = aligned(types(case.steps, case.input)[-1])
    given, taken = shared(x), shared(out)
    whole = chained(pieces(case))

    def into(a: torch.Tensor, b: torch.Tensor) -> None:
        b.copy_(whole(a))

    compiled = torch.compile(into, dynamic=False)
    return (Way("", lambda: compiled(given, taken), lambda: out),)


PEER = Peer("torch.compile", torch.__version__, prepare)
