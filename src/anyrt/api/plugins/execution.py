"""Calls of plug-ins on arrays: for the interpreter, and to find the fastest tactic."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from anyrt.api.plugins.formats import at, describe
from anyrt.api.plugins.kinds import Kind
from anyrt.api.plugins.user_calls import call_function
from anyrt.core.dtype import is_packed, numpy_dtype, pack4, storage_bytes, unpack4
from anyrt.core.formats import in_memory
from anyrt.core.lent import lending
from anyrt.prims.plugin import Plugin, Tensor

Array = NDArray[np.generic]
Timings = MutableMapping[str, tuple[int, float]]
ROUNDS: Final = 3  # calls of a tactic, of which the fastest counts
MOST_BYTES: Final = 1 << 30  # of tensors; tactics of larger plug-ins are not measured


def interpreter_function(kind: Kind) -> Callable[[Plugin, tuple[Array, ...]], tuple[Array, ...]]:
    """A function that calls the plug-in for the interpreter."""

    def call(op: Plugin, args: tuple[Array, ...]) -> tuple[Array, ...]:
        clone = kind.clone()
        clone.set_tactic(op.tactic)
        return run(clone, op, args)

    return call


def run(kind: Kind, op: Plugin, args: Sequence[Array]) -> tuple[Array, ...]:
    """The results for stored operands; the shapes of `op` are static."""
    operands = [_memory(x, t) for x, t in zip(args, op.sees, strict=False)]
    results = op.sees[len(operands) :]
    buffers = [np.zeros(storage_bytes(t.dtype, _count(t.shape)), np.uint8) for t in op.outs]
    for k, source in enumerate(op.over):
        if source >= 0:
            buffers[k][:] = operands[source]
            operands[source] = buffers[k]
    descs = [describe(t, _numbers(t)) for t in op.sees]
    inp, out = descs[: len(operands)], descs[len(operands) :]
    kind.show(inp, out)
    room = np.zeros(op.workspace, np.uint8)
    inputs, outputs = ([x.ctypes.data for x in side] for side in (operands, buffers))
    enqueue = kind.enqueue
    called = f"{type(kind.plugin).__name__}.enqueue"
    arguments = (inp, out, inputs, outputs, room.ctypes.data, 0)
    call_function(kind.where, called, lambda: lending(enqueue, *arguments))
    assert len(results) == len(buffers), f"{kind.where} has a tensor for each output"
    return tuple(_array(x, replace(t, type=of)) for x, t, of in zip(buffers, results, op.outs, strict=True))


def _count(shape: Sequence[object]) -> int:
    return prod(d for d in shape if isinstance(d, int))


def _numbers(t: Tensor) -> list[int]:
    return [d for d in t.type.shape if isinstance(d, int)]


def _memory(x: Array, t: Tensor) -> Array:
    """A stored operand as bytes."""
    return pack4(x) if is_packed(t.type.dtype) else np.ascontiguousarray(x).reshape(-1).view(np.uint8).copy()


def _array(raw: Array, t: Tensor) -> Array:
    """Bytes as a stored result."""
    shape = _numbers(t)
    if is_packed(t.type.dtype):
        return unpack4(raw, prod(shape), t.type.dtype).reshape(shape)
    return raw.view(numpy_dtype(t.type.dtype)).reshape(shape)


def fastest_tactic(kind: Kind, op: Plugin, sizes: Mapping[str, int], timings: Timings) -> int:
    """The tactic that takes the least time on tensors of these sizes; 0 if there is only one. Times are
    stored in `timings` if the plug-in has a key for them."""
    tactics = kind.tactics()
    if len(tactics) < 2:
        return tactics[0] if tactics else 0
    known = _known(op, sizes)
    tensors = (*known.outs, *(t.type for t in known.sees))
    volume = sum(storage_bytes(t.dtype, _count(t.shape)) for t in tensors)
    if volume > MOST_BYTES:
        return tactics[0]
    args = [_zeros(t) for t in known.sees[: len(known.sees) - len(known.outs)]]
    times = [_timed(kind, known, args, tactic, timings) for tactic in tactics]
    return tactics[times.index(min(times))]


def _timed(kind: Kind, op: Plugin, args: Sequence[Array], tactic: int, timings: Timings) -> float:
    """The time of a tactic in milliseconds."""
    key = _key(kind, op, tactic)
    if key in timings:
        return timings[key][1]
    clone = kind.clone()
    clone.set_tactic(tactic)
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        run(clone, op, args)
        times.append(1e3 * (time.perf_counter() - begin))
    if kind.timing_id:
        timings[key] = tactic, min(times)
    return min(times)


def _key(kind: Kind, op: Plugin, tactic: int) -> str:
    tensors = " ".join(f"{t.type} {t.format.name}" for t in op.sees)
    text = f"plug-in {op.name} {op.version} {op.space} {kind.timing_id} {tensors} {tactic}"
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _known(op: Plugin, sizes: Mapping[str, int]) -> Plugin:
    """`op` with static shapes: the values of dimensions at `sizes`."""

    def fixed(t: Tensor) -> Tensor:
        return replace(t, type=replace(t.type, shape=tuple(at(d, sizes) for d in t.type.shape)))

    sees = tuple(map(fixed, op.sees))
    outs = tuple(replace(t, shape=tuple(at(d, sizes) for d in t.shape)) for t in op.outs)
    return replace(op, sees=sees, outs=outs)


def _zeros(t: Tensor) -> Array:
    shape = in_memory(t.format, t.type.dtype, t.type.shape)
    return np.zeros([d for d in shape if isinstance(d, int)], numpy_dtype(t.type.dtype))
