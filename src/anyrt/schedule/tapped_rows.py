"""Rows that taps read again, kept in a thread's scratch, so that their operand is not computed again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from anyrt.core.dims import Dim, Sym, add, depends, maximum, mul, product
from anyrt.core.machine import Machine
from anyrt.ir.buffer import COMPUTED, Buffer, Scalar
from anyrt.ir.graph import Value
from anyrt.ir.kernel import Expr, Stmt, Store, cast, load
from anyrt.loops.nest import Names, Nest
from anyrt.loops.strip_mine import delinearised
from anyrt.loops.tables import LEAST
from anyrt.schedule.cost import is_light
from anyrt.schedule.elements import Elements, FusionFailure, tapped
from anyrt.schedule.layout import Layout, row_major
from anyrt.schedule.tables import Tables


class Owner(Protocol):
    """The kernel being built, as far as its rows need it."""

    buffers: Mapping[Value, Buffer]
    first: Mapping[Value, Dim]
    layouts: Mapping[Value, Layout]
    tables: Tables
    machine: Machine
    names: Names
    vars: list[Sym]
    beside: frozenset[Sym]
    failures: list[FusionFailure]

    def reserve(self, stem: str, kind: Scalar, count: Dim) -> Buffer:
        """A buffer in the thread's scratch."""


@dataclass(slots=True)
class TappedRows:
    """Rows of `value` in scratch: its axes that move with the inner loops, whole; the others fixed by the
    outer loops."""

    owner: Owner
    value: Value
    at: tuple[Dim, ...]
    inner: frozenset[Sym]
    rows: int
    also: int | None = None
    axes: tuple[int, ...] = ()
    buffer: Buffer | None = None

    def __post_init__(self) -> None:
        free = [k for k, d in enumerate(self.at) if k == self.also or _moved_by(d, self.inner)]
        outer = [v for v in self.owner.vars if v not in self.inner]
        if any(k != self.also and _moved_by(self.at[k], outer) for k in free):
            self.owner.failures.append(FusionFailure(self.value, "its rows are cut across"))
        besides = {k: _moved_by(d, self.owner.beside) for k, d in enumerate(self.at)}
        self.axes = tuple(sorted(free, key=lambda k: besides[k]))
        length = maximum(LEAST, mul(self.length, self.rows))  # so that whole registers can be read anywhere
        kind = COMPUTED[self.value.dtype]
        self.buffer = self.owner.reserve("row", Scalar.U8 if kind is Scalar.BOOL else kind, length)

    @property
    def length(self) -> Dim:
        """Elements of one row."""
        return product(self.value.shape[k] for k in self.axes)

    def _place(self, slot: Dim, at: Sequence[Dim]) -> Dim:
        inside = row_major(tuple(self.value.shape[k] for k in self.axes)).place([at[k] for k in self.axes])
        return add(mul(slot, self.length), inside)

    def read(self, slot: Dim, at: Sequence[Dim]) -> Expr:
        """One element of the row in `slot`."""
        assert self.buffer is not None, "a row has its buffer from the start"
        return cast(load(self.buffer, self._place(slot, at)), COMPUTED[self.value.dtype])

    def fill(self, slot: Dim, at: Sequence[Dim]) -> list[Stmt]:
        """Compute the row of `value` at the fixed part of `at` into `slot`."""
        b = self.owner
        assert self.buffer is not None, "a row has its buffer from the start"
        fresh = {k: b.names.var(self.value.shape[k], "x") for k in self.axes if self.value.shape[k] != 1}
        where = tuple(fresh[k].dim if k in fresh else 0 if k in self.axes else d for k, d in enumerate(at))
        elements = Elements(
            b.buffers, b.tables, b.names, b.first, b.layouts, allow_reductions=False, failures=b.failures
        )
        before: list[Stmt] = []
        elements.tapped = lambda value, i: self._below(elements, before, frozenset(fresh.values()), value, i)
        element = cast(elements.at(self.value, where), self.buffer.stored)
        body = (Store(self.buffer, self._place(slot, where), element),)
        return [*before, *delinearised(Nest(tuple(fresh.values()), body), b.names).loops]

    def _below(
        self, elements: Elements, before: list[Stmt], inner: frozenset[Sym], value: Value, at: tuple[Dim, ...]
    ) -> Expr:
        """Taps inside a row: their operand, when heavy, becomes a row of its own first."""
        (op, _), arg = tapped(value), value.args[0]
        b = self.owner
        if is_light(arg, b.buffers, b.machine) or not _moved_by(at[op.axis], inner):
            return elements.taps(value, at)
        row = TappedRows(self.owner, arg, at, inner, 1, also=op.axis)
        before += row.fill(0, at)
        return elements.taps(value, at, lambda t, position: row.read(0, moved(at, value, position)))


def _moved_by(at: Dim, vars: Iterable[Sym]) -> bool:
    return any(depends(at, v) for v in vars)


def moved(at: tuple[Dim, ...], value: Value, position: Dim) -> tuple[Dim, ...]:
    """`at` with the tapped axis at `position`."""
    axis = tapped(value)[0].axis
    return (*at[:axis], position, *at[axis + 1 :])
