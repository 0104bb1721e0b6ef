"""The memory traffic of each kernel: bytes at the sizes that the engine is optimized for.

A kernel counts every tensor that it touches once and whole, of a concatenation the part that it writes. The
actual traffic is less if caches keep data between kernels, or an update in place has few new elements, and
more if evicted elements are read again.

>>> Traffic(reads=8, writes=4).total
12
"""

from __future__ import annotations

from dataclasses import dataclass

from anyrt.core.dtype import storage_bytes
from anyrt.core.enums import DataType
from anyrt.ir.buffer import BITS, Buffer, Space
from anyrt.ir.statements import stores
from anyrt.schedule.cost import Sizes
from anyrt.schedule.launch import Launch

MEMORY = frozenset({Space.INPUT, Space.OUTPUT, Space.CONST, Space.ARENA})


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of the tensors that a kernel reads, and of those that it writes."""

    reads: int
    writes: int

    @property
    def total(self) -> int:
        """Both together."""
        return self.reads + self.writes


def traffic(launch: Launch, sizes: Sizes) -> Traffic:
    """The traffic of one call of a kernel."""
    call = launch.call
    written = {call.binds.get(s.buffer, s.buffer) for s in stores(call.kernel.body)}
    touched = [b for b in call.buffers if b.space in MEMORY]
    reads = sum(tensor_bytes(b, sizes) for b in touched if b not in written)
    if launch.group.part is not None:
        return Traffic(reads, storage_bytes(launch.root.dtype, sizes.volume(launch.root)))
    return Traffic(reads, sum(tensor_bytes(b, sizes) for b in touched if b in written))


def tensor_bytes(buffer: Buffer, sizes: Sizes) -> int:
    """Bytes of the elements of a tensor."""
    count = sizes.of(buffer.size)
    if isinstance(buffer.type, DataType):
        return storage_bytes(buffer.type, count)
    return count * BITS[buffer.type] // 8
