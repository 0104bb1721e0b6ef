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
    floordiv,
    maximum,
    minimum,
    mod,
    mul,
    product,
    substitute,
    symbols,
)
from anyrt.ir.graph import Shape, Value
from anyrt.ir.kernel import (
    BITS,
    COMPUTED,
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
    dims_of,
    index,
    load,
    select,
)
from anyrt.prims.taps import Taps
from anyrt.schedule import storage
from anyrt.schedule.cost import HEAVY, Sizes, weight
from anyrt.schedule.elements import AGAIN, Elements, Reduction, Refusal, flat
from anyrt.schedule.near import LEAST, variants
from anyrt.schedule.nest import (
    BLOCK,
    MAX_SPLITS,
    Names,
    Nest,
    accesses,
    cut,
    divided,
    indices,
    interleaves,
    loads_of,
    loops,
    merge,
    refined,
    split,
    stride,
    unit_loads,
)
from anyrt.schedule.tables import Tables

ITEM = 8192  # elements that one turn of the parallel loop should hold
ROW_MOST = (
    8192  # elements of a row of a window: with the rows of its operand, what the caches near a core hold
)
ROW_PIECE = 64  # of the innermost loop of a larger row
ITEMS = 16  # that a window kernel should at least offer to the threads
LEAST_BAND = 4
BAND = 32  # output rows of a window kernel that one thread takes at a time
TILE = 16  # positions of a strip that is read across memory: a cache line of float32
STRIP = 32  # length of a strip: as many pages are read at a time
CHUNK = 32  # strips in a row, so that reading goes on where the last strip stopped


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a concatenation: the whole's shape, and where along `axis` the piece begins."""

    shape: Shape
    axis: int
    start: Dim


@dataclass(frozen=True, slots=True)
class Group:
    """`root` and what is inlined into it, stored to `buffer`; `also` are fused reductions that other kernels
    read too."""

    root: Value
    buffer: Buffer
    also: tuple[tuple[Value, Buffer], ...] = ()
    part: Part | None = None
    whole: Value | None = None  # the concatenation that a part belongs to

    @property
    def makes(self) -> tuple[Value, ...]:
        """The values that the kernel writes (a part of)."""
        return (self.whole or self.root, *(v for v, _ in self.also))

    def place(self, at: Sequence[Dim]) -> Dim:
        """Where in the buffer the root's element at `at` goes."""
        if self.part is None:
            return flat(self.root.shape, at)
        moved = [add(i, self.part.start) if k == self.part.axis else i for k, i in enumerate(at)]
        return flat(self.part.shape, moved)


