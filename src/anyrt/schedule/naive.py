"""A group as a kernel of serial loops: the input of each strategy.

Elements are inlined into one another (elements.py). Loops over the axes that folds keep surround the folds;
loops over the rest of the output follow them. Rows that taps read again are computed into the thread's
scratch first. Loops are split until indices are affine. Strategies merge, vectorise and parallelise loops
later.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import Dim, Sym, add, depends, divmod_dim, floordiv, minimum, mod, mul, product
from anyrt.core.dimvalues import substitute
from anyrt.core.dtype import bits
from anyrt.core.machine import Machine
from anyrt.ir.buffer import COMPUTED, Buffer, Scalar, Space
from anyrt.ir.compute import Border, Contracted, Extern, Given
from anyrt.ir.graph import Value
from anyrt.ir.kernel import (
    Alloc,
    Expr,
    Fold,
    For,
    If,
    Kernel,
    Loop,
    Op,
    Stmt,
    Store,
    alu,
    cast,
    const,
    index,
    load,
    select,
)
from anyrt.ir.statements import dims_of, indices
from anyrt.loops.keep import keeps
from anyrt.loops.nest import Names, is_few, loads_of, moves, room, serial, stride
from anyrt.loops.strip_mine import MAX_SPLITS, divide, divided
from anyrt.schedule import storage
from anyrt.schedule.cost import Sizes, is_light, weight
from anyrt.schedule.elements import AGAIN, Elements, FusionFailure, Reduction, tapped
from anyrt.schedule.extern import Maker, extern
from anyrt.schedule.group import Group
from anyrt.schedule.hidden import searched
from anyrt.schedule.layout import Layout, row_major
from anyrt.schedule.nontemporal import Past
from anyrt.schedule.pieces import Pieces
from anyrt.schedule.step import Context, Strategies, Strategy, Trace, carry_out
from anyrt.schedule.tables import Tables
from anyrt.schedule.tapped_rows import TappedRows, moved

FEWER = 64  # times: a value with as many fewer elements than the kernel writes is stored at almost no cost


@dataclass(frozen=True, slots=True)
class Mark:
    """A statement that belongs before the first row of a band."""

    stmt: Stmt


@dataclass(slots=True)
class Builder:
    """Creates the kernel of one group. `first`: the element of a stored value at which its buffer starts, if
    not the first one; `layouts`: those that are not row-major."""

    group: Group
    buffers: Mapping[Value, Buffer]
    tables: Tables
    sizes: Sizes
    machine: Machine
    pieces: Pieces
    name: str
    strategies: Strategies
    past: Mapping[Buffer, Past] = field(default_factory=dict)
    first: Mapping[Value, Dim] = field(default_factory=dict)
    layouts: Mapping[Value, Layout] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    scratch: Dim = 0
    vars: list[Sym] = field(default_factory=list)
    axes: Sequence[Dim] = ()
    before: list[Stmt | Mark] = field(default_factory=list)
    row: Sym | None = None
    inner: frozenset[Sym] = frozenset()
    around_rows: set[Sym] = field(default_factory=set)
    beside: frozenset[Sym] = frozenset()
    folded: dict[Buffer, Value] = field(default_factory=dict)
    failures: list[FusionFailure] = field(default_factory=list)
    chosen: str = "map"
    unmet: tuple[str, ...] = ()

    def build(self) -> Kernel | FusionFailure:
        """The kernel, or the value that needs its own buffer."""
        nest = self.naive()
        if isinstance(nest, FusionFailure):
            return nest
        kernel, strategy = nest
        context = self._context()
        finished = carry_out(strategy, kernel, context)
        self.unmet = context.unmet
        return finished

    @property
    def kind(self) -> str:
        """The name of the strategy for an existing kernel."""
        return "stencil" if self.row is not None else self.chosen

    def traced(self) -> list[Trace]:
        """The kernel after each step of the strategy."""
        nest = self.naive()
        assert not isinstance(nest, FusionFailure), "the kernel was created before"
        kernel, strategy = nest
        context = self._context()
        carry_out(strategy, kernel, context)
        return context.trace

    def naive(self) -> tuple[Kernel, Strategy] | FusionFailure:
        """The serial loops, and the strategy for them."""
        kind, kernel = self._serial()
        if self.failures:
            return self.failures[0]
        self.chosen = self.strategies.choice(kind, kernel, self.machine)
        return kernel, self.strategies.of(self.kind)

    def _serial(self) -> tuple[str, Kernel]:
        """The kind of the kernel, and its serial loops."""
        root = self.group.root
        if self.group.border is not None:
            return "map", self._kernel(self._bordered(self.group.border))
        if isinstance(root.compute, Extern) and root not in self.buffers:
            return "extern", self._kernel(self._written(root.compute))
        if root.dtype in storage.PACKED:
            return "map", self._kernel(self._packed())
        elements, store = self._refined()
        if self.failures:  # the store reads a placeholder
            return "map", self._kernel(())
        if self.group.mends:
            return "mend", self._kernel(self._mended(elements, store))
        if self.row is not None:
            return "stencil", self._kernel(self._rows(store))
        if elements.reductions:
            return self._folding_kind(elements), self._kernel(self._rows_folded(elements, store))
        layout = self.group.layout
        if layout is not None and layout.block is not None:  # elements are contiguous within blocks
            self.vars.sort(key=lambda v: stride(store.index, v) == 1)
        kernel = self._kernel(serial(self.vars, (store,)))
        return "update" if keeps(kernel) else "map", kernel

    def _folding_kind(self, elements: Elements) -> str:
        """The loops of a kernel with folds, which surround them."""
        self.folded = {r.register: r.value for r in elements.reductions.values()}
        contracts = any(isinstance(v.compute, Contracted) for v in self.folded.values())
        return "contraction" if contracts else "reduction"

    def _written(self, how: Extern) -> tuple[Stmt, ...]:
        """A primitive's own statements in a kernel."""
        maker = Maker(self.group.root, self.group.buffer, self.group.place, self.names)
        body = extern(how, maker, self._elements(reductions=False), self.buffers)
        self.scratch = maker.bytes
        return body

    def _fail(self, value: Value, reason: str) -> None:
        self.failures.append(FusionFailure(value, reason))

    def _kernel(self, body: Sequence[Stmt]) -> Kernel:
        return Kernel(self.name, self.names.var(1, "p"), tuple(body), 1, self.scratch)

    def _context(self) -> Context:
        volume = self.sizes.volume(self.group.root)
        return Context(
            self.names,
            self.tables,
            self.sizes,
            self.machine,
            self.pieces,
            volume,
            self._repeated,
            self.folded,
            self.past,
            numbers=self._numbers(),
        )

    def _numbers(self) -> dict[Buffer, NDArray[np.float32]]:
        """The elements of constants that sums read from their first one on."""
        numbers: dict[Buffer, NDArray[np.float32]] = {}
        for value in (a for v in self.folded.values() for a in v.args if a in self.buffers):
            how = value.compute
            if isinstance(how, Given) and how.numbers is not None and self.first.get(value, 0) == 0:
                numbers[self.buffers[value]] = np.frombuffer(how.numbers, np.float32)
        return numbers

    def _repeated(self) -> Value | None:
        """Values with so few elements, compared with the result, that recomputing them for each part of it
        costs more than storing them."""
        most, todo = self.sizes.volume(self.group.root) // FEWER, [self.group.root]
        seen = set(self.buffers)
        while todo:
            for arg in todo.pop().args:
                if arg in seen:
                    continue
                seen.add(arg)
                if self.sizes.volume(arg) <= most and weight(arg, self.buffers, self.machine) > 1:
                    return arg
                todo.append(arg)
        return None

    # ---- the output's loops -------------------------------------------------------------------

    def _refined(self) -> tuple[Elements, Store]:
        """The root's store in loops over its own axes, split until indices are affine."""
        root = self.group.root
        axes: list[Dim] = [0] * len(root.shape)
        for k in self.group.order:
            if root.shape[k] != 1:
                axes[k] = self._axis(root.shape[k])
        for _ in range(MAX_SPLITS):
            elements, store = self._lower(axes)
            values = None if self.failures else self._divided(elements, store)
            if values is None:
                self.axes = axes
                return elements, store
            axes = [substitute(a, values) for a in axes]
        return self._lower(axes)

    def _divided(self, elements: Elements, store: Store) -> dict[Sym, Dim] | None:
        """The position at which a loop is split in two: because an index divides it, or its rows are long;
        None if there is none."""
        division = divided([d for s in self._all_dims(elements, store) for d in s], self.vars)
        piece = self._long_row() if division is None else None
        var, size = division or piece or (None, 1)
        if var is None:
            return None
        outer, inner, value = divide(var, size, self.names)
        if piece is not None:
            self.around_rows.add(outer)
        at = self.vars.index(var)
        self.vars[at : at + 1] = [outer, inner]
        return {var: value}

    def _long_row(self) -> tuple[Sym, Dim] | None:
        """The innermost loop of a stencil whose rows are too large for the caches, and a piece of it."""
        if self.row is None or self.vars[-1] is self.row or len(self.inner) < 2:
            return None
        last, piece = self.vars[-1], self.pieces.row_piece
        is_long = prod(map(self.sizes.turns, self.inner)) > self.pieces.row
        length = last.extent or 0
        return (last, piece) if is_long and length not in (0, piece) and mod(length, piece) == 0 else None

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

    def _elements(self, reductions: bool = True) -> Elements:
        return Elements(
            self.buffers,
            self.tables,
            self.names,
            self.first,
            self.layouts,
            allow_reductions=reductions,
            careful=self.group.mends,
            failures=self.failures,
        )

    def _lower(self, axes: Sequence[Dim]) -> tuple[Elements, Store]:
        self.before, self.row, self.inner, self.scratch = [], None, frozenset(), 0
        self.beside = frozenset()
        elements = self._elements()
        elements.tapped = lambda value, at: self._tapped(elements, value, at)
        root = self.group.root
        value = storage.encode(root.dtype, elements.at(root, axes))
        return elements, Store(self.group.buffer, self.group.place(axes), value)

    # ---- folds --------------------------------------------------------------------------------

    def _rows_folded(self, elements: Elements, store: Store) -> tuple[Stmt, ...]:
        reductions = list(elements.reductions.values())
        outer, inner = self._among(self._not_folded(reductions))
        if self._narrow(outer, reductions):
            self._fail(reductions[0].value, "too few rows to share among threads")
        folds = [s for r in reductions for s in self._folding(r)]
        return serial(outer, [*folds, *self._also(reductions), *serial(inner, (store,))])

    def _folding(self, r: Reduction) -> tuple[Stmt, ...]:
        return Alloc(r.register, r.start), *serial(r.vars, (Fold(r.register, r.op, r.body),))

    def _not_folded(self, reductions: Sequence[Reduction]) -> frozenset[Sym]:
        """The loops around the reductions: the same for all, or the odd one gets a kernel of its own."""
        needs = [frozenset(v for v in self.vars if moves(r.index, v)) for r in reductions]
        widest = max(needs, key=len)
        folded = [v for r in reductions for v in r.vars]
        for r, n in zip(reductions, needs, strict=True):
            if any(moves(r.index, v) for v in folded):
                self._fail(r.value, "it would be folded again for every element of another fold")
            if n != widest:
                self._fail(r.value, "it is folded over other axes than the rest of the row")
        return widest

    def _among(self, some: Container[Sym]) -> tuple[list[Sym], list[Sym]]:
        """The loops that some of them share, and the others."""
        return [v for v in self.vars if v in some], [v for v in self.vars if v not in some]

    def _narrow(self, outer: Sequence[Sym], reductions: Sequence[Reduction]) -> bool:
        """A consumer with hardly any rows would run on one thread: better two kernels."""
        return (
            not outer
            and self.group.root is not reductions[-1].value
            and self.sizes.volume(self.group.root) > self.pieces.alone
        )

    def _also(self, reductions: Sequence[Reduction]) -> list[Stmt]:
        """Stores of fused reductions that other kernels read."""
        out: list[Stmt] = []
        for value, buffer in self.group.also:
            folded = [r for r in reductions if r.value == value]
            if not folded:
                self._fail(value, "its consumer does not fold it")
                continue
            out.append(
                Store(
                    buffer,
                    (self.layouts.get(value) or row_major(value.shape)).place(folded[0].index),
                    storage.encode(value.dtype, load(folded[0].register, 0)),
                )
            )
        return out

    def _mended(self, elements: Elements, store: Store) -> tuple[Stmt, ...]:
        """Each row that contains NaN, recomputed; if the first element along axes represents all, the
        elements of the row that are NaN there."""
        alike = searched(self.group.root, self.buffers) or ()
        repeated = {v for k in alike for v in self.vars if depends(self.axes[k], v)}
        first = substitute(store.index, dict.fromkeys(repeated, 0))
        there = storage.read(self.group.buffer, self.group.root.dtype, first)
        is_none, body = alu(Op.NE, there, there), list[Stmt]()
        for r in elements.reductions.values():
            body += self._folding(r)
        inner, rows = self._among(repeated)
        again = serial(inner, (*body, store))
        again = (If(is_none, again),) if repeated or not self.vars else again
        return self._rows_mended(rows, again, is_none, Loop.SERIAL if repeated else Loop.VECTOR)

    def _rows_mended(
        self, rows: Sequence[Sym], again: tuple[Stmt, ...], is_none: Expr, kind: Loop
    ) -> tuple[Stmt, ...]:
        """Statements for each row that contains NaN."""
        if not rows:
            return again
        *rows, last = rows
        flag = Buffer(self.names.name("none"), Scalar.F32, Space.REGISTER)
        look = Fold(flag, Op.MAX, select(is_none, 1.0, const(0.0, Scalar.F32)))
        any_none = alu(Op.NE, load(flag, 0), const(0.0, Scalar.F32))
        mended = If(any_none, (For(last, kind, again),))
        return serial(rows, (Alloc(flag, const(0.0, Scalar.F32)), For(last, Loop.VECTOR, (look,)), mended))

    # ---- rows that taps read again ------------------------------------------------------------

    def _tapped(self, elements: Elements, value: Value, at: tuple[Dim, ...]) -> Expr:
        """Taps at the level of the output: an expensive operand is kept in rows, a cheap one is read in
        place."""
        (op, _), arg = tapped(value), value.args[0]
        if is_light(arg, self.buffers, self.machine):
            return elements.taps(value, at)
        row = next((v for v in self.vars if at[op.axis] == v.dim), None)
        if row is None or self.row is not None:
            return elements.fail(arg, "taps read it at positions that are no row of the output", value)
        if elements.folding:
            return elements.fail(arg, "its rows would be kept for a fold, which has loops of its own", value)
        for reduction in elements.reductions.values():
            return elements.fail(reduction.value, AGAIN, value)
        elements.allow_reductions = False
        self.row = row
        self.beside = self._side_by_side(arg, at, row)
        after = self.vars[self.vars.index(row) + 1 :]
        self.inner = frozenset(v for v in (*after, *self.beside) if v not in self.around_rows)
        if not self.inner:
            self.inner = frozenset({row})
            return self._row(elements, value, at)
        return self._ring(elements, value, at)

    def _side_by_side(self, operand: Value, at: tuple[Dim, ...], row: Sym) -> frozenset[Sym]:
        """Loops around the row over few contiguous elements: kept together, they share loads."""
        at_row = self.vars.index(row)
        few, after = [v for v in self.vars[:at_row] if is_few(v)], self.vars[at_row + 1 :]
        if not few:
            return frozenset()
        element = self._elements(reductions=False).at(operand, at)
        reads = loads_of([Alloc(Buffer("element", element.type, Space.REGISTER), element)])
        return frozenset(v for v in few if any(_beside(x.index, v, after) for x in reads))

    def _row(self, elements: Elements, value: Value, at: tuple[Dim, ...]) -> Expr:
        """Taps along the innermost axis: the whole operand row first."""
        rows = TappedRows(self, value.args[0], at, self.inner, 1, also=tapped(value)[0].axis)
        self.before += rows.fill(0, at)
        return elements.taps(value, at, lambda t, position: rows.read(0, moved(at, value, position)))

    def _ring(self, elements: Elements, value: Value, at: tuple[Dim, ...]) -> Expr:
        """Taps along an outer axis: the last k rows of the operand, found by their position modulo k."""
        count = tapped(value)[1].count
        rows = TappedRows(self, value.args[0], at, self.inner, count)
        tags = self.reserve("tags", Scalar.I32, count)
        for slot in range(count):
            self.before.append(Mark(Store(tags, slot, const(-1, Scalar.I32))))

        def source(t: int, position: Dim) -> Expr:
            slot = mod(position, count)
            here = cast(index(position), Scalar.I32)
            fill = rows.fill(slot, moved(at, value, position))
            self.before.append(If(alu(Op.NE, load(tags, slot), here), (*fill, Store(tags, slot, here))))
            return rows.read(slot, moved(at, value, position))

        return elements.taps(value, at, source)

    def reserve(self, stem: str, kind: Scalar, count: Dim) -> Buffer:
        """A buffer in the thread's scratch."""
        offset = self.scratch
        self.scratch = add(offset, room(kind, count))
        return Buffer(self.names.name(stem), kind, Space.SCRATCH, count, offset)

    def _rows(self, store: Store) -> tuple[Stmt, ...]:
        """Rows in order, each after the operand rows that it lacks; first the marks of missing rows."""
        row = self.row
        assert row is not None, "a stencil has a row"
        inner = [v for v in self.vars if v in self.inner and v is not row]
        outer = [v for v in self.vars if v not in self.inner and v is not row]
        starts = [s.stmt for s in self.before if isinstance(s, Mark)]
        fills = [s for s in self.before if not isinstance(s, Mark)]
        if row in self.inner:
            return serial(outer, [*starts, *fills, *serial([row], (store,))])
        turn = (*fills, *serial(inner, (store,)))
        return serial(outer, [*starts, For(row, Loop.SERIAL, turn)])

    # ---- borders ------------------------------------------------------------------------------

    def _bordered(self, border: Border) -> tuple[Stmt, ...]:
        """The border of the root: both ends of each axis, with the interior of the axes before it."""
        root, order = self.group.root, list(self.group.order)
        value = storage.encode(root.dtype, const(border.value, COMPUTED[root.dtype]))
        if self.group.fills:
            return self._side({}, {}, value)
        wide = [k for k in order if (border.lo[k], border.hi[k]) != (0, 0)]
        around = {k: self.names.var(root.shape[k]) for k in order[: order.index(wide[0])]}
        body: list[Stmt] = []
        done: dict[int, tuple[Dim, Dim]] = {}  # where each axis that was bordered already begins, its length
        for k in wide:
            lo, hi, whole = border.lo[k], border.hi[k], root.shape[k]
            for ends in ((0, lo), (add(whole, mul(hi, -1)), hi)):
                if ends[1] != 0:
                    body += self._side(around, {**done, k: ends}, value)
            done[k] = (lo, add(whole, mul(add(lo, hi), -1)))
        return serial([*around.values()], body)

    def _side(
        self, around: Mapping[int, Sym], ranges: Mapping[int, tuple[Dim, Dim]], value: Expr
    ) -> tuple[Stmt, ...]:
        """`value` along axes that have loops, these ranges of others, and all of the rest."""
        root, vars = self.group.root, list[Sym]()
        at: list[Dim] = [0] * len(root.shape)
        for k in self.group.order:
            start, size = ranges.get(k, (0, root.shape[k]))
            if k not in around:
                vars.append(self.names.var(size))
            at[k] = add(start, (around.get(k) or vars[-1]).dim)
        return serial(vars, (Store(self.group.buffer, self.group.place(at), value),))

    # ---- packed types -------------------------------------------------------------------------

    def _packed(self) -> tuple[Stmt, ...]:
        """Packed results: a loop over bytes, each of two or four elements."""
        root, width = self.group.root, bits(self.group.root.dtype)
        total, each, mask = product(root.shape), 8 // width, (1 << width) - 1
        byte = self.names.var(floordiv(add(total, each - 1), each))
        elements = self._elements(reductions=False)
        whole = self._code(elements, root, mul(byte.dim, each)) & mask
        for k in range(1, each):
            place = add(mul(byte.dim, each), k)
            code = self._code(elements, root, minimum(place, add(total, -1)))
            there = alu(Op.LT, index(place), index(total))
            whole = whole | ((select(there, code, 0) & mask) << width * k)
        store = Store(self.group.buffer, byte.dim, cast(whole, Scalar.U8))
        return serial([byte], (store,))

    def _code(self, elements: Elements, root: Value, at: Dim) -> Expr:
        position: list[Dim] = []
        for size in reversed(root.shape):
            position.insert(0, mod(at, size))
            at = floordiv(at, size)
        return cast(storage.encode(root.dtype, elements.at(root, position)), Scalar.I32)


def _beside(at: Dim, few: Sym, moving: Sequence[Sym]) -> bool:
    """True if the elements along `few` are contiguous at every index of the others."""
    rest = substitute(at, {few: 0})
    whole = stride(at, few) == 1 and divmod_dim(rest, few.extent or 0)[1] == 0
    return whole and any(depends(rest, v) for v in moving)
