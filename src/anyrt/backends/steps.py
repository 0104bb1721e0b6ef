"""A host program executed step by step, on memory that NumPy holds: for backends that run one kernel at a
time.

    outputs = run(job, feeds, run_kernel)

Native code reads the words of a program (backends/cpu/bytecode.py); this file walks over its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from anyrt.codegen.target import Job
from anyrt.core.dimvalues import evaluate
from anyrt.core.dtype import cast, is_packed, numpy_dtype, storage_bytes, stored_bytes, unpack4
from anyrt.core.requirement import FINE
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.evaluate import DTYPES
from anyrt.ir.graph import Type
from anyrt.ir.interpret import all_results
from anyrt.ir.kernel import Kernel
from anyrt.ir.prim import Array
from anyrt.ir.program import Branch, Call, ExternalCall, Step, While
from anyrt.ir.reference import widen
from anyrt.plan import abi

RunKernel: TypeAlias = Callable[[Kernel, Mapping[Buffer, Array], Mapping[str, int]], None]
OWN = frozenset({Space.SCRATCH, Space.SHARED, Space.REGISTER})  # of a kernel


def run(job: Job, feeds: Mapping[str, Array], run_kernel: RunKernel) -> dict[str, Array]:
    """The outputs by name. `run_kernel` runs all items of a kernel on the stored elements of its buffers,
    which it changes in place, at sizes by name; a failed condition on data raises its error, see
    `Call.finds`."""
    sizes, graph = dict(job.sizes), job.graph
    memory, words = dict(job.memory), {}
    for n, (name, value) in enumerate((*graph.inputs, *graph.outputs), abi.FIRST_BINDING):
        is_input = n < abi.FIRST_BINDING + len(graph.inputs)
        words[is_input, name] = n
        source = dict(graph.updates).get(name)
        if is_input:
            memory[n] = stored_bytes(feeds[name], value.dtype).copy()
        elif source is not None:
            memory[n] = memory[words[True, source]]
        else:
            memory[n] = np.zeros(_bytes(value.type, sizes), np.uint8)
    walk = _Walk(job, sizes, memory, run_kernel)
    walk.steps(job.module.fills)
    walk.steps(next(v.steps for v in job.module.versions if evaluate(v.guard, sizes)))
    return {name: _read(memory[words[False, name]], v.type, sizes) for name, v in graph.outputs}


@dataclass(frozen=True, slots=True)
class _Walk:
    """One inference: it computes the data-dependent `sizes`; `memory` is that of each word of the argument
    array."""

    job: Job
    sizes: dict[str, int]
    memory: Mapping[int, NDArray[np.uint8]]
    run_kernel: RunKernel

    def steps(self, steps: Iterable[Step]) -> None:
        """All of them, in order."""
        for step in steps:
            match step:
                case Call():
                    self._call(step)
                case While(flag=flag, body=body):
                    while self._at(flag)[0]:
                        self.steps(body)
                case Branch(flag=flag, then=then, otherwise=otherwise):
                    self.steps(then if self._at(flag)[0] else otherwise)
                case ExternalCall():
                    self._external(step)

    def _call(self, call: Call) -> None:
        buffers = {b: self._at(b) for b in call.buffers if b.space not in OWN}
        self.run_kernel(call.bound, buffers, self.sizes)
        if call.finds is not None and (number := int(self._at(call.finds.buffer)[0])) != FINE:
            raise call.finds.assertion.broken(number)
        for size, buffer in call.tells:
            self.sizes[size.name] = int(self._at(buffer)[0])

    def _external(self, step: ExternalCall) -> None:
        """The results of foreign code for stored operands, by its reference."""
        node = next(n for s, n in zip(self.job.module.external, self.job.external, strict=True) if s is step)
        count = len(node.args)
        arrays = tuple(self._operands(step.buffers[:count], [a.type for a in node.args]))
        for buffer, result, type in zip(
            step.buffers[count:], all_results(node, arrays, self.sizes), node.types, strict=True
        ):
            self._raw(buffer)[:] = stored_bytes(cast(result, type.dtype), type.dtype)

    def _operands(self, buffers: Iterable[Buffer], types: Iterable[Type]) -> Iterator[Array]:
        for buffer, of in zip(buffers, types, strict=True):
            yield widen(_read(self._raw(buffer), of, self.sizes), of.dtype)

    def _at(self, buffer: Buffer) -> Array:
        """The stored elements of a buffer."""
        return self._raw(buffer).view(DTYPES[buffer.stored])

    def _raw(self, buffer: Buffer) -> NDArray[np.uint8]:
        word, offset = self.job.module.places[buffer]
        first = evaluate(offset, self.sizes)
        count = evaluate(buffer.entries, self.sizes) * np.dtype(DTYPES[buffer.stored]).itemsize
        return self.memory[word][first : first + count]


def _bytes(of: Type, sizes: Mapping[str, int]) -> int:
    return storage_bytes(of.dtype, int(np.prod(_shape(of, sizes), dtype=np.int64)))


def _shape(of: Type, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(d, sizes) for d in of.shape)


def _read(raw: NDArray[np.uint8], of: Type, sizes: Mapping[str, int]) -> Array:
    """A tensor of what lies in memory."""
    shape = _shape(of, sizes)
    count = int(np.prod(shape, dtype=np.int64))
    raw = raw[: storage_bytes(of.dtype, count)]
    flat = unpack4(raw, count, of.dtype) if is_packed(of.dtype) else raw.copy().view(numpy_dtype(of.dtype))
    return flat.reshape(shape)
