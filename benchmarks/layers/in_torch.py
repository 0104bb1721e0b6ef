"""The steps of a case in PyTorch, into preallocated memory if possible, and for torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from benchmarks import steps
from benchmarks.layers.arrays import Library, Run, chained, filling, functions, gathered, operations
from benchmarks.layers.cases import Case
from benchmarks.layers.formula import Formula
from benchmarks.peers import Cannot, Task, Way
from benchmarks.peers.torch import tensor
from benchmarks.steps import Element, Grid, Mode, Reach, Rounding, Statistics, Step, Tensor
from benchmarks.values import Array, aligned, norm_values, scale_values

IMAGE_RANK = 4
ATEN = torch.ops.aten
FREEZES = False  # constants are no weights of modules
DTYPES = {
    Element.F32: torch.float32,
    Element.F16: torch.float16,
    Element.BF16: torch.bfloat16,
    Element.U8: torch.uint8,
    Element.I8: torch.int8,
}
# PyTorch's own interpolation: number of axes that change → its name.
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def eager(task: Task) -> tuple[Way, ...]:
    """The steps, and for images also with channels last in memory."""
    case, out = task.case, aligned(task.case.result)
    x, y = tensor(task.inputs["x"]), tensor(out)
    ways = (Way("", _into(case, x, y), lambda: (out,)),)
    if not _has_layouts(case):
        return ways
    x_last = x.clone(memory_format=torch.channels_last)
    y_last = torch.empty(out.shape, dtype=y.dtype, memory_format=torch.channels_last)

    def fetch() -> tuple[Array]:
        y.copy_(y_last)
        return (out,)

    return (*ways, Way("channels last", _into(case, x_last, y_last), fetch))


def compiled(task: Task) -> Way:
    """The steps and a copy to the output, which the compiler removes."""
    out = aligned(task.case.result)
    x, y = tensor(task.inputs["x"]), tensor(out)
    whole = chained(functions(task.case, LIBRARY))

    def into(a: torch.Tensor, b: torch.Tensor) -> None:
        b.copy_(whole(a))

    call = torch.compile(into, dynamic=False)
    return Way("", lambda: call(x, y), lambda: (out,))


def _has_layouts(case: Case) -> bool:
    """Whether all steps keep an image an image, so that its memory layout is free."""
    kept = all(isinstance(s, steps.Scale | steps.Resize | steps.Norm | steps.Silu) for s in case.steps)
    layers = any(
        isinstance(s, steps.Norm) and s.kind in (Statistics.LAYER, Statistics.RMS) for s in case.steps
    )
    elements = any(isinstance(s, steps.Scale) and s.reach is Reach.ELEMENTWISE for s in case.steps)
    return kept and len(case.input.shape) == IMAGE_RANK and not layers and not elements


def _into(case: Case, x: torch.Tensor, out: torch.Tensor) -> Callable[[], object]:
    """The last step writes to the output if PyTorch has a function for that."""
    *first, last = filling(case, LIBRARY, out)
    before = chained(first)
    return (lambda: last(before(x))) if first else partial(last, x)


def _writes(step: Step, x: Tensor) -> bool:
    match step:
        case steps.Scale():
            return x.dtype is not Element.U8
        case steps.Norm(kind=Statistics.LAYER):
            return x.dtype is Element.F32
    return isinstance(step, steps.Cast | steps.Silu | Formula)


def _constant(a: Array, dtype: Element) -> Any:  # Any: a tensor, or a number as one writes it in Python
    return a.item() if a.ndim == 0 else torch.from_numpy(a).to(DTYPES[dtype])


def _stored(y: torch.Tensor, dtype: Element) -> torch.Tensor:
    return (y if dtype.is_float else torch.clamp(torch.round(y), *dtype.ends)).to(DTYPES[dtype])


def _cast(step: steps.Cast, x: Tensor, library: Library, out: torch.Tensor | None) -> Run:
    target = DTYPES[step.dtype]
    return (lambda y: y.to(target)) if out is None else out.copy_


def _silu(step: steps.Silu, x: Tensor, library: Library, out: torch.Tensor | None) -> Run:
    return functional.silu if out is None else partial(ATEN.silu.out, out=out)


def _scale(step: steps.Scale, x: Tensor, library: Library, out: torch.Tensor | None) -> Run:
    scale, shift = (None if a is None else _constant(a, x.dtype) for a in scale_values(step, x.shape))
    into, power = library.into(x.shape, out), step.power

    def run(y: torch.Tensor) -> torch.Tensor:
        if scale is not None and shift is not None:
            y = torch.addcmul(shift, y, scale, **into)
        elif scale is not None:
            y = torch.mul(y, scale, **into)
        else:
            y = torch.add(y, 0 if shift is None else shift, **into)
        return y if power == 1 else torch.pow(y, power, **into)

    return run


def _norm(step: steps.Norm, x: Tensor, library: Library, out: torch.Tensor | None) -> Run:
    """scale, bias: of the tensor's type; flat, except for LAYER over several axes."""
    rows = [x.shape[i] for i in steps.norm_axes(step, len(x.shape))]
    flat = rows if step.kind in (Statistics.LAYER, Statistics.RMS) else [-1]
    scale, bias = (_constant(a.reshape(flat), x.dtype) for a in norm_values(step, x.shape))
    epsilon = step.epsilon
    match step.kind:
        case Statistics.LAYER if out is not None:
            outer = x.shape[: len(x.shape) - len(rows)] + (1,) * len(rows)
            mean, spread = (torch.empty(outer) for _ in range(2))
            return lambda y: ATEN.native_layer_norm.out(
                y, rows, scale, bias, epsilon, out0=out, out1=mean, out2=spread
            )
        case Statistics.LAYER:
            return lambda y: functional.layer_norm(y, rows, scale, bias, epsilon)
        case Statistics.RMS:
            return lambda y: functional.rms_norm(y, rows, scale, epsilon)
        case Statistics.GROUP:
            return lambda y: functional.group_norm(y, step.groups, scale, bias, epsilon)
        case Statistics.INSTANCE:
            return lambda y: functional.instance_norm(y, weight=scale, bias=bias, eps=epsilon)


