"""The kernels of a tile (compute_at.py) joined to one kernel, whose items are the tiles, or all tiles of a
batch.

look at blocks of the mask; let first, columns      what the tile's kernels make for one another
for rows, columns: scores                           lies in scratch
for rows: softmax
for rows, elements: y
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from itertools import count as counting

from anyrt.core.dims import Dim, Sym, add, depends, maximum, mul, product, total
from anyrt.core.dimvalues import substitute
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import (
    Alloc,
    For,
    If,
    Kernel,
    Let,
    Loop,
    Op,
    Stmt,
    alu,
    index,
)
from anyrt.ir.statements import buffers_in_order, with_buffers
from anyrt.ir.visit import Rewrite, statements, substituted
from anyrt.loops.both_ends import from_both_ends
from anyrt.loops.nest import room
from anyrt.loops.parallelise import delinearise
from anyrt.schedule.compute_at import TileGraph
from anyrt.schedule.scores import ANY, BEHIND, FIRST


@dataclass(frozen=True, slots=True)
class TileKernels:
    """The kernels of a tile, `copies` for all tiles of a batch before, and `looking` for the columns of each;
    `swap`: their operands, and the buffers of the whole tensors; `panels`: the results of the copies;
    `unmet`: why kernels do without instructions."""

    cut: TileGraph
    kernels: Sequence[Kernel]
    swap: Mapping[Buffer, Buffer]
    copies: Sequence[Kernel] = ()
    looking: Sequence[Kernel] = ()
    panels: Buffer | None = None
    unmet: tuple[str, ...] = ()


def joined(name: str, parts: Sequence[TileKernels], target: Buffer) -> Kernel:
    """The kernels of a tile as one kernel, which stores to `target`. Its items are the tiles, or all tiles of
    a batch; its intermediate tensors are in scratch. A second part is that of the last tile."""
    first = parts[0]
    *batches, row = first.cut.loops
    bodies, needs, works = zip(*(_body(part, part.kernels, target) for part in parts), strict=True)
    body, scratch, work = _chosen(bodies, row), reduce(maximum, needs), reduce(maximum, works)
    loops = [*batches, row]
    if first.panels is not None:
        copies, need, extra = _body(first, first.copies, target, before=True)
        body, loops = (*copies, For(row, Loop.SERIAL, body)), batches
        work, scratch = add(mul(work, row.extent or 0), extra), maximum(scratch, need)
        own = replace(first.panels, offset=scratch)
        scratch = add(scratch, room(own.stored, own.size))
        body = Rewrite(access=lambda b, at: (own if b == first.panels else b, at)).body(body)
    sizes = first.cut.tile.lets
    item = Sym(f"{first.cut.tile.name}.item", extent=substitute(product(v.extent or 0 for v in loops), sizes))
    lets = (*(Let(v, x) for v, x in sizes.items()), *delinearise(loops, item.dim))
    return _named_uniquely(Kernel(name, item, (*lets, *body), work, scratch))


def _named_uniquely(kernel: Kernel) -> Kernel:
    """The kernel, with unique names of buffers, since its parts were named separately."""
    names, swap = set[str](), dict[Buffer, Buffer]()
    registers = (s.buffer for s in statements(kernel.body) if isinstance(s, Alloc))
    for buffer in dict.fromkeys((*buffers_in_order(kernel), *registers)):
        name, more = buffer.name, counting(2)
        while name in names:
            name = f"{buffer.name}.{next(more)}"
        names.add(name)
        swap |= {} if name == buffer.name else {buffer: replace(buffer, name=name)}
    return with_buffers(kernel, swap) if swap else kernel


def _chosen(bodies: Sequence[tuple[Stmt, ...]], row: Sym) -> tuple[Stmt, ...]:
    """The statements for a tile, with others for the last one if it differs."""
    if len(bodies) == 1:
        return bodies[0]
    is_last = alu(Op.EQ, index(row.dim), index(add(row.extent or 0, -1)))
    return If(alu(Op.NOT, is_last), bodies[0]), If(is_last, bodies[1])


def _body(
    part: TileKernels, kernels: Sequence[Kernel], target: Buffer, before: bool = False
) -> tuple[tuple[Stmt, ...], Dim, Dim]:
    """(statements, scratch, work) of kernels that run one after the other, in a tile, or before all."""
    cut, swap = part.cut, dict(part.swap)
    looks = () if before else part.looking
    kernels = (*looks, *kernels)
    own = [_own_scratch(k, cut) for k in kernels]
    scratch = room(Scalar.U8, reduce(maximum, (need for _, need in own)))
    for buffer in (*_intermediate(kernels, target), *((FIRST, BEHIND) if looks else ())):
        size = cut.most(buffer.size)
        swap[buffer] = Buffer(f"{cut.tile.name}.{buffer.name}", buffer.type, Space.SCRATCH, size, scratch)
        scratch = add(scratch, room(buffer.stored, size))
    bodies = [_items(with_buffers(k, swap | settled)) for k, (settled, _) in zip(kernels, own, strict=True)]
    work = total(mul(cut.most(k.work), cut.most(k.var.extent or 0)) for k in kernels)
    looking = tuple(chain.from_iterable(bodies[: len(looks)]))
    lets = () if before else tuple(Let(v, x) for v, x in cut.columns.lets.items())
    scores = cut.tile.scores
    search = from_both_ends(scores.at_block, looking, ANY, FIRST, BEHIND) if scores and looks else ()
    statements = substituted((*search, *lets), {}, swap)
    return (*statements, *chain.from_iterable(bodies[len(looks) :])), scratch, maximum(work, 1)


def _items(kernel: Kernel) -> tuple[Stmt, ...]:
    """All items of a kernel."""
    if kernel.var.extent == 1:
        return substituted(kernel.body, {kernel.var: 0})
    return (For(kernel.var, Loop.SERIAL, kernel.body),)


def _own_scratch(kernel: Kernel, cut: TileGraph) -> tuple[dict[Buffer, Buffer], Dim]:
    """The buffers that a kernel has in scratch at the same place in every tile, and their bytes; tiles differ
    in size, and their kernel has one place for each."""
    buffers = [b for b in buffers_in_order(kernel) if b.space is Space.SCRATCH]
    if not any(
        depends(d, v) for b in buffers for d in (b.size, b.offset) for v in (*cut.loops, *cut.columns.lets)
    ):
        return {}, cut.most(kernel.scratch)
    settled: dict[Buffer, Buffer] = {}
    end: Dim = 0
    for b in buffers:
        settled[b] = replace(b, size=cut.most(b.size), offset=end)
        end = add(end, room(b.stored, settled[b].size))
    return settled, end


def _intermediate(kernels: Iterable[Kernel], target: Buffer) -> list[Buffer]:
    buffers = (b for k in kernels for b in buffers_in_order(k) if b.space is Space.ARENA and b != target)
    return list(dict.fromkeys(buffers))
