"""OpenCV for the cases that it supports: resize, transpose, split and merge of images."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np

from benchmarks import steps
from benchmarks.layers.cases import Case
from benchmarks.peers import Cannot, Peer, Task, Way
from benchmarks.steps import Element, Grid, Mode, Reach, Rounding, Tensor
from benchmarks.values import Array, aligned, scale_values

Run = Callable[[], object]
TO_PLANES, TO_PIXELS = (0, 3, 1, 2), (0, 2, 3, 1)
MOST_CHANNELS = 4
PHOTO = {steps.Cast, steps.Resize, steps.Scale, steps.Transpose}  # the steps of a photograph


def prepare(task: Task) -> tuple[Way, ...]:
    """A function for the form of the case."""
    case, x = task.case, task.inputs["x"]
    cv2.setNumThreads(task.threads)
    out = aligned(case.result)
    run = _photo(case, x, out) if len(case.steps) > 1 else _single(case, x, out)
    return (Way("", run, lambda: (out,)),)


def _single(case: Case, x: Array, out: Array) -> Run:
    match case.steps[0]:
        case steps.Resize() as step:
            return _resize(step, case.input, x, out)
        case steps.Transpose((1, 0)):
            a, b = (v.view(np.uint16) if x.itemsize == 2 else v for v in (x, out))  # it knows no bfloat16
            return lambda: cv2.transpose(a, b)
        case steps.Transpose((2, 0, 1)) if x.shape[2] <= MOST_CHANNELS:
            return lambda: cv2.split(x, list(out))
        case steps.Transpose((1, 2, 0)) if x.shape[0] <= MOST_CHANNELS:
            return lambda: cv2.merge(list(x), out)
        case steps.Transpose(perm) if perm == TO_PLANES and x.shape[0] == 1 and x.shape[3] <= MOST_CHANNELS:
            return lambda: cv2.split(x[0], list(out[0]))
        case steps.Transpose(perm) if perm == TO_PIXELS and x.shape[0] == 1 and x.shape[1] <= MOST_CHANNELS:
            return lambda: cv2.merge(list(x[0]), out[0])
    raise Cannot("no function for this")


def _resize(step: steps.Resize, tensor: Tensor, x: Array, out: Array) -> Run:
    """Images in memory order: pixels with channels, or planes."""
    how = _interpolation(step)
    if x.dtype not in (np.float32, np.uint8):
        raise Cannot(f"no resize of {x.dtype}")
    after = steps.infer(step, tensor).shape
    if len(after) == 4 and after[1:3] != x.shape[1:3] and after[3] == x.shape[3]:
        images = [(a, b) for a, b in zip(x, out, strict=True)]
    elif after[:-2] == x.shape[:-2]:
        planes = (a.reshape(-1, *a.shape[-2:]) for a in (x, out))
        images = list(zip(*planes, strict=True))
    else:
        raise Cannot("resize of two axes only")

    def run() -> None:
        for a, b in images:
            cv2.resize(a, (b.shape[1], b.shape[0]), b, interpolation=how)

    return run


def _interpolation(step: steps.Resize) -> int:
    how: int
    match step:
        case steps.Resize(mode=Mode.NEAREST, grid=Grid.ASYMMETRIC, rounding=Rounding.FLOOR):
            how = cv2.INTER_NEAREST
        case steps.Resize(mode=Mode.NEAREST, grid=Grid.HALF_PIXEL, rounding=Rounding.HALF_UP):
            how = cv2.INTER_NEAREST_EXACT
        case steps.Resize(mode=Mode.LINEAR, grid=Grid.HALF_PIXEL):
            how = cv2.INTER_LINEAR
        case steps.Resize(mode=Mode.CUBIC, grid=Grid.HALF_PIXEL):
            how = cv2.INTER_CUBIC
        case _:
            raise Cannot("no such interpolation")
    return how


def _photo(case: Case, x: Array, out: Array) -> Run:
    """A photograph, resized in uint8 as usual with OpenCV, then scaled to planes of float32."""
    kinds = {type(s): s for s in case.steps}
    scaling, resizing = kinds.get(steps.Scale), kinds.get(steps.Resize)
    if case.input.dtype is not Element.U8 or kinds.keys() != PHOTO:
        raise Cannot("a chain of other steps than a photograph's")
    assert isinstance(scaling, steps.Scale), "a photograph is scaled"
    assert isinstance(resizing, steps.Resize), "a photograph is resized"
    if scaling.reach is not Reach.CHANNEL:
        raise Cannot("one coefficient for each channel only")
    channels = x.shape[3]
    scale, shift = scale_values(scaling, out.shape if scaling.axis == 1 else (1, 1, 1, channels))
    assert scale is not None, "photographs have coefficients"
    assert shift is not None, "photographs have coefficients"
    numbers = [(float(a), float(b)) for a, b in zip(scale.reshape(-1), shift.reshape(-1), strict=True)]
    how, size = _interpolation(resizing), out.shape[2:]
    small = np.empty((*size, channels), np.uint8)
    planes = [np.empty(size, np.uint8) for _ in range(channels)]

    def run() -> None:
        for image, result in zip(x, out, strict=True):
            cv2.resize(image, (size[1], size[0]), small, interpolation=how)
            cv2.split(small, planes)
            for plane, target, (a, b) in zip(planes, result, numbers, strict=True):
                cv2.addWeighted(plane, a, plane, 0.0, b, target, cv2.CV_32F)

    return run


PEER = Peer("OpenCV", cv2.__version__, prepare)
