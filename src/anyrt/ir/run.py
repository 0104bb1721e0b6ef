"""Whole kernels executed with NumPy, without LLVM: the semantics of every statement, with every access
checked.

    >>> from anyrt.ir.buffer import Scalar
    >>> from anyrt.ir.kernel import load
    >>> i = Sym("i", extent=4)
    >>> x, y = (Buffer(n, Scalar.I32, s, 4) for n, s in (("x", Space.INPUT), ("y", Space.OUTPUT)))
    >>> memory = {x: np.arange(4, dtype=np.int32), y: np.zeros(4, np.int32)}
    >>> run(Kernel("double", i, (Store(y, i.dim, load(x, i.dim) * 2),)), memory, {})
    >>> memory[y]
    array([0, 2, 4, 6], dtype=int32)

Scratch and registers belong to the kernel. Iterations are executed together unless one reads what another one
writes, so a kernel takes a few NumPy calls per statement, not per element. A fold across a vector loop goes
lane by lane, in the order of generated code (ir/foldorder.py).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import Dim, Sym, bounds
from anyrt.core.dimvalues import rebuild
from anyrt.core.errors import CompileError
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.evaluate import DTYPES, OPS, Array, Evaluation, Ints
from anyrt.ir.foldorder import each, halved, in_lanes, in_order, merged, shape, starts
from anyrt.ir.kernel import (
    Alloc,
    Barrier,
    Expr,
    Fetch,
    Fold,
    For,
    If,
    Kernel,
    Let,
    Load,
    Loop,
    MultiReduction,
    Stmt,
    Store,
    load,
    neutral,
)
from anyrt.ir.memory import IN_ROWS, USED, Memory, check_inside, nth
from anyrt.ir.points import Cell, Fault, Flags, Points
from anyrt.ir.statements import expressions, lanes_for
from anyrt.ir.visit import loads, statements, written

T = TypeVar("T", bound=np.generic)
LANES: Final = 16  # of 32 bits, in a vector of the machine
MOST: Final = 1 << 16  # iterations that are executed together, roughly
MOST_SCRATCH: Final = 1 << 26  # bytes of scratch of items (or blocks) that are executed together


def run(
    kernel: Kernel, buffers: Mapping[Buffer, Array], sizes: Mapping[str, int], lanes: int = LANES
) -> None:
    """Execute all items of `kernel`; a CompileError (AR810) reports the first invalid access.

    `buffers`: the stored elements, one-dimensional and changed in place; `lanes`: elements of 32 bits in the
    machine's vectors."""
    with np.errstate(all="ignore"):
        _Run(kernel, Memory(buffers, sizes), lanes).all_items()


@dataclass(frozen=True, slots=True)
class _Traits:
    """The properties of a loop that are known before its iterations are executed."""

    is_separate: bool  # no iteration depends on an earlier one, except for the order of folds
    width: int  # elements of a vector
    several: Sequence[MultiReduction]  # folds of several registers at once across lanes


