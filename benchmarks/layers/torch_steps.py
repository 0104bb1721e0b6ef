"""The steps of a case as PyTorch functions, for eager calls and for torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.nn import functional

from benchmarks.layers.cases import Case
from benchmarks.layers.formula import Constant, Formula, Line, Number, Op, constants_of, evaluate
from benchmarks.layers.taps import plans
from benchmarks.peers import Cannot
from benchmarks.steps import (
    Cast,
    Dequantize,
    Element,
    Grid,
    Mode,
    Norm,
    Quantize,
    Reshape,
    Resize,
    Rounding,
    Scale,
    Silu,
    Statistics,
    Step,
    Tensor,
    Transpose,
    infer,
    norm_axes,
    types,
)
from benchmarks.values import Array, constant_values, norm_values, scale_values

Run: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
DTYPES = {
    Element.F32: torch.float32,
    Element.F16: torch.float16,
    Element.BF16: torch.bfloat16,
    Element.U8: torch.uint8,
    Element.I8: torch.int8,
}
# PyTorch's own interpolation: number of axes that change → its name.
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
OPS: dict[Op, Callable[..., torch.Tensor]] = {
    Op.ADD: torch.add,
    Op.SUB: torch.sub,
    Op.MUL: torch.mul,
    Op.DIV: torch.div,
    Op.POW: torch.pow,
    Op.SQRT: torch.sqrt,
    Op.RECIP: torch.reciprocal,
    Op.MEAN: partial(torch.mean, dim=-1, keepdim=True),
    Op.TOTAL: partial(torch.sum, dim=-1, keepdim=True),
}


def shared(array: Array) -> torch.Tensor:
    """A tensor over the array's memory."""
    if array.dtype == Element.BF16.numpy:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def pieces(case: Case) -> list[Run]:
    """A function for each step."""
    tensors = types(case.steps, case.input)
    return [_step(s, t) for s, t in zip(case.steps, tensors, strict=False)]


def chained(runs: list[Run]) -> Run:
    """All of them, one after the other."""

    def run(x: torch.Tensor) -> torch.Tensor:
        for piece in runs:
            x = piece(x)
        return x

    return run


