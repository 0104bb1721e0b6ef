"""NumPy, with preallocated results if possible; half types are computed in float32."""

from __future__ import annotations

import numpy as np

from benchmarks.layers.arrays import Library, chained, filling, operations
from benchmarks.layers.formula import Formula
from benchmarks.peers import Peer, Task, Way
from benchmarks.steps import Dequantize, Element, Scale, Step, Tensor, infer
from benchmarks.values import aligned


def _writes(step: Step, x: Tensor) -> bool:
    return isinstance(step, Scale | Formula) and infer(step, x).dtype is Element.F32


LIBRARY = Library(
    operations(np),
    constant=lambda a, dtype: a.astype(np.float32),
    cast=lambda y, dtype: y.astype(dtype.numpy),
    stored=lambda y, dtype: y if dtype.is_float else np.clip(np.rint(y), *dtype.ends),
    room=lambda shape: np.empty(shape, np.float32),
    writes=_writes,
    copy=lambda out, y: np.copyto(out, y, casting="unsafe"),
    own={
        Dequantize: lambda step, x, library, out: (
            lambda y: np.multiply(y, np.float32(step.scale), dtype=np.float32)
        )
    },
)


def prepare(task: Task) -> tuple[Way, ...]:
    """The steps in order; the last one writes to the output or is copied to it."""
    case, x = task.case, task.inputs["x"]
    out = aligned(case.result)
    whole = chained(filling(case, LIBRARY, out))
    is_half = case.input.dtype.is_float and case.input.dtype is not Element.F32

    def run() -> None:
        whole(x.astype(np.float32) if is_half else x)

    return (Way("", run, lambda: (out,)),)


PEER = Peer("NumPy", np.__version__, prepare)