@dataclass(slots=True, eq=False)
class _Run:
    """One call of `run`."""

    kernel: Kernel
    memory: Memory
    lanes: int
    traits: dict[int, _Traits] = field(default_factory=dict)  # by the identity of the loop

    def all_items(self) -> None:
        """Items in order, as many at a time as memory allows; none reads scratch of another one."""
        var, scratch = self.kernel.var, self.memory.number(self.kernel.scratch)
        assert var.extent is not None, f"variable {var} has no extent"
        count = self.memory.number(var.extent)
        together = max(1, min(MOST // self._turns(self.kernel.body), MOST_SCRATCH // max(1, scratch)))
        for first in range(0, count, together):
            items = np.arange(min(together, count - first))
            self.memory.begin(Space.SCRATCH, len(items), scratch)
            alone = np.zeros(len(items), np.int64)
            self.body(self.kernel.body, Points(items, {var.name: items + first}, alone, alone, alone + 1))

    def _turns(self, body: Iterable[Stmt]) -> int:
        """Iterations of all loops in one item, an upper bound."""
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
        return self.memory.sizes.get(sym.name, sym.dim)

    # ---- statements ---------------------------------------------------------------------------

    def body(self, body: Iterable[Stmt], points: Points) -> None:
        """Statements in order, each at all points."""
        for stmt in body:
            step = _Step(self.memory, points)
            try:
                points = self._stmt(stmt, step)
            except Fault as fault:
                where = f"kernel {self.kernel.name}, {describe(stmt)}{step.place(fault.wrong)}"
                raise CompileError("AR810", where, got=fault.got, wanted=fault.wanted) from None

    def _stmt(self, stmt: Stmt, step: _Step) -> Points:
        """The points for the following statements."""
        match stmt:
            case For():
                self._loop(stmt, step)
            case If(condition=condition, body=inner):
                chosen = np.flatnonzero(step.value(condition))
                if chosen.size:
                    self.body(inner, step.points.pick(chosen))
            case Let(var=var, value=value):
                position = step.dim(value)
                step.check(var, position)
                return step.points.having(var, position)
            case Alloc(buffer=buffer, value=start):
                copies, places = (self.memory.number(buffer.size), 1), np.arange(len(step.points))
                first, lacks = step.tracked(start)
                return step.points.holding(
                    buffer, Cell(np.tile(first, copies).T, np.tile(lacks, copies).T, places)
                )
            case Store(buffer=buffer, index=at, value=value):
                step.write(buffer, step.dim(at), *step.tracked(value))
            case Fold():
                self._fold(stmt, step)
            case MultiReduction(buffers=buffers, step=values):
                step.assign(buffers, [step.value(x) for x in values])
            case Barrier():
                self.memory.barrier(step.points)
        return step.points  # a prefetch has no effect, even if the index is outside

    # ---- loops --------------------------------------------------------------------------------

    def _loop(self, loop: For, step: _Step) -> None:
        """All iterations together, vector by vector, or one by one."""
        assert loop.var.extent is not None, f"loop {loop.var} has no extent"
        turns, traits = np.maximum(step.dim(loop.var.extent), 0), self._traits(loop)
        if traits.several:
            for count in np.unique(turns[turns > 0]):
                self._in_lanes(loop, step.points.pick(np.flatnonzero(turns == count)), count)
            return
        together = self._together(loop, traits, turns)
        for first in range(0, int(turns.max()), together):
            inner = step.points.spread(loop, first, np.clip(turns - first, 0, together))
            if loop.kind is Loop.BLOCK:
                self.memory.begin(Space.SHARED, len(inner), self.memory.number(self.kernel.shared))
                inner = inner.as_blocks()
            self.body(loop.body, inner.as_threads(loop) if loop.kind is Loop.THREAD else inner)

    def _together(self, loop: For, traits: _Traits, turns: Ints) -> int:
        """How many iterations of a loop are executed together."""
        match loop.kind:
            case Loop.BLOCK:
                known = USED * max(1, self.memory.number(self.kernel.shared))
                return max(1, min(MOST // self._turns(loop.body), MOST_SCRATCH // known) // len(turns))
            case Loop.VECTOR if not traits.is_separate:
                return traits.width * loop.registers
            case _:
                return max(1, int(turns.max())) if traits.is_separate else 1

    def _in_lanes(self, loop: For, points: Points, count: int) -> None:
        """`count` iterations of each point, one vector after the other: each lane folds several registers on
        its own, and they are merged at the end."""
        traits, rows = self._traits(loop), len(points)
        width, chains = shape(loop, traits.width)
        lanes = width * chains
        whole = count // lanes * lanes
        sums = {b: np.full((rows * lanes, 1), x) for f in traits.several for b, x in starts(f)}
        for first in (*range(0, whole, lanes), *range(whole, count, width)):
            size = lanes if first < whole else min(width, count - first)
            inner = points.spread(loop, first, np.full(rows, size))
            places = (np.arange(rows)[:, None] * lanes + np.arange(size)).reshape(-1)
            for buffer, values in sums.items():
                inner = inner.holding(buffer, Cell(values, np.zeros(values.shape, np.bool_), places))
            self.body(loop.body, inner)
        step = _Step(self.memory, points)
        for fold in traits.several:
            total = halved(fold, [sums[b].reshape(rows, chains, width) for b in fold.buffers])
            old = [step.value(load(b, 0)) for b in fold.buffers]
            step.assign(fold.buffers, merged(fold, old, total))

    def _traits(self, loop: For) -> _Traits:
        if id(loop) not in self.traits:
            inside = list(statements(loop.body))
            own = {s.buffer for s in inside if isinstance(s, Alloc)}
            several = [s for s in inside if isinstance(s, MultiReduction) and own.isdisjoint(s.buffers)]
            reductions = {s.buffers: s for s in several if loop.kind is Loop.VECTOR}
            separate = loop.kind in (Loop.BLOCK, Loop.THREAD) or self._is_separate(
                loop.body, own, loop.kind is Loop.UNROLL
            )
            width = lanes_for(loop.body, 32 * self.lanes)
            self.traits[id(loop)] = _Traits(separate, width, tuple(reductions.values()))
        return self.traits[id(loop)]

    def _is_separate(self, body: Sequence[Stmt], own: Container[Buffer], unrolled: bool) -> bool:
        changed = [b for s in statements(body) for b in written(s) if b not in own]
        read = {x.buffer for x in loads(expressions(body)) if x.buffer not in own}
        if any(isinstance(s, Barrier) for s in statements(body)):
            return False
        # Iterations of an unrolled loop select elements of registers: each uses one element.
        if len(set(changed)) < len(changed) or (unrolled and any(b.space is Space.REGISTER for b in changed)):
            return False
        return not any(self.memory.overlap(a, b) for a in changed for b in read)

    # ---- folds --------------------------------------------------------------------------------

    def _fold(self, stmt: Fold, step: _Step) -> None:
        """Iterations that share a register are folded with one another first, inner loops before outer
        ones."""
        cell, at = step.element(stmt.buffer, step.dim(stmt.index))
        points, (values, lacks), op = step.points, step.tracked(stmt.value), OPS[stmt.op]
        cell.lacks[cell.places[lacks], at] = True
        while cell.is_shared:
            loop, turns, points = points.before()
            cell = points.registers[stmt.buffer]
            if loop.kind is Loop.VECTOR:
                start = np.array(neutral(stmt.op, stmt.buffer.stored), values.dtype)
                lanes = shape(loop, self._traits(loop).width)
                values = each(values, turns, partial(in_lanes, op, start, lanes))
            elif cell.is_shared:
                values = each(values, turns, partial(in_order, op))
            else:
                old = cell.values[cell.places, at]
                cell.values[cell.places, at] = each(values, turns, partial(in_order, op), old)
                return
        cell.values[cell.places, at] = op(cell.values[cell.places, at], values)


@dataclass(slots=True, eq=False)
class _Step:
    """One statement at its points."""

    memory: Memory
    points: Points
    evaluation: Evaluation = field(init=False)
    lacks: Flags = field(default_factory=lambda: np.zeros((), np.bool_))  # whether all loads had content
    first: str = ""  # the first element that lacks it

    def __post_init__(self) -> None:
        sizes = {name: np.array(n, np.int64) for name, n in self.memory.sizes.items()}
        self.evaluation = Evaluation(self, {**sizes, **self.points.symbols})

    def tracked(self, x: Expr) -> tuple[Array, Flags]:
        """An expression at each point, and whether it depends on memory that was never stored."""
        value = self.evaluation.value(x)
        return np.broadcast_to(value, len(self.points)), np.broadcast_to(self.lacks, len(self.points))

    def value(self, x: Expr) -> Array:
        """An expression at each point that has an effect."""
        return self._sure(self.evaluation.value(x))

    def dim(self, x: Dim) -> Ints:
        """An index at each point."""
        return self._sure(self.evaluation.dim(x))

    def _sure(self, x: NDArray[T]) -> NDArray[T]:
        if self.lacks.any():
            raise Fault(f"{self.first}, which nothing was stored in", "", self.lacks)
        return np.broadcast_to(x, len(self.points))

    def read(self, x: Load, at: Ints) -> Array:
        """The result of a load."""
        if x.buffer.space is not Space.REGISTER:
            value, lacks = self.memory.read(x.buffer, at, self.points)
        else:
            cell = self.points.register(x.buffer)
            check_inside(x.buffer, at, cell.values.shape[1])
            value, lacks = np.asarray(cell.values[cell.places, at]), cell.lacks[cell.places, at]
        if lacks.any():
            self.first = self.first or f"{x.buffer.name}[{nth(at, lacks)}]"
            self.lacks = self.lacks | lacks
        return value

    def write(self, buffer: Buffer, at: Ints, value: Array, lacks: Flags) -> None:
        """The effect of a store."""
        assert value.dtype == DTYPES[buffer.stored], f"{value.dtype} into {buffer.name} of {buffer.stored}"
        if buffer.space is Space.REGISTER:
            cell, element = self.element(buffer, at)
            cell.values[cell.places, element], cell.lacks[cell.places, element] = value, lacks
        else:
            value = value if buffer.space in IN_ROWS else self._sure(value)
            self.memory.write(buffer, at, value, lacks, self.points)

    def assign(self, buffers: Sequence[Buffer], values: Sequence[Array]) -> None:
        """Give several registers new values."""
        for buffer, value in zip(buffers, values, strict=True):
            self.write(buffer, np.zeros(len(self.points), np.int64), value, self.lacks)

    def element(self, buffer: Buffer, at: Ints) -> tuple[Cell, int]:
        """The one element of a register that all points write."""
        cell, first = self.points.register(buffer), int(at.flat[0])
        check_inside(buffer, at, cell.values.shape[1])
        assert (at == first).all(), f"points that run together write different elements of {buffer.name}"
        return cell, first

    def check(self, sym: Sym, value: Ints) -> None:
        """A symbol's values lie where it says."""
        top = sym.hi if sym.extent is None else np.minimum(self.dim(sym.extent) - 1, sym.hi)
        wrong = (value < sym.lo) | (value > top)
        if wrong.any():
            highest = nth(np.asarray(top), wrong)
            raise Fault(f"{sym.name} = {nth(value, wrong)}", f"{sym.lo} … {highest}", wrong)

    def place(self, wrong: Array | None) -> str:
        """The first invalid points, as text."""
        if wrong is None:
            return ""
        return " at " + ", ".join(f"{n} = {nth(v, wrong)}" for n, v in self.points.symbols.items())


def describe(stmt: Stmt) -> str:
    """A statement as short text."""
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
        case MultiReduction(buffers=buffers):
            return f"fold {', '.join(b.name for b in buffers)}"
        case Fetch(buffer=buffer, index=at):
            return f"fetch {buffer.name}[{at!r}]"
        case Barrier():
            return "barrier"
