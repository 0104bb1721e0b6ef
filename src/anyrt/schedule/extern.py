"""Kernels of values whose primitives write their own statements (`ir.compute.Extern`).

Loops over the independent axes surround the statements. Operands that no kernel has stored must be stored
first, unless they only move stored elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from anyrt.core.dims import Dim, Sym, add
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.compute import Extern, Given, only_moves
from anyrt.ir.graph import Value
from anyrt.ir.kernel import Expr, Stmt, Store
from anyrt.ir.prim import Read
from anyrt.loops.nest import Names, room, serial
from anyrt.schedule import storage
from anyrt.schedule.elements import Elements


@dataclass(slots=True)
class Maker:
    """The environment of a primitive's statements; `place`: the position of an element of the result."""

    root: Value
    buffer: Buffer
    place: Callable[[Sequence[Dim]], Dim]
    names: Names
    bytes: Dim = 0

    def var(self, extent: Dim) -> Sym:
        """A counter of a loop."""
        return self.names.var(extent)

    def at(self, index: Sequence[Dim]) -> Expr:
        """An element of the result, as it was last stored."""
        return storage.read(self.buffer, self.root.dtype, self.place(index))

    def store(self, index: Sequence[Dim], value: Expr) -> Store:
        """Store an element of the result."""
        return Store(self.buffer, self.place(index), storage.encode(self.root.dtype, value))

    def register(self, kind: Scalar) -> Buffer:
        """A register to fold into."""
        return Buffer(self.names.name("acc"), kind, Space.REGISTER)

    def scratch(self, kind: Scalar, count: Dim) -> Buffer:
        """Memory of the item."""
        buffer = Buffer(self.names.name("kept"), kind, Space.SCRATCH, count, self.bytes)
        self.bytes = add(self.bytes, room(kind, count))
        return buffer


def extern(
    how: Extern, maker: Maker, elements: Elements, buffers: Mapping[Value, Buffer]
) -> tuple[Stmt, ...]:
    """Loops over the independent axes of a value, around the statements that compute an item of it."""
    root = maker.root
    for value in filter(None, (_computed(arg, buffers) for arg in root.args)):
        elements.fail(value, "what is written from it reads it several times")
    along, rank = _along(how, root.type.rank), root.type.rank
    vars = {k: maker.var(d) for k, d in enumerate(root.shape) if k not in along and d != 1}
    item = tuple(vars[k].dim if k in vars else 0 for k in range(rank))
    reads = tuple(Read(a.type, partial(elements.at, a)) for a in root.args)
    return serial(tuple(vars.values()), root.op.write(root.type, reads, item, maker))


def _along(how: Extern, rank: int) -> set[int]:
    """The axes that the primitive's own statements loop over."""
    along = {k % rank for k in how.along} if rank else set[int]()
    return along | set(range(min(along, default=0), rank)) if how.behind else along


def _computed(value: Value, buffers: Mapping[Value, Buffer]) -> Value | None:
    """The value that would be computed at every read of an operand; None if the operand is only moved."""
    while value not in buffers and not isinstance(value.compute, Given):
        if not only_moves(value.compute) or len(value.args) != 1:
            return value
        (value,) = value.args
    return None
