"""The memory traffic of a network, for tests and for finding redundant passes over memory.

A kernel counts every tensor that it touches once and whole. The actual traffic is less if caches keep data
between kernels, and more if a kernel reads evicted elements again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anyrt.backends.borrowed import Borrowed
from anyrt.codegen.target import Answer, Job
from anyrt.core.dimvalues import evaluate
from anyrt.core.dtype import storage_bytes
from anyrt.core.enums import DataType
from anyrt.ir.buffer import BITS, Buffer, Space
from anyrt.ir.kernel import Kernel
from anyrt.ir.prim import Array
from anyrt.ir.statements import buffers_of

MEMORY = frozenset({Space.INPUT, Space.OUTPUT, Space.CONST, Space.ARENA})


@dataclass(frozen=True, slots=True)
class Traffic:
    """How many kernels, and how many bytes of tensors they touch."""

    kernels: int
    bytes: int


def count(kernels: Iterable[Kernel], sizes: Mapping[str, int]) -> Traffic:
    """The traffic of one inference at these sizes."""
    moved = [sum(_bytes(b, sizes) for b in buffers_of(k.body) if b.space in MEMORY) for k in kernels]
    return Traffic(len(moved), sum(moved))


def _bytes(buffer: Buffer, sizes: Mapping[str, int]) -> int:
    elems = evaluate(buffer.size, sizes)
    if isinstance(buffer.type, DataType):
        return storage_bytes(buffer.type, elems)
    return elems * BITS[buffer.type] // 8


class NullTarget(Borrowed):
    """Counting as a backend."""

    def run(self, job: Job, feeds: Mapping[str, Array]) -> Answer:
        """No outputs; the counts as a note."""
        traffic = count(job.kernels, job.sizes)
        return Answer({}, f"kernels: {traffic.kernels}, bytes moved: {traffic.bytes}")
