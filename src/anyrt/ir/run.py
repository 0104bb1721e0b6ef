"""Whole kernels run with NumPy, without LLVM: what every statement means, with every access checked.

    >>> from anyrt.ir.kernel import Scalar, load
    >>> i = Sym("i", extent=4)
    >>> x, y = (Buffer(n, Scalar.I32, s, 4) for n, s in (("x", Space.INPUT), ("y", Space.OUTPUT)))
    >>> memory = {x: np.arange(4, dtype=np.int32), y: np.zeros(4, np.int32)}
    >>> run(Kernel("double", i, (Store(y, i.dim, load(x, i.dim) * 2),)), memory, {})
    >>> memory[y]
    array([0, 2, 4, 6], dtype=int32)

Scratch and registers are the kernel's own. Turns of loops run together wherever none reads what another one
writes: a kernel takes a few calls of NumPy for each statement, not for each element. A fold across a vector
loop goes lane by lane, in the order in which generated code does it (ir/foldorder.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Never

import numpy as np

from anyrt.core.dims import Dim, Sym, bounds, evaluate, rebuild
from anyrt.core.errors import CompileError
from anyrt.ir.evaluate import DTYPES, OPS, Array, Evaluation, Ints, poison
from anyrt.ir.foldorder import each, in_lanes, in_order, shape
from anyrt.ir.kernel import (
    Alloc,
    Buffer,
    Expr,
    Fetch,
    Fold,
    For,
    If,
    Kernel,
    Let,
    Load,
    Loop,
    Space,
    Stmt,
    Store,
    neutral,
)
from anyrt.ir.points import Cell, Points
from anyrt.ir.statements import allocations, expressions, folds, lanes_for, stores
from anyrt.ir.visit import parts

LANES: Final = 16  # of 32 bits, in a vector of the machine
MOST: Final = 1 << 16  # turns that run together, roughly
MOST_SCRATCH: Final = 1 << 26  # bytes of scratch of items that run together


def run(
    kernel: Kernel, buffers: Mapping[Buffer, Array], sizes: Mapping[str, int], lanes: int = LANES
) -> None:
    """Run all items of `kernel`; a CompileError (AR810) says where the first wrong access is.

    `buffers`: the stored elements, one-dimensional and changed in place; `lanes`: elements of 32 bits in the
    machine's vectors."""
    with np.errstate(all="ignore"):
        _Run(kernel, buffers, sizes, lanes).all_items()


