"""The steps of a case in PyTorch, into memory given beforehand where it takes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from benchmarks.layers.cases import Case
from benchmarks.layers.formula import Formula
from benchmarks.layers.torch_steps import affine, chained, coefficients, formula, pieces, shared
from benchmarks.peers import Task, Way
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
FREEZES = False  # constants are no weights of modules


def eager(task: Task) -> tuple[Way, ...]:
    """The steps as they are, and with the image's channels last in memory."""
    case, out = task.case, aligned(types(task.case.steps, task.case.input)[-1])
    given, taken = shared(task.given["x"]), shared(out)
    ways = (Way("", _into(case, given, taken), lambda: (out,)),)
    if not _has_layouts(case):
        return ways
    last = torch.channels_last
    x_last = given.clone(memory_format=last)
    y_last = torch.empty(out.shape, dtype=taken.dtype, memory_format=last)

    def fetch() -> tuple[Array]:
        taken.copy_(y_last)
        return (out,)

    return (*ways, Way("channels last", _into(case, x_last, y_last), fetch))


def compiled(task: Task) -> Way:
    """The steps, then a copy to the output, which the compiler takes away."""
    out = aligned(types(task.case.steps, task.case.input)[-1])
    given, taken = shared(task.given["x"]), shared(out)
    whole = chained(pieces(task.case))

    def into(a: torch.Tensor, b: torch.Tensor) -> None:
        b.copy_(whole(a))

    made = torch.compile(into, dynamic=False)
    return Way("", lambda: made(given, taken), lambda: (out,))


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
