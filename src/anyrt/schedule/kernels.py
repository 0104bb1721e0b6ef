"""One group of fused values to one kernel: which loops, which of them parallel, which one widened.

Three shapes of kernel, told apart by what the group holds:

* points: no reduction and no window. The output's loops, merged where memory allows; tiles where it is read
  across.
* rows: reductions. Loops over what they keep are outside; each reduction's own loop and then the output's
  loops inside, so that the row stays in cache. Where the row is read across memory, the kept innermost axis
  is widened instead ("columns").
* window: taps along an outer axis over something worth keeping. A thread takes a band of output rows and
  remembers the last k rows of the operand in its scratch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from anyrt.core.dims import (
    Dim,
    Sym,
    add,
    depends,
    divmod_dim,
    floordiv,
    minimum,
    mod,
    mul,
    product,
    substitute,
    symbols,
)
from anyrt.ir.graph import Value
from anyrt.ir.kernel import (
    BITS,
    Alloc,
    Buffer,
    Expr,
    Fold,
    For,
    If,
    Kernel,
    Let,
    Loop,
    Op,
    Scalar,
    Space,
    Stmt,
    Store,
    alu,
    cast,
    const,
    index,
    load,
    select,
)
from anyrt.ir.statements import buffers_of, dims_of, expressions, indices
from anyrt.ir.visit import parts
from anyrt.prims.taps import Taps
from anyrt.schedule import storage
from anyrt.schedule.ahead import asking_ahead
from anyrt.schedule.batches import batched, rows_of_batch
from anyrt.schedule.choice import MODEL, Choice
from anyrt.schedule.chunks import LONG, around_mean, in_chunks
from anyrt.schedule.cost import HEAVY, Sizes, weight
from anyrt.schedule.elements import AGAIN, Elements, Reduction, Refusal, flat
from anyrt.schedule.flat import flattened
from anyrt.schedule.group import Group
from anyrt.schedule.kept import Kept, moved
from anyrt.schedule.near import variants
from anyrt.schedule.nest import (
    BLOCK,
    MAX_SPLITS,
    Names,
    Nest,
    apart,
    cut,
    divided,
    interleaves,
    is_few,
    loads_of,
    loops,
    merge,
    merge_around,
    split,
    stride,
    unit_loads,
)
from anyrt.schedule.pairs import paired
from anyrt.schedule.tables import Tables
from anyrt.schedule.wide import converted_once

ROW_MOST = 1 << 16  # elements of a row of a window: with the next one, what the caches near a core hold
ROW_PIECE = 64  # of the innermost loop of a larger row
LEAST_BAND = 4
LEAST_TILE, NARROW = 4, 4  # positions; bytes of an element, below which fewer of them are faster to transpose
LEAST_RUN = 128  # bytes
LARGE, LARGE_RUNS = 1 << 20, 4  # bytes of an output that no cache near a core holds; its runs are longer
FEWER = 64  # times: what has as many elements less than the kernel writes is stored for next to nothing
TWICE = 160  # parts of expressions of a row: longer ones hide their latencies, and are not written twice
MANY = 64  # rows, from which two at a time still leave enough for the threads


@dataclass(frozen=True, slots=True)
class Mark:
    """A statement that belongs before the first row of a band."""

    stmt: Stmt


@dataclass(slots=True)
class Builder:
    """Makes the kernel of one group."""

    group: Group
    buffers: Mapping[Value, Buffer]
    tables: Tables
    sizes: Sizes
    name: str
    choice: Choice = MODEL
    names: Names = field(default_factory=Names)
    scratch: Dim = 0
    vars: list[Sym] = field(default_factory=list)
    before: list[Stmt | Mark] = field(default_factory=list)
    window: Sym | None = None
    inner: frozenset[Sym] = frozenset()
    outside: set[Sym] = field(default_factory=set)
    beside: frozenset[Sym] = frozenset()

    def build(self) -> Kernel:
        """The kernel; raises Refusal with the value that needs a buffer of its own."""
        root = self.group.root
        if root.dtype in storage.PACKED:
            return self._packed()
        elements, store = self._refined()
        if self.window is not None:
            return self._window(store)
        if elements.reductions:
            return self._rows(elements, store)
        return self._points(Nest(tuple(self.vars), (store,)))

    # ---- the output's loops -------------------------------------------------------------------

    def _refined(self) -> tuple[Elements, Store]:
        """The root's store over its own axes, split further until indices are affine."""
        root = self.group.root
        axes: list[Dim] = [0 if size == 1 else self._axis(size) for size in root.shape]
        for _ in range(MAX_SPLITS):
            elements, store = self._lower(axes)
            found = divided([d for s in self._all_dims(elements, store) for d in s], self.vars)
            piece = self._wide() if found is None else None
            found = found or piece
            if found is None:
                return elements, store
            outer, inner, value = split(found[0], found[1], self.names)
            at = self.vars.index(found[0])
            if piece is not None:
                self.outside.add(outer)
            self.vars[at : at + 1] = [outer, inner]
            axes = [substitute(a, {found[0]: value}) for a in axes]
        return self._lower(axes)

    def _wide(self) -> tuple[Sym, Dim] | None:
        """The innermost loop of a window whose rows are too large for the caches, and a piece of it."""
        last = self.vars[-1] if self.vars else None
        if self.window is None or last is None or last is self.window or len(self.inner) < 2:
            return None
        row = prod(map(self._extent, self.inner))
        if row <= ROW_MOST or last.extent in (None, ROW_PIECE) or mod(last.extent or 0, ROW_PIECE) != 0:
            return None
        return last, ROW_PIECE

    def _axis(self, size: Dim) -> Dim:
        var = self.names.var(size)
        self.vars.append(var)
        return var.dim

    def _all_dims(self, elements: Elements, store: Store) -> list[list[Dim]]:
        inside = [list(dims_of(r.body)) for r in elements.reductions.values()]
        return [
            indices([store]),
            *inside,
            indices(s.stmt if isinstance(s, Mark) else s for s in self.before),
        ]

    def _lower(self, axes: Sequence[Dim]) -> tuple[Elements, Store]:
        self.before, self.window, self.inner, self.scratch = [], None, frozenset(), 0
        self.beside = frozenset()
        elements = Elements(self.buffers, self.tables, self.names)
        elements.tapped = lambda value, at: self._tapped(elements, value, at)
        root = self.group.root
        value = storage.encode(root.dtype, elements.at(root, axes))
        return elements, Store(self.group.buffer, self.group.place(axes), value)

    # ---- points -------------------------------------------------------------------------------

    def _points(self, nest: Nest) -> Kernel:
        nest = merge(nest, self.names)
        if not nest.vars:
            return self._kernel((), nest.body, 1)
        if interleaves(nest):
            whole = flattened(nest, self.tables, self.names)
            if whole is not None:
                return self._spread(whole, whole.vars[-1])
            return self._spread(Nest(nest.vars[:-1], nest.body), nest.vars[-2], nest.vars[-1])
        across = self._read_across(nest)
        if across is not None:
            self._refuse_repeated()
            return self._tiles(nest, across)
        return self._spread(_taken_apart(nest), nest.vars[-1])

    def _refuse_repeated(self) -> None:
        """Tiles come back to the same rows and columns again and again: what is computed for one of them (a
        factor for each channel) is better computed once."""
        most, todo = self.sizes.volume(self.group.root) // FEWER, [self.group.root]
        seen = set(self.buffers)
        while todo:
            for arg in todo.pop().args:
                if arg in seen:
                    continue
                seen.add(arg)
                if self.sizes.volume(arg) <= most and weight(arg, self.buffers) > 1:
                    raise Refusal(arg, "every tile would compute it again")
                todo.append(arg)

    def _read_across(self, nest: Nest) -> Sym | None:
        """An outer loop along which some load walks memory one by one while the innermost loop makes it
        jump."""
        last = nest.vars[-1]
        for x in loads_of(nest.body):
            step = stride(x.index, last)
            if step is not None and step != 0 and not (isinstance(step, int) and abs(step) <= 4):
                for var in nest.vars[:-1]:
                    if stride(x.index, var) == 1:
                        return var
        return None

    def _tiles(self, nest: Nest, across: Sym) -> Kernel:
        """Strips as items of the parallel loop."""
        outer, body = self._strips(nest, across)
        size, length = self._tile(across)
        strips = min(self.choice.chunk, -(-self._extent(across) // size))
        return self._kernel(outer, body, strips * size * min(length, self._extent(nest.vars[-1])))

    def _tile(self, across: Sym) -> tuple[int, int]:
        """(positions, length) of a strip: as many as the bytes of a cache line (of narrow elements: half of
        one), and of a run, hold. Large outputs get longer runs, of which fewer ends share a cache line."""
        width = BITS[self.group.buffer.stored] // 8
        most = self.choice.line // width // (1 + (width < NARROW))
        some = min(most, 1 << (self._extent(across) - 1).bit_length())
        run = self.choice.run * (LARGE_RUNS if self.sizes.volume(self.group.root) * width > LARGE else 1)
        return max(LEAST_TILE, some), max(run, LEAST_RUN // width)

    def _strips(self, nest: Nest, across: Sym) -> tuple[list[Sym], tuple[Stmt, ...]]:
        """(loops, what they hold): strips of positions read across memory, so that each cache line is used
        whole, and transposed in registers."""
        assert across.extent is not None, f"loop {across} has no extent"
        size, length = self._tile(across)
        last, rest = nest.vars[-1], [v for v in nest.vars if v not in (across, nest.vars[-1])]
        strips = self.names.var(floordiv(add(across.extent, size - 1), size), "s")
        items = prod(map(self._extent, [*rest, strips])) * -(-self._extent(last) // length)
        chunk, turn, strip = cut(
            strips, min(self.choice.chunk, max(1, items // self.choice.items)), self.names
        )
        outer, within = [*rest, chunk], last
        if self._extent(last) > length:
            block, within, value = cut(last, length, self.names)
            nest = nest.replace({last: value}, nest.vars)
            outer.insert(-1, block)
        full = alu(Op.LT, index(strip), index(floordiv(across.extent, size)))
        tile = self.names.var(size, "t")
        some = self.names.var(minimum(size, add(across.extent, mul(strip, -size))), "t")
        whole, part = (
            For(within, Loop.VECTOR, (For(v, Loop.TILE, _strip(nest, across, add(mul(strip, size), v.dim))),))
            for v in (tile, some)
        )
        if mod(across.extent, size) == 0:
            return outer, (For(turn, Loop.SERIAL, (whole,)),)
        return outer, (For(turn, Loop.SERIAL, (If(full, (whole,)), If(alu(Op.NOT, full), (part,)))),)

    def _spread(self, nest: Nest, widened: Sym, tile: Sym | None = None) -> Kernel:
        """Outer loops become the parallel one, until what is left inside is about `item` elements; loops that
        come after the widened one stay with it."""
        beside = list(nest.vars[nest.vars.index(widened) + 1 :])
        times = prod(map(self._extent, beside if tile is None else [tile]))
        inside, work = [*beside, widened], times * self._extent(widened)
        outer = [v for v in nest.vars if v not in inside]
        if work > 2 * self.choice.block:
            block, within, value = cut(widened, max(64, self.choice.block // times // 64 * 64), self.names)
            nest = nest.replace({widened: value}, [*outer, block, *beside, within])
            body = self.loops(Nest((*beside, within), nest.body), within, tile)
            return self._kernel([*outer, block], body, self.choice.block)
        while outer and work * self._extent(outer[-1]) <= self.choice.item:
            work *= self._extent(outer[-1])
            inside.insert(0, outer.pop())
        return self._kernel(outer, self.loops(Nest(tuple(inside), nest.body), widened, tile), max(work, 1))

    def _extent(self, var: Sym) -> int:
        return max(
            1,
            self.sizes.of(
                substitute(var.extent or 0, {s: 0 for s in symbols(var.extent or 0) if s.extent is not None})
            ),
        )

    def loops(self, nest: Nest, widened: Sym | None, tile: Sym | None = None) -> tuple[Stmt, ...]:
        """The nest's loops, `widened` (and `tile` in it) innermost, in versions for what it reads through
        tables."""
        if widened is None:
            return loops(nest.vars, nest.body, None)

        def make(n: Nest) -> tuple[Stmt, ...]:
            return loops(n.vars, n.body if tile is None else (For(tile, Loop.TILE, n.body),), widened)

        return variants(nest, widened, self.tables, make)

    def rows(self, nest: Nest) -> tuple[Stmt, ...]:
        """The loops of what is stored row by row."""
        if interleaves(nest):
            whole = flattened(nest, self.tables, self.names)
            if whole is None:
                return self.loops(Nest(nest.vars[:-1], nest.body), nest.vars[-2], nest.vars[-1])
            nest = whole
        return self.loops(nest, nest.vars[-1] if nest.vars else None)

    def _kernel(self, outer: Sequence[Sym], body: Sequence[Stmt], work: int) -> Kernel:
        """The parallel loop counts through `outer`; its counter is taken apart again for each item."""
        item = self.names.var(product(v.extent or 0 for v in outer), "p")
        return Kernel(self.name, item, (*apart(outer, item.dim), *body), work, self.scratch)

    def _pairs(self, outer: Sequence[Sym], body: Sequence[Stmt], work: int) -> Kernel:
        """Each item is two rows, so that their latencies overlap; a last one without a partner comes
        twice."""
        rows = product(v.extent or 0 for v in outer)
        others = [self.names.var(v.extent or 0) for v in outer]
        item = self.names.var(floordiv(add(rows, 1), 2), "p")
        second = minimum(add(mul(item.dim, 2), 1), add(rows, -1))
        lets = (*apart(outer, mul(item.dim, 2)), *apart(others, second))
        kept = [b for b in buffers_of(body) if b.space is Space.SCRATCH]
        twins = {b: self.reserve("twin", b.stored, b.size) for b in sorted(kept, key=lambda b: b.name)}
        return Kernel(self.name, item, (*lets, *paired(body, outer, others, twins)), 2 * work, self.scratch)

    def _batches(self, outer: Sequence[Sym], body: Sequence[Stmt], work: int, size: int) -> Kernel:
        """Each item is a batch of rows; in a last one with fewer of them the last row comes again."""
        rows = product(v.extent or 0 for v in outer)
        item = self.names.var(floordiv(add(rows, size - 1), size), "p")

        def lets(own: Sequence[Sym], row: Dim) -> list[Stmt]:
            return apart(own, minimum(add(mul(item.dim, size), row), add(rows, -1)))

        stages = batched(body, outer, size, self.names, self.reserve, lets)
        return Kernel(self.name, item, tuple(stages), size * work, self.scratch)

    # ---- rows ---------------------------------------------------------------------------------

    def _rows(self, elements: Elements, store: Store) -> Kernel:
        reductions = list(elements.reductions.values())
        kept = self._kept(reductions)
        inner = [v for v in self.vars if v not in kept]
        outer = [v for v in self.vars if v in kept]
        widened = self._column(reductions, outer)
        if widened is not None:
            return self._columns(reductions, store, outer, inner, widened)
        if self._narrow(outer, reductions):
            raise Refusal(reductions[0].value, "too few rows to share among threads")
        body = [*self._foldings(reductions), *self._also(reductions)]
        nest = merge(Nest(tuple(inner), (store,)), self.names)
        if nest.vars and self._read_across(nest) is not None:
            raise Refusal(reductions[0].value, "the rest of its row is transposed, and better in tiles")
        body = converted_once([*body, *self.rows(nest)], self.reserve)
        work = sum(prod(self._extent(v) for v in r.vars) for r in reductions)
        work = max(1, work + prod(map(self._extent, inner)))
        outer, body = merge_around(outer, body, self.names)
        few = prod(map(self._extent, outer)) < MANY
        if work > self.choice.short or few or len(parts(expressions(body))) > TWICE:
            return self._kernel(outer, body, work)
        size = rows_of_batch(reductions, self._extent, body)
        if size > 1:
            return self._batches(outer, body, work, size)
        return self._pairs(outer, asking_ahead(body, outer[-1], 2, self.sizes), work)

    def _kept(self, reductions: Sequence[Reduction]) -> frozenset[Sym]:
        """The loops around the reductions: the same for all, or the odd one gets a kernel of its own."""
        needs = [frozenset(v for v in self.vars if any(depends(i, v) for i in r.index)) for r in reductions]
        widest = max(needs, key=len)
        folded = [v for r in reductions for v in r.vars]
        for r, n in zip(reductions, needs, strict=True):
            if any(depends(i, v) for i in r.index for v in folded):
                raise Refusal(r.value, "it would be folded again for every element of another fold")
            if n != widest:
                raise Refusal(r.value, "it is folded over other axes than the rest of the row")
        return widest

    def _narrow(self, outer: Sequence[Sym], reductions: Sequence[Reduction]) -> bool:
        """A consumer with hardly any rows would run on one thread: better two kernels."""
        return (
            not outer
            and self.group.root is not reductions[-1].value
            and self.sizes.volume(self.group.root) > 4 * BLOCK
        )

    def _column(self, reductions: Sequence[Reduction], outer: Sequence[Sym]) -> Sym | None:
        """A kept loop along which the reductions read memory one by one, when their own loops do not."""
        for var in reversed(outer):
            along = sum(unit_loads([Fold(r.register, r.op, r.body)], var) for r in reductions)
            own = sum(unit_loads([Fold(r.register, r.op, r.body)], v) for r in reductions for v in r.vars)
            if along > own:
                return var
        return None

    def _columns(
        self, reductions: Sequence[Reduction], store: Store, outer: list[Sym], inner: list[Sym], widened: Sym
    ) -> Kernel:
        block, within, value = cut(widened, self.choice.column, self.names)
        values = {widened: value}
        body: list[Stmt] = []
        for r in reductions:
            fold = Nest(r.vars, (Fold(r.register, r.op, r.body),)).replace(values, r.vars)
            body += [Alloc(r.register, r.start), *loops(fold.vars, fold.body, None)]
        body += [s for a in self._also(reductions) for s in Nest((), (a,)).replace(values, ()).body]
        nest = Nest(tuple(inner), (store,)).replace(values, inner)
        body += loops(nest.vars, nest.body, None)
        work = self.choice.column * sum(prod(self._extent(v) for v in r.vars) for r in reductions)
        rest = [block if v is widened else v for v in outer]
        return self._kernel(rest, (For(within, Loop.VECTOR, tuple(body)),), max(1, work))

    def _foldings(self, reductions: Sequence[Reduction]) -> list[Stmt]:
        body, todo = list[Stmt](), list(reductions)
        while todo:
            first = todo.pop(0)
            nest = around_mean(first, todo[0], self.names) if todo else None
            if nest is not None and self._extent(nest.vars[0]) >= LONG:
                body += in_chunks(first, todo.pop(0), nest, self.names, self.reserve, self.loops)
            else:
                body += self._folding(first)
        return body

    def _folding(self, r: Reduction) -> list[Stmt]:
        nest = merge(Nest(r.vars, (Fold(r.register, r.op, r.body),)), self.names)
        vector = max(nest.vars, key=lambda v: unit_loads(nest.body, v), default=None)
        return [Alloc(r.register, r.start), *self.loops(nest, vector)]

    def _also(self, reductions: Sequence[Reduction]) -> list[Stmt]:
        """Stores of fused reductions that other kernels read."""
        out: list[Stmt] = []
        for value, buffer in self.group.also:
            found = [r for r in reductions if r.value == value]
            if not found:
                raise Refusal(value, "its consumer does not fold it")
            out.append(
                Store(
                    buffer,
                    flat(value.shape, found[0].index),
                    storage.encode(value.dtype, load(found[0].register, 0)),
                )
            )
        return out

    # ---- window -------------------------------------------------------------------------------

    def _tapped(self, elements: Elements, value: Value, at: tuple[Dim, ...]) -> Expr:
        """Taps at the level of the output: a heavy operand is kept in rows, a light one read in place."""
        op, arg = value.op, value.args[0]
        assert isinstance(op, Taps), f"{value} is not made by taps"
        if arg in self.buffers or weight(arg, self.buffers) < HEAVY:
            return elements.taps(value, at)
        row = next((v for v in self.vars if at[op.axis] == v.dim), None)
        if row is None or self.window is not None:
            raise Refusal(arg, "taps read it at positions that are no row of the output")
        if elements.folding:
            raise Refusal(arg, "its rows would be kept for a fold, which has loops of its own")
        for reduction in elements.reductions.values():
            raise Refusal(reduction.value, AGAIN)
        elements.allow_reductions = False
        self.window = row
        self.beside = self._side_by_side(arg, at, row)
        after = self.vars[self.vars.index(row) + 1 :]
        self.inner = frozenset(v for v in (*after, *self.beside) if v not in self.outside)
        if not self.inner:
            self.inner = frozenset({row})
            return self._row(elements, value, at)
        return self._ring(elements, value, at)

    def _side_by_side(self, operand: Value, at: tuple[Dim, ...], row: Sym) -> frozenset[Sym]:
        """Loops outside the row over few elements that lie side by side in memory: kept together, they share
        what is loaded."""
        at_row = self.vars.index(row)
        few, after = [v for v in self.vars[:at_row] if is_few(v)], self.vars[at_row + 1 :]
        if not few:
            return frozenset()
        element = Elements(self.buffers, self.tables, self.names, allow_reductions=False).at(operand, at)
        reads = loads_of([Alloc(Buffer("element", element.type, Space.REGISTER), element)])
        return frozenset(v for v in few if any(_beside(x.index, v, after) for x in reads))

    def _row(self, elements: Elements, value: Value, at: tuple[Dim, ...]) -> Expr:
        """Taps along the innermost axis: the whole operand row first."""
        kept = Kept(
            self, value.args[0], at, self.inner, 1, also=value.op.axis if isinstance(value.op, Taps) else None
        )
        self.before += kept.fill(0, at)
        return elements.taps(value, at, lambda t, position: kept.read(0, moved(at, value, position)))

    def _ring(self, elements: Elements, value: Value, at: tuple[Dim, ...]) -> Expr:
        """Taps along an outer axis: the last k rows of the operand, found by their position modulo k."""
        op = value.op
        assert isinstance(op, Taps), "a ring serves taps"
        count = op.rule.count
        kept = Kept(self, value.args[0], at, self.inner, count)
        tags = self.reserve("tags", Scalar.I32, count)
        for slot in range(count):
            self.before.append(Mark(Store(tags, slot, const(-1, Scalar.I32))))

        def source(t: int, position: Dim) -> Expr:
            slot = mod(position, count)
            here = cast(index(position), Scalar.I32)
            fill = kept.fill(slot, moved(at, value, position))
            self.before.append(If(alu(Op.NE, load(tags, slot), here), (*fill, Store(tags, slot, here))))
            return kept.read(slot, moved(at, value, position))

        return elements.taps(value, at, source)

    def reserve(self, stem: str, kind: Scalar, count: Dim) -> Buffer:
        """A buffer in the thread's scratch."""
        offset = self.scratch
        self.scratch = add(offset, mul(64, floordiv(add(mul(count, BITS[kind] // 8), 63), 64)))
        return Buffer(self.names.name(stem), kind, Space.SCRATCH, count, offset)

    def _window(self, store: Store) -> Kernel:
        """Bands of output rows; within a band rows in order, each after the operand rows that it still
        misses."""
        row = self.window
        assert row is not None, "a window has a row"
        inner = [v for v in self.vars if v in self.inner and v is not row]
        outer = [v for v in self.vars if v not in self.inner and v is not row]
        nest = merge(Nest(tuple(inner if row not in self.inner else [row]), (store,)), self.names)
        across = None if interleaves(nest) else self._read_across(nest)
        stores = self.rows(nest) if across is None else loops(*self._strips(nest, across), None)
        starts = [s.stmt for s in self.before if isinstance(s, Mark)]
        fills = [s for s in self.before if not isinstance(s, Mark)]
        if row in self.inner:
            return self._kernel(outer, [*starts, *fills, *stores], self.choice.item)
        rows = self._extent(row) * prod(map(self._extent, outer))
        band = min(self.choice.band, max(LEAST_BAND, rows // self.choice.items))
        block, within, value = cut(row, band, self.names)
        turn = [Let(row, value), *fills, *stores]
        work = max(1, band * prod(map(self._extent, inner)) * 2)
        return self._kernel([*outer, block], [*starts, For(within, Loop.SERIAL, tuple(turn))], work)

    # ---- packed types -------------------------------------------------------------------------

    def _packed(self) -> Kernel:
        """4-bit results: a loop over bytes, each made of two elements."""
        root = self.group.root
        total = product(root.shape)
        byte = self.names.var(floordiv(add(total, 1), 2))
        elements = Elements(self.buffers, self.tables, self.names, allow_reductions=False)
        low = self._nibble(elements, root, mul(byte.dim, 2))
        second = add(mul(byte.dim, 2), 1)
        high = self._nibble(elements, root, minimum(second, add(total, -1)))
        there = alu(Op.LT, index(second), index(total))
        both = cast(low & 15, Scalar.I32) | (cast(select(there, high, 0) & 15, Scalar.I32) << 4)
        store = Store(self.group.buffer, byte.dim, cast(both, Scalar.U8))
        self.vars = [byte]
        return self._spread(Nest((byte,), (store,)), byte)

    def _nibble(self, elements: Elements, root: Value, at: Dim) -> Expr:
        position: list[Dim] = []
        for size in reversed(root.shape):
            position.insert(0, mod(at, size))
            at = floordiv(at, size)
        return cast(storage.encode(root.dtype, elements.at(root, position)), Scalar.I32)


def _strip(nest: Nest, across: Sym, position: Dim) -> tuple[Stmt, ...]:
    """The nest's statements at one position across memory."""
    return nest.replace({across: position}, nest.vars).body


def _beside(at: Dim, few: Sym, moving: Sequence[Sym]) -> bool:
    """True when an index finds the elements of `few` side by side wherever the others move it."""
    rest = substitute(at, {few: 0})
    whole = stride(at, few) == 1 and divmod_dim(rest, few.extent or 0)[1] == 0
    return whole and any(depends(rest, v) for v in moving)


def _taken_apart(nest: Nest) -> Nest:
    """A loop over few elements that lie side by side at every position of the innermost one (the channels of
    a photograph, on their way to planes) put last, so that one piece of memory is read for all of them."""
    last = nest.vars[-1]
    for var in filter(is_few, nest.vars[:-1]):
        for x in loads_of(nest.body):
            if stride(x.index, var) == 1 and stride(x.index, last) == var.extent:
                return Nest((*(v for v in nest.vars if v is not var), var), nest.body)
    return nest