@dataclass(slots=True, eq=False)
class _Run:
    """One call of `run`."""

    kernel: Kernel
    buffers: Mapping[Buffer, Array]
    sizes: Mapping[str, int]
    lanes: int
    scratch: Array = field(default_factory=lambda: np.zeros((0, 0), np.uint8))  # a row for each item
    stored: Array = field(default_factory=lambda: np.zeros((0, 0), np.uint8))  # where it was written: −1
    arrays: dict[Buffer, Array] = field(default_factory=dict)
    separate: dict[int, bool] = field(default_factory=dict)  # by the identity of the loop
    widths: dict[int, int] = field(default_factory=dict)  # the same
    stmt: Stmt | None = None

    def all_items(self) -> None:
        """Items in order, as many together as memory allows; none finds what another one left in scratch."""
        var, scratch = self.kernel.var, self.number(self.kernel.scratch)
        assert var.extent is not None, f"variable {var} has no extent"
        count = self.number(var.extent)
        together = max(1, min(MOST // self._turns(self.kernel.body), MOST_SCRATCH // max(1, scratch)))
        for first in range(0, count, together):
            items = np.arange(min(together, count - first))
            self.scratch = np.zeros((len(items), scratch), np.uint8)
            self.stored = np.zeros_like(self.scratch)
            self.body(self.kernel.body, Points(items, {var.name: items + first}))

    def number(self, x: Dim) -> int:
        """What depends on sizes only."""
        return evaluate(x, self.sizes)

    def _turns(self, body: Iterable[Stmt]) -> int:
        """Turns of all loops in one item, an upper bound."""
        most = 1
        for stmt in body:
            match stmt:
                case For(var=var, body=inner):
                    most = max(most, bounds(rebuild(var.extent or 0, self._size))[1] * self._turns(inner))
                case If(body=inner):
                    most = max(most, self._turns(inner))
                case _:
                    pass
        return most

    def _size(self, sym: Sym) -> Dim:
        return self.sizes.get(sym.name, sym.dim)

    # ---- statements ---------------------------------------------------------------------------

    def body(self, body: Iterable[Stmt], points: Points) -> None:
        """Statements in order, each at all points."""
        for stmt in body:
            self.stmt = stmt
            step = _Step(self, points)
            match stmt:
                case For():
                    self._loop(stmt, step)
                case If(condition=condition, body=inner):
                    chosen = np.flatnonzero(step.value(condition))
                    if chosen.size:
                        self.body(inner, points.pick(chosen))
                case Let(var=var, value=value):
                    found = step.dim(value)
                    step.check(var, found)
                    points = points.having(var, found)
                case Alloc(buffer=buffer, value=start):
                    elements = np.repeat(step.value(start)[:, None], self.number(buffer.size), axis=1)
                    cell = Cell(elements, np.arange(len(points)))
                    points = replace(points, registers={**points.registers, buffer: cell})
                case Store(buffer=buffer, index=at, value=value):
                    step.write(buffer, step.dim(at), step.value(value))
                case Fold():
                    self._fold(stmt, step)
                case Fetch():
                    pass  # nothing comes of it, wherever it leads

    def _loop(self, loop: For, step: _Step) -> None:
        """All turns together, or those of one vector after the other, or one by one."""
        assert loop.var.extent is not None, f"loop {loop.var} has no extent"
        turns = np.maximum(step.dim(loop.var.extent), 0)
        most = int(turns.max())
        if self._is_separate(loop):
            together = max(1, most)
        else:
            together = self._width(loop) * loop.wide if loop.kind is Loop.VECTOR else 1
        for first in range(0, most, together):
            inner = step.points.spread(loop, first, np.clip(turns - first, 0, together))
            self.body(loop.body, inner)

    def _is_separate(self, loop: For) -> bool:
        """True when no turn can tell whether another one came before it, but for the order of folds."""
        if id(loop) not in self.separate:
            own = {s.buffer for s in allocations(loop.body)}
            changes: list[Store | Fold] = [*stores(loop.body), *folds(loop.body)]
            written = [s.buffer for s in changes if s.buffer not in own]
            loads = (x for x in parts(expressions(loop.body)) if isinstance(x, Load))
            read = {x.buffer for x in loads if x.buffer not in own}
            twice = len(set(written)) < len(written)
            # Turns of an unrolled loop choose elements of registers: each is for one element only.
            one = loop.kind is Loop.UNROLL and any(b.space is Space.REGISTER for b in written)
            known = twice or one or any(self._same(a, b) for a in written for b in read)
            self.separate[id(loop)] = not known
        return self.separate[id(loop)]

    def _same(self, a: Buffer, b: Buffer) -> bool:
        """True when two buffers share memory."""
        if a == b or Space.REGISTER in (a.space, b.space):
            return a == b
        return np.may_share_memory(self.array(a, first=True), self.array(b, first=True))

    # ---- memory -------------------------------------------------------------------------------

    def array(self, buffer: Buffer, first: bool = False) -> Array:
        """The elements of a buffer outside registers; of scratch a row for each item, or the `first` one."""
        if buffer.space is Space.SCRATCH:
            return self.part(buffer, self.scratch[:1] if first else self.scratch)
        if buffer not in self.arrays:
            given, kind, size = self.buffers.get(buffer), DTYPES[buffer.stored], self.number(buffer.entries)
            if given is None or given.shape != (size,) or given.itemsize != kind.itemsize:
                got = "no array" if given is None else f"an array {given.dtype}{list(given.shape)}"
                self.fail(f"{got} for {buffer.name}", f"{kind}[{size}]")
            self.arrays[buffer] = given.view(kind)
        return self.arrays[buffer]

    def part(self, buffer: Buffer, rows: Array) -> Array:
        """A buffer's part of scratch, in each of the rows."""
        kind, offset = DTYPES[buffer.stored], self.number(buffer.offset)
        end = offset + self.number(buffer.entries) * kind.itemsize
        if not 0 <= offset <= end <= rows.shape[1]:
            self.fail(f"{buffer.name} at bytes {offset} to {end}", f"{rows.shape[1]} bytes of scratch")
        return rows[:, offset:end].view(kind)

    def fail(self, got: str, wanted: str, where: str = "") -> Never:
        """The statement that is being run does something wrong."""
        stmt = "" if self.stmt is None else f", {describe(self.stmt)}"
        raise CompileError("AR810", f"kernel {self.kernel.name}{stmt}{where}", got=got, wanted=wanted)

    # ---- folds --------------------------------------------------------------------------------

    def _fold(self, stmt: Fold, step: _Step) -> None:
        """Turns that share a register fold with one another first, inner loops before outer ones."""
        points, values, op = step.points, step.value(stmt.value), OPS[stmt.op]
        cell, at = step.element(stmt.buffer, step.dim(stmt.index))
        while cell.is_shared:
            loop, turns, points = points.before()
            cell = points.registers[stmt.buffer]
            if loop.kind is Loop.VECTOR:
                start = np.array(neutral(stmt.op, stmt.buffer.stored), values.dtype)
                values = each(values, turns, partial(in_lanes, op, start, shape(loop, self._width(loop))))
            elif cell.is_shared:
                values = each(values, turns, partial(in_order, op))
            else:
                old = cell.values[cell.places, at]
                cell.values[cell.places, at] = each(values, turns, partial(in_order, op), old)
                return
        cell.values[cell.places, at] = op(cell.values[cell.places, at], values)

    def _width(self, loop: For) -> int:
        if id(loop) not in self.widths:
            self.widths[id(loop)] = lanes_for(loop.body, 32 * self.lanes)
        return self.widths[id(loop)]


@dataclass(slots=True, eq=False)
class _Step:
    """One statement at its points."""

    run: _Run
    points: Points
    evaluation: Evaluation = field(init=False)

    def __post_init__(self) -> None:
        sizes = {name: np.array(n, np.int64) for name, n in self.run.sizes.items()}
        self.evaluation = Evaluation(self, {**sizes, **self.points.symbols})

    def value(self, x: Expr) -> Array:
        """An expression at each point."""
        return np.broadcast_to(self.evaluation.value(x), len(self.points))

    def dim(self, x: Dim) -> Ints:
        """An index at each point."""
        return np.broadcast_to(self.evaluation.dim(x), len(self.points))

    def read(self, x: Load, at: Ints) -> Array:
        """What a load gives."""
        if x.buffer.space is Space.REGISTER:
            cell = self.register(x.buffer)
            self._inside(x.buffer, at, cell.values.shape[1])
            return np.asarray(cell.values[cell.places, at])
        array = self.run.array(x.buffer)
        self._inside(x.buffer, at, array.shape[-1], empty=1)
        if array.shape[-1] == 0:
            return np.full(at.shape, poison(x.type))
        if x.buffer.space is not Space.SCRATCH:
            return np.asarray(array[at])
        fresh = self._stored(x.buffer)[self.points.items, at] != -1
        if fresh.any():
            self._fail(f"{x.buffer.name}[{_nth(at, fresh)}], which nothing was stored in", "", fresh)
        return np.asarray(array[self.points.items, at])

    def write(self, buffer: Buffer, at: Ints, value: Array) -> None:
        """What a store does."""
        if buffer.space is Space.REGISTER:
            cell, element = self.element(buffer, at)
            cell.values[cell.places, element] = value
            return
        array = self.run.array(buffer)
        assert value.dtype == array.dtype, f"a store of {value.dtype} into {buffer.name} of {array.dtype}"
        self._inside(buffer, at, array.shape[-1])
        if buffer.space is Space.SCRATCH:
            array[self.points.items, at] = value
            self._stored(buffer)[self.points.items, at] = -1
        else:
            array[at] = value

    def _stored(self, buffer: Buffer) -> Array:
        return self.run.part(buffer, self.run.stored).view(f"i{DTYPES[buffer.stored].itemsize}")

    def register(self, buffer: Buffer) -> Cell:
        """Where a register's values are."""
        if buffer not in self.points.registers:
            self.run.fail(f"register {buffer.name} before it is allocated", "")
        return self.points.registers[buffer]

    def element(self, buffer: Buffer, at: Ints) -> tuple[Cell, int]:
        """The one element of a register that all points write."""
        cell, first = self.register(buffer), int(at.flat[0])
        self._inside(buffer, at, cell.values.shape[1])
        assert (at == first).all(), f"points that run together write different elements of {buffer.name}"
        return cell, first

    def _inside(self, buffer: Buffer, at: Ints, size: int, empty: int = 0) -> None:
        outside = (at < 0) | (at >= (size or empty))
        if outside.any():
            self._fail(f"{buffer.name}[{_nth(at, outside)}]", f"0 … {size - 1}", outside)

    def check(self, sym: Sym, value: Ints) -> None:
        """A symbol's values lie where it says."""
        top = sym.hi if sym.extent is None else np.minimum(self.dim(sym.extent) - 1, sym.hi)
        wrong = (value < sym.lo) | (value > top)
        if wrong.any():
            highest = _nth(np.asarray(top), wrong)
            self._fail(f"{sym.name} = {_nth(value, wrong)}", f"{sym.lo} … {highest}", wrong)

    def _fail(self, got: str, wanted: str, wrong: Array) -> Never:
        """At the first point that is wrong."""
        at = {n: _nth(v, wrong) for n, v in self.points.symbols.items()}
        self.run.fail(got, wanted, " at " + ", ".join(f"{n} = {v}" for n, v in at.items()))


def _nth(values: Ints, wrong: Array) -> int:
    """The value at the first point that is wrong."""
    return int(np.broadcast_to(values, np.broadcast_shapes(values.shape, wrong.shape)).flat[wrong.argmax()])


def describe(stmt: Stmt) -> str:
    """A statement in a few words."""
    match stmt:
        case For(var=var, kind=kind):
            return f"for {kind.value} {var}"
        case If(condition=condition):
            return f"if {condition!r}"
        case Let(var=var):
            return f"let {var}"
        case Alloc(buffer=buffer):
            return f"alloc {buffer.name}"
        case Store(buffer=buffer, index=at):
            return f"store {buffer.name}[{at!r}]"
        case Fold(buffer=buffer, op=op):
            return f"fold {buffer.name} {op.value}"
        case Fetch(buffer=buffer, index=at):
            return f"fetch {buffer.name}[{at!r}]"
