"""PyTorch, eager: the best of both memory layouts, into memory given beforehand where it takes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from benchmarks.cases import Case
from benchmarks.formula import Formula
from benchmarks.peers import Peer, Way
from benchmarks.peers.torch_steps import affine, chained, coefficients, formula, pieces, shared
from benchmarks.steps import (
    Cast,
    Element,
    Norm,
    Reach,
    Resize,
    Scale,
    Silu,
    Statistics,
    Tensor,
    Transpose,
    types,
)
from benchmarks.values import Array, aligned

IMAGE_RANK = 4
ATEN = torch.ops.aten
torch.set_grad_enabled(False)


def prepare(case: Case, x: Array, threads: int) -> tuple[Way, ...]:
    """The steps as they are, and with the image's channels last in memory."""
    torch.set_num_threads(threads)
    result = types(case.steps, case.input)[-1]
    out = aligned(result)
    given, taken = shared(x), shared(out)
    ways = (Way("", _into(case, given, taken), lambda: out),)
    if not _has_layouts(case):
        return ways
    last = torch.channels_last
    x_last = given.clone(memory_format=last)
    y_last = torch.empty(result.shape, dtype=taken.dtype, memory_format=last)

    def fetch() -> Array:
        taken.copy_(y_last)
        return out

    return (*ways, Way("channels last", _into(case, x_last, y_last), fetch))


def _has_layouts(case: Case) -> bool:
    """Whether an image stays as it is, so that its layout in memory is free."""
    kept = all(isinstance(s, Scale | Resize | Norm | Silu) for s in case.steps)
    layers = any(isinstance(s, Norm) and s.kind in (Statistics.LAYER, Statistics.RMS) for s in case.steps)
    elements = any(isinstance(s, Scale) and s.reach is Reach.ELEMENTWISE for s in case.steps)
    return kept and len(case.input.shape) == IMAGE_RANK and not layers and not elements


def _into(case: Case, x: torch.Tensor, out: torch.Tensor) -> Callable[[], object]:
    """The last step writes the output itself where PyTorch has a function for that."""
    steps = pieces(case)
    tensors = types(case.steps, case.input)
    last = _last(case, tensors[-2], out)
    if last is None:
        whole = chained(steps)
        return lambda: out.copy_(whole(x))
    if len(steps) == 1:
        return partial(last, x)
    before = chained(steps[:-1])
    return lambda: last(before(x))


def _last(case: Case, x: Tensor, out: torch.Tensor) -> Callable[[torch.Tensor], object] | None:
    match case.steps[-1]:
        case Scale() as step if x.dtype is not Element.U8:
            return _scale_into(step, x, out)
        case Transpose(perm):
            return lambda y: out.copy_(y.permute(perm))
        case Cast():
            return lambda y: out.copy_(y)
        case Silu():
            return lambda y: ATEN.silu.out(y, out=out)
        case Formula() as step:
            return formula(step, x, out)
        case Norm(kind=Statistics.LAYER) as step if x.dtype is Element.F32:
            return _layer_norm_into(step, x, out)
    return None


def _scale_into(step: Scale, x: Tensor, out: torch.Tensor) -> Callable[[torch.Tensor], object]:
    scale, shift = coefficients(step, x)
    power = step.power

    def run(y: torch.Tensor) -> None:
        if scale is not None and shift is not None:
            torch.addcmul(shift, y, scale, out=out)
        elif scale is not None:
            torch.mul(y, scale, out=out)
        else:
            torch.add(y, 0 if shift is None else shift, out=out)
        if power != 1:
            out.pow_(power)

    return run


def _layer_norm_into(step: Norm, x: Tensor, out: torch.Tensor) -> Callable[[torch.Tensor], object]:
    scale, bias = affine(step, x)
    rows = list(scale.shape)
    outer = x.shape[: len(x.shape) - len(rows)] + (1,) * len(rows)
    mean, spread = (torch.empty(outer) for _ in range(2))
    return lambda y: ATEN.native_layer_norm.out(
        y, rows, scale, bias, step.epsilon, out0=out, out1=mean, out2=spread
    )


PEER = Peer("PyTorch", torch.__version__, prepare)
