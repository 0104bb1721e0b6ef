"""Distribute: an item of the parallel loop becomes several rows, and each loop of a row runs for all of them
before the next loop does.

The latencies of a short row are longer than its work: the adds of a sum, then a division, a square root. The
same loop over other rows does not wait for them. The values that one loop passes to the next, sums and
converted rows, are in the thread's scratch, once for each row.

    parallel p: 0 … 64                    parallel p: 0 … 8
      acc = 0                               for r: 0 … 8
      vector i: acc += x[16p + i]    ->       acc = 0; vector i: acc += x[16(8p + r) + i]; sum[r] = acc
      vector i: y[16p + i] = …acc           for r: 0 … 8
                                              vector i: y[16(8p + r) + i] = …sum[r]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from anyrt.core.dims import Dim, Sym, add, floordiv, minimum, mul
from anyrt.core.dimvalues import substitute
from anyrt.ir.buffer import BITS, Buffer, Scalar, Space
from anyrt.ir.kernel import Alloc, Fold, For, If, Kernel, Let, Loop, Stmt, Store, load
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import folds, loops
from anyrt.ir.visit import Rewrite, substituted
from anyrt.loops.nest import Estimate, Names, lets_of, loads_of, reserve, scratch_of


@dataclass(frozen=True, slots=True)
class ShortRows:
    """Limits: `short`: bytes of a row, since longer ones gain more from running two at a time; `rows`: rows
    per item; `bytes` that its loops read again: a part of the nearest cache."""

    short: int
    rows: int
    bytes: int


def distribute(kernel: Kernel, names: Names, estimate: Estimate, sizes: ShortRows) -> Kernel | Fail:
    """As many rows per item as share the nearest cache; if the last item has fewer, the last row is
    repeated."""
    size = rows_of_item(kernel, estimate, sizes)
    if size < 2:
        return Fail("its rows are too long to share an item")
    rows = kernel.var.extent or 0
    item = names.var(floordiv(add(rows, size - 1), size), "p")
    lets, rest = lets_of(kernel)
    builder = _Rows(kernel, names, size)
    builder.rows |= {b: builder.reserve("rows", b.stored, mul(b.size, size)) for b in scratch_of(rest)}
    out: list[Stmt] = []
    for stage in _stages(rest):
        row = names.var(size, "r")
        at = minimum(add(mul(item.dim, size), row.dim), add(rows, -1))
        own = {s.var: names.var(s.var.extent or 0) for s in lets}
        inner = substituted(builder.stage(stage, row), {var: new.dim for var, new in own.items()})
        places = (Let(own[s.var], substitute(s.value, {kernel.var: at})) for s in lets)
        out.append(For(row, Loop.SERIAL, (*places, *inner)))
    return replace(builder.kernel, var=item, body=tuple(out), work=mul(kernel.work, size))


def rows_of_item(kernel: Kernel, estimate: Estimate, limits: ShortRows) -> int:
    """The number of rows per item; 1 if a row is too long."""
    read = dict[Buffer, int]()
    for loop in loops(kernel.body):
        if any(isinstance(s, Fold) for s in loop.body):
            for x in (x for x in loads_of(loop.body) if x.buffer.space is not Space.SCRATCH):
                read[x.buffer] = estimate(loop.var) * BITS[x.buffer.stored] // 8
    left = scratch_of(kernel.body)
    sizes = [b.size * BITS[b.stored] // 8 for b in left if isinstance(b.size, int)]
    total = sum(read.values())
    if total > limits.short or len(sizes) < len(left):
        return 1
    return 1 << (max(1, min(limits.rows, limits.bytes // max(1, total + sum(sizes)))).bit_length() - 1)


def _stages(body: Sequence[Stmt]) -> Iterator[list[Stmt]]:
    """The statements before a loop, the loop (or its versions), and stores of its folds."""
    stage: list[Stmt] = []
    for stmt in body:
        own = {s.buffer for s in stage if isinstance(s, Alloc)}
        more = isinstance(stmt, Store) or any(f.buffer in own for f in folds([stmt]))
        if not more and any(isinstance(s, For | If) for s in stage):
            yield stage
            stage = []
        stage.append(stmt)
    yield stage


@dataclass(slots=True)
class _Rows:
    """Scratch for the values that one row keeps in registers and scratch, for all rows of the item."""

    kernel: Kernel
    names: Names
    size: int
    rows: dict[Buffer, Buffer] = field(default_factory=dict)
    sums: dict[Buffer, Buffer] = field(default_factory=dict)

    def reserve(self, stem: str, kind: Scalar, count: Dim) -> Buffer:
        """Scratch memory of the thread."""
        self.kernel, buffer = reserve(self.kernel, self.names.name(stem), kind, count)
        return buffer

    def stage(self, body: Sequence[Stmt], row: Sym) -> list[Stmt]:
        """The statements of one stage for a row of the item; registers are saved behind them."""
        sums = dict(self.sums)

        def place(buffer: Buffer, at: Dim) -> tuple[Buffer, Dim]:
            if buffer in sums:
                return sums[buffer], row.dim
            own = self.rows.get(buffer)
            return (buffer, at) if own is None else (own, add(at, mul(row.dim, buffer.size)))

        out = [*Rewrite(access=place, bound=False).body(body)]
        for register in [s.buffer for s in body if isinstance(s, Alloc)]:
            self.sums[register] = self.reserve("sum", register.stored, self.size)
            out.append(Store(self.sums[register], row.dim, load(register, 0)))
        return out