def _resize(step: steps.Resize, x: Tensor, library: Library, out: torch.Tensor | None) -> Run:
    """PyTorch's interpolation, if it covers the axes: those after the second, or all inner ones."""
    after = steps.infer(step, x).shape
    rank = len(x.shape)
    changed = {i for i, (a, b) in enumerate(zip(x.shape, after, strict=True)) if a != b}
    mode = _mode(step, rank - 2)
    if mode is None or rank < 3:
        return gathered(step, x, library)
    corners = None if step.mode is Mode.NEAREST else step.grid is Grid.ALIGN_CORNERS
    if changed <= set(range(2, rank)):
        return partial(functional.interpolate, size=after[2:], mode=mode, align_corners=corners)
    if changed <= set(range(1, rank - 1)):
        inner = partial(functional.interpolate, size=after[1:-1], mode=mode, align_corners=corners)
        return lambda y: inner(y.movedim(-1, 1)).movedim(1, -1)
    raise Cannot(f"no interpolation of axes {sorted(changed)}")


def _mode(step: steps.Resize, spatial: int) -> str | None:
    """PyTorch's name of the same interpolation; None if there is none."""
    match step:
        case steps.Resize(mode=Mode.NEAREST, grid=Grid.ASYMMETRIC, rounding=Rounding.FLOOR):
            return "nearest"
        case steps.Resize(mode=Mode.NEAREST, grid=Grid.HALF_PIXEL, rounding=Rounding.HALF_UP):
            return "nearest-exact"
        case steps.Resize(mode=Mode.LINEAR, grid=Grid.HALF_PIXEL | Grid.ALIGN_CORNERS):
            return LINEAR.get(spatial)
        case steps.Resize(mode=Mode.CUBIC, grid=Grid.HALF_PIXEL | Grid.ALIGN_CORNERS) if spatial == 2:
            return "bicubic"
    return None


LIBRARY = Library(
    operations(torch, power="pow", axis="dim", keepdims="keepdim"),
    constant=_constant,
    cast=lambda y, dtype: y.to(DTYPES[dtype]),
    stored=_stored,
    take=lambda y, at, axis: torch.index_select(y, axis, at),
    tap=torch.from_numpy,
    writes=_writes,
    copy=lambda out, y: out.copy_(y),
    own={
        steps.Scale: _scale,
        steps.Norm: _norm,
        steps.Resize: _resize,
        steps.Silu: _silu,
        steps.Cast: _cast,
        steps.Transpose: lambda step, x, library, out: lambda y: y.permute(step.perm),
    },
)
