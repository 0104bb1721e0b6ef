"""Interleave: a few contiguous elements at every position of a row (the channels of a photograph) become one
loop over both.

    for i: 0 … 640                        for k: 0 … 1920
      for c: 0 … 3             ->           y[k] = x[k]
        y[3i + c] = x[3i + c]

If all indices move with position and element as with one counter, vectors may cross positions. Positions from
a table of taps become a table in groups, which has an entry for each element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anyrt.core.dims import Dim, Sym, add, depends, linear, mul, symbols
from anyrt.core.dimvalues import substitute
from anyrt.ir.buffer import Space
from anyrt.ir.kernel import Expr, Index, Kernel, Load, Stmt, Store, load
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import Rewrite
from anyrt.loops.nest import Names, Nest, each_nest, interleaves
from anyrt.loops.tables import Table, Tables


class _Uneven(Exception):
    """An index does not move with the one counter."""


def interleave(kernel: Kernel, tables: Tables, names: Names) -> Kernel | Fail:
    """Every nest whose last loop runs over few contiguous elements, with one loop for its two innermost."""
    changed: list[Nest] = []

    def change(nest: Nest) -> Sequence[Stmt]:
        whole = _collapsed(nest, tables, names) if interleaves(nest) else None
        changed.extend([] if whole is None else [whole])
        return nest.loops if whole is None else whole.loops

    body = each_nest(kernel.body, change)
    return (
        replace(kernel, body=body)
        if changed
        else Fail("no short loop over contiguous elements forms one row with its neighbour")
    )


def _collapsed(nest: Nest, tables: Tables, names: Names) -> Nest | None:
    *outer, position, element = nest.vars
    (store,) = nest.body
    if not isinstance(store, Store) or position.extent is None or not isinstance(element.extent, int):
        return None
    collapsed = names.var(mul(position.extent, element.extent))
    move = _Move(position, element, element.extent, collapsed, tables)
    try:
        body = Store(store.buffer, move.plain(store.index), Rewrite(rule=move.moved).expr(store.value))
    except _Uneven:
        return None
    return Nest((*outer, collapsed), (body,))


@dataclass(slots=True)
class _Move:
    """Rewrites expressions from two counters to one."""

    position: Sym
    element: Sym
    group: int
    collapsed: Sym
    tables: Tables

    def moved(self, x: Expr) -> Expr | None:
        """The replacement of an index or a load."""
        match x:
            case Load(buffer=buffer, index=at):
                table = self.tables.of(buffer) if buffer.space is Space.TABLE else None
                return self._load(x) if table is None else self._entry(table, buffer == table.weights, at)
            case Index():
                raise _Uneven
            case _:
                return None

    def plain(self, at: Dim) -> Dim:
        """An index that both counters move, or neither."""
        along, across = linear(at, self.position), linear(at, self.element)
        if along is None or across is None or along[0] != mul(across[0], self.group):
            raise _Uneven
        return substitute(at, {self.position: 0, self.element: self.collapsed.dim})

    def _load(self, x: Load) -> Expr:
        taps = [s for s in symbols(x.index) if s.source is not None and self._moves(s)]
        if not taps:
            return load(x.buffer, self.plain(x.index))
        (tap, *more), across = taps, linear(x.index, self.element)
        along = linear(x.index, tap)
        if more or along is None or across is None or along[0] != mul(across[0], self.group):
            raise _Uneven
        entry = self._position(tap)
        rest = substitute(x.index, {tap: 0, self.element: 0})
        if depends(rest, self.position):
            raise _Uneven
        return load(x.buffer, add(rest, mul(across[0], entry)))

    def _moves(self, tap: Sym) -> bool:
        return isinstance(tap.source, Load) and depends(tap.source.index, self.position)

    def _position(self, tap: Sym) -> Dim:
        """The entry of the table in groups for a tap."""
        assert isinstance(tap.source, Load), "a tap that moves is read from a table"
        table = self.tables.of(tap.source.buffer)
        if table is None or table.group != 1:
            raise _Uneven
        return self._grouped(table).position(self._place(tap.source.index))

    def _entry(self, table: Table, weighs: bool, at: Dim) -> Expr:
        """A weight (or a position as a number): the same for all elements of a group."""
        if not depends(at, self.position):
            return load(table.weights if weighs and table.weights else table.positions, at)
        if not weighs or table.group != 1:
            raise _Uneven
        weights = self._grouped(table).weights
        assert weights is not None, "a table in groups has what the table has"
        return load(weights, self._place(at))

    def _grouped(self, table: Table) -> Table:
        return self.tables.grouped(table, self.group)

    def _place(self, at: Dim) -> Dim:
        moved = linear(at, self.position)
        if moved is None or moved[0] != 1 or depends(at, self.element):
            raise _Uneven
        return add(mul(moved[1], self.group), self.collapsed.dim)