def coefficients(step: Scale, x: Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """(scale, shift) in the tensor's type."""
    scale, shift = (
        None if a is None else torch.from_numpy(a).to(DTYPES[x.dtype]) for a in scale_values(step, x.shape)
    )
    return scale, shift


def affine(step: Norm, x: Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(scale, bias) in the tensor's type, flat but for LAYER over several axes."""
    rows = tuple(x.shape[i] for i in norm_axes(step, len(x.shape)))
    per_row = step.kind in (Statistics.LAYER, Statistics.RMS)
    scale, bias = (
        torch.from_numpy(a.reshape(rows if per_row else (-1,))).to(DTYPES[x.dtype])
        for a in norm_values(step, x.shape)
    )
    return scale, bias


def formula(step: Formula, x: Tensor, out: torch.Tensor | None = None) -> Run:
    """Its lines as functions; the last one writes `out` if it is given. A constant without axes is a number,
    as one writes it in Python."""
    constants = {c: _constant(c, x) for c in constants_of(step)}
    into = {} if out is None else {step.lines[-1]: {"out": out}}

    def apply(line: Line, operands: tuple[Any, ...]) -> Any:  # Any: tensors and numbers
        return OPS[line.op](*operands, **into.get(line, {}))

    return lambda y: evaluate(step, y, constants.__getitem__, apply)


def _constant(constant: Constant, x: Tensor) -> Any:  # Any: see above
    if isinstance(constant, Number) and not constant.full_rank:
        return constant.value
    return torch.from_numpy(constant_values(constant, x.shape)).to(DTYPES[x.dtype])


def _step(step: Step, x: Tensor) -> Run:
    match step:
        case Scale():
            return _scale(step, x)
        case Resize():
            return _resize(step, x)
        case Transpose(perm):
            return lambda y: y.permute(perm)
        case Reshape():
            shape = infer(step, x).shape
            return lambda y: y.reshape(shape)
        case Norm():
            return _norm(step, x)
        case Silu():
            return lambda y: functional.silu(y)
        case Cast() | Dequantize() | Quantize():
            return _converted(step)
        case Formula():
            return formula(step, x)


def _converted(step: Cast | Dequantize | Quantize) -> Run:
    match step:
        case Cast(dtype):
            target = DTYPES[dtype]
            return lambda y: y.to(target)
        case Dequantize(scale):
            return lambda y: y.to(torch.float32) * scale
        case Quantize(scale):
            return lambda y: torch.clamp(torch.round(y / scale), -128, 127).to(torch.int8)


def _scale(step: Scale, x: Tensor) -> Run:
    scale, shift = coefficients(step, x)
    power = step.power

    def run(y: torch.Tensor) -> torch.Tensor:
        if scale is not None and shift is not None:
            y = torch.addcmul(shift, y, scale)
        elif scale is not None:
            y = y * scale
        elif shift is not None:
            y = y + shift
        return y if power == 1 else torch.pow(y, power)

    return run


def _norm(step: Norm, x: Tensor) -> Run:
    scale, bias = affine(step, x)
    rows, epsilon = list(scale.shape), step.epsilon
    match step.kind:
        case Statistics.LAYER:
            return lambda y: functional.layer_norm(y, rows, scale, bias, epsilon)
        case Statistics.RMS:
            return lambda y: functional.rms_norm(y, rows, scale, epsilon)
        case Statistics.GROUP:
            return lambda y: functional.group_norm(y, step.groups, scale, bias, epsilon)
        case Statistics.INSTANCE:
            return lambda y: functional.instance_norm(y, weight=scale, bias=bias, eps=epsilon)


def _resize(step: Resize, x: Tensor) -> Run:
    """PyTorch's own where it has it: the axes after the second, or those between the first and the last."""
    after = infer(step, x).shape
    rank = len(x.shape)
    changed = {i for i, (a, b) in enumerate(zip(x.shape, after, strict=True)) if a != b}
    mode = _mode(step, rank - 2)
    if mode is None or rank < 3:
        return _gather(step, x)
    corners = None if step.mode is Mode.NEAREST else step.grid is Grid.ALIGN_CORNERS
    if changed <= set(range(2, rank)):
        size = after[2:]
        return lambda y: functional.interpolate(y, size, mode=mode, align_corners=corners)
    if changed <= set(range(1, rank - 1)):
        size = after[1:-1]
        return lambda y: functional.interpolate(
            y.movedim(-1, 1), size, mode=mode, align_corners=corners
        ).movedim(1, -1)
    raise Cannot(f"no interpolation of axes {sorted(changed)}")


def _mode(step: Resize, spatial: int) -> str | None:
    """The name of PyTorch's function that means the same, if there is one."""
    match step:
        case Resize(mode=Mode.NEAREST, grid=Grid.ASYMMETRIC, rounding=Rounding.FLOOR):
            return "nearest"
        case Resize(mode=Mode.NEAREST, grid=Grid.HALF_PIXEL, rounding=Rounding.HALF_UP):
            return "nearest-exact"
        case Resize(mode=Mode.LINEAR, grid=Grid.HALF_PIXEL | Grid.ALIGN_CORNERS):
            return LINEAR.get(spatial)
        case Resize(mode=Mode.CUBIC, grid=Grid.HALF_PIXEL | Grid.ALIGN_CORNERS) if spatial == 2:
            return "bicubic"
    return None


def _gather(step: Resize, x: Tensor) -> Run:
    """By index and weight, axis by axis."""
    every = [(axis, [tuple(map(torch.from_numpy, tap)) for tap in taps]) for axis, taps in plans(step, x)]
    dtype, weighs = DTYPES[x.dtype], step.mode is not Mode.NEAREST

    def run(y: torch.Tensor) -> torch.Tensor:
        for axis, taps in every:
            if not weighs:
                y = torch.index_select(y, axis, taps[0][0])
                continue
            parts = [torch.index_select(y, axis, at) * weight for at, weight in taps]
            y = torch.stack(parts).sum(0) if len(parts) > 2 else parts[0] + parts[1]
        return _narrow(y, dtype) if weighs else y

    return run


def _narrow(y: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.clamp(torch.round(y), 0, 255).to(dtype) if dtype is torch.uint8 else y.to(dtype)