@dataclass(slots=True)
class Builder:
    """Makes the kernel of one group."""

    group: Group
    buffers: Mapping[Value, Buffer]
    tables: Tables
    sizes: Sizes
    name: str
    names: Names = field(default_factory=Names)
    scratch: Dim = 0
    vars: list[Sym] = field(default_factory=list)
    before: list[Stmt | Mark] = field(default_factory=list)
    window: Sym | None = None
    inner: frozenset[Sym] = frozenset()
    outside: set[Sym] = field(default_factory=set)

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
            accesses([store]),
            *inside,
            indices(s.stmt if isinstance(s, Mark) else s for s in self.before),
        ]

    def _lower(self, axes: Sequence[Dim]) -> tuple[Elements, Store]:
        self.before, self.window, self.inner, self.scratch = [], None, frozenset(), 0
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
            return self._spread(Nest(nest.vars[:-1], nest.body), nest.vars[-2], nest.vars[-1])
        across = self._read_across(nest)
        if across is not None:
            return self._tiles(nest, across)
        return self._spread(nest, nest.vars[-1])

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
        strips = min(CHUNK, -(-self._extent(across) // TILE))
        return self._kernel(outer, body, strips * TILE * min(STRIP, self._extent(nest.vars[-1])))

    def _strips(self, nest: Nest, across: Sym) -> tuple[list[Sym], tuple[Stmt, ...]]:
        """(loops, what they hold): strips of TILE positions read across memory, so that each cache line is
        used whole; full strips are transposed in registers."""
        assert across.extent is not None, f"loop {across} has no extent"
        last, rest = nest.vars[-1], [v for v in nest.vars if v not in (across, nest.vars[-1])]
        strips = self.names.var(floordiv(add(across.extent, TILE - 1), TILE), "s")
        chunk, turn, strip = cut(strips, CHUNK, self.names)
        outer, within = [*rest, chunk], last
        if self._extent(last) > STRIP:
            block, within, value = cut(last, STRIP, self.names)
            nest = nest.replace({last: value}, nest.vars)
            outer.insert(-1, block)
        full = alu(Op.LT, index(strip), index(floordiv(across.extent, TILE)))
        tile = self.names.var(TILE, "t")
        some = self.names.var(add(across.extent, mul(strip, -TILE)), "t")
        whole, part = (
            nest.replace({across: add(mul(strip, TILE), v.dim)}, nest.vars).body for v in (tile, some)
        )
        both = (
            If(full, (For(within, Loop.VECTOR, (For(tile, Loop.TILE, whole),)),)),
            If(alu(Op.NOT, full), (For(some, Loop.SERIAL, (For(within, Loop.VECTOR, part),)),)),
        )
        return outer, (For(turn, Loop.SERIAL, both),)

    def _spread(self, nest: Nest, widened: Sym, tile: Sym | None = None) -> Kernel:
        """Outer loops become the parallel one, until what is left inside is about ITEM elements."""
        times = 1 if tile is None else self._extent(tile)
        inside, work = [widened], times * self._extent(widened)
        outer = [v for v in nest.vars if v is not widened]
        if work > 2 * BLOCK:
            block, within, value = cut(widened, BLOCK // times, self.names)
            nest = nest.replace({widened: value}, [*outer, block, within])
            body = self.loops(Nest((within,), nest.body), within, tile)
            return self._kernel([*outer, block], body, BLOCK)
        while outer and work * self._extent(outer[-1]) <= ITEM:
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
            return self.loops(Nest(nest.vars[:-1], nest.body), nest.vars[-2], nest.vars[-1])
        return self.loops(nest, nest.vars[-1] if nest.vars else None)

    def _kernel(self, outer: Sequence[Sym], body: Sequence[Stmt], work: int) -> Kernel:
        """The parallel loop counts through `outer`; its counter is taken apart again for each item."""
        extents = [v.extent if v.extent is not None else 0 for v in outer]
        item = self.names.var(product(extents), "p")
        lets: list[Stmt] = []
        rest: Dim = item.dim
        for var, below in zip(outer, (product(extents[k + 1 :]) for k in range(len(extents))), strict=True):
            first = var is outer[0]
            size = var.extent if var.extent is not None else 0
            value = floordiv(rest, below)
            lets.append(Let(var, value if first else mod(value, size)))
        return Kernel(self.name, item, (*lets, *body), work, self.scratch)

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
        body: list[Stmt] = []
        for r in reductions:
            body += self._folding(r)
        body += self._also(reductions)
        nest = merge(Nest(tuple(inner), (store,)), self.names)
        body += self.rows(nest)
        work = sum(prod(self._extent(v) for v in r.vars) for r in reductions)
        return self._kernel(outer, body, max(1, work + prod(map(self._extent, inner))))

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
        block, within, value = cut(widened, 256, self.names)
        values = {widened: value}
        body: list[Stmt] = []
        for r in reductions:
            fold = Nest(r.vars, (Fold(r.register, r.op, r.body),)).replace(values, r.vars)
            body += [Alloc(r.register, r.start), *loops(fold.vars, fold.body, None)]
        body += [s for a in self._also(reductions) for s in Nest((), (a,)).replace(values, ()).body]
        nest = Nest(tuple(inner), (store,)).replace(values, inner)
        body += loops(nest.vars, nest.body, None)
        work = 256 * sum(prod(self._extent(v) for v in r.vars) for r in reductions)
        rest = [block if v is widened else v for v in outer]
        return self._kernel(rest, (For(within, Loop.VECTOR, tuple(body)),), max(1, work))

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
        self.inner = frozenset(v for v in self.vars[self.vars.index(row) + 1 :] if v not in self.outside)
        if not self.inner:
            self.inner = frozenset({row})
            return self._row(elements, value, at)
        return self._ring(elements, value, at)

    def _row(self, elements: Elements, value: Value, at: tuple[Dim, ...]) -> Expr:
        """Taps along the innermost axis: the whole operand row first."""
        kept = Kept(
            self, value.args[0], at, self.inner, 1, also=value.op.axis if isinstance(value.op, Taps) else None
        )
        self.before += kept.fill(0, at)
        return elements.taps(value, at, lambda t, position: kept.read(0, _moved(at, value, position)))

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
            fill = kept.fill(slot, _moved(at, value, position))
            self.before.append(If(alu(Op.NE, load(tags, slot), here), (*fill, Store(tags, slot, here))))
            return kept.read(slot, _moved(at, value, position))

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
            return self._kernel(outer, [*starts, *fills, *stores], ITEM)
        rows = self._extent(row) * prod(map(self._extent, outer))
        band = min(BAND, max(LEAST_BAND, rows // ITEMS))
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


@dataclass(frozen=True, slots=True)
class Mark:
    """A statement that belongs before the first row of a band."""

    stmt: Stmt


@dataclass(slots=True)
class Kept:
    """Rows of `value` in scratch: its axes that move with the inner loops, whole; the others fixed by the
    outer loops."""

    builder: Builder
    value: Value
    at: tuple[Dim, ...]
    inner: frozenset[Sym]
    rows: int
    also: int | None = None
    axes: tuple[int, ...] = ()
    buffer: Buffer | None = None

    def __post_init__(self) -> None:
        free = [k for k, d in enumerate(self.at) if k == self.also or any(depends(d, v) for v in self.inner)]
        for k in free:
            if k != self.also and any(
                depends(self.at[k], v) for v in self.builder.vars if v not in self.inner
            ):
                raise Refusal(self.value, "its rows are cut across")
        self.axes = tuple(free)
        length = maximum(LEAST, mul(self.length, self.rows))  # so that whole registers can be read anywhere
        kind = COMPUTED[self.value.dtype]
        self.buffer = self.builder.reserve("row", Scalar.U8 if kind is Scalar.BOOL else kind, length)

    @property
    def length(self) -> Dim:
        """Elements of one row."""
        return product(self.value.shape[k] for k in self.axes)

    def _place(self, slot: Dim, at: Sequence[Dim]) -> Dim:
        inside = flat(tuple(self.value.shape[k] for k in self.axes), [at[k] for k in self.axes])
        return add(mul(slot, self.length), inside)

    def read(self, slot: Dim, at: Sequence[Dim]) -> Expr:
        """One element of the row in `slot`."""
        assert self.buffer is not None, "a row has its buffer from the start"
        return cast(load(self.buffer, self._place(slot, at)), COMPUTED[self.value.dtype])

    def fill(self, slot: Dim, at: Sequence[Dim]) -> list[Stmt]:
        """Compute the row of `value` at the fixed part of `at` into `slot`."""
        b = self.builder
        assert self.buffer is not None, "a row has its buffer from the start"
        fresh = {k: b.names.var(self.value.shape[k], "x") for k in self.axes if self.value.shape[k] != 1}
        where = tuple(fresh[k].dim if k in fresh else 0 if k in self.axes else d for k, d in enumerate(at))
        elements = Elements(b.buffers, b.tables, b.names, allow_reductions=False)
        before: list[Stmt] = []
        elements.tapped = lambda value, i: self._below(elements, before, frozenset(fresh.values()), value, i)
        element = cast(elements.at(self.value, where), self.buffer.stored)
        body = (Store(self.buffer, self._place(slot, where), element),)
        nest = merge(refined(Nest(tuple(fresh.values()), body), b.names), b.names)
        return [*before, *b.rows(nest)]

    def _below(
        self, elements: Elements, before: list[Stmt], inner: frozenset[Sym], value: Value, at: tuple[Dim, ...]
    ) -> Expr:
        """Taps inside a row: their operand, when heavy, becomes a row of its own first."""
        op, arg = value.op, value.args[0]
        assert isinstance(op, Taps), f"{value} is not made by taps"
        moves = any(depends(at[op.axis], v) for v in inner)
        if arg in self.builder.buffers or weight(arg, self.builder.buffers) < HEAVY or not moves:
            return elements.taps(value, at)
        row = Kept(self.builder, arg, at, inner, 1, also=op.axis)
        before += row.fill(0, at)
        return elements.taps(value, at, lambda t, position: row.read(0, _moved(at, value, position)))


def _moved(at: tuple[Dim, ...], value: Value, position: Dim) -> tuple[Dim, ...]:
    """`at` with the tapped axis at `position`."""
    axis = value.op.axis if isinstance(value.op, Taps) else 0
    return (*at[:axis], position, *at[axis + 1 :])
