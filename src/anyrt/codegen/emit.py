"""Kernels to LLVM functions: statements and scalar loops. A target can write statements in its own form, such
as vector loops (`LoopLowering`).

A function has one argument for data, its frame: fixed words, the addresses of buffers, then sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from anyrt.codegen import llvmtext as ll
from anyrt.codegen.checks import RECORD_WORDS
from anyrt.codegen.registers import allocate, fold, keep
from anyrt.codegen.scope import Scope
from anyrt.codegen.values import LOCAL, Values
from anyrt.core.dims import Dim, Sym, add, always_le, mul
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.kernel import Alloc, Expr, Fetch, Fold, For, If, Kernel, Let, Loop, Stmt, Store
from anyrt.ir.statements import buffers_in_order, changes_of, expressions, stores
from anyrt.ir.visit import loads
from anyrt.plan import abi

NAME = "kernel"  # of every function, since equal kernels share one
ATTRIBUTES = (
    'attributes #0 = { nounwind "no-builtins" "no-jump-tables"="true" }',
    "!0 = !{}",
    "!1 = !{i32 1}",
    '!2 = !{!"branch_weights", i32 1, i32 1048576}',
)


@dataclass(frozen=True, slots=True)
class Frame:
    """The words of a frame behind the fixed ones: the addresses of `buffers`, the numbers of elements of the
    buffers that are checked, the sizes, and the words of the record of checks."""

    buffers: tuple[Buffer, ...]
    slots: tuple[Dim, ...]
    checked: tuple[Buffer, ...] = ()
    is_checked: bool = False

    @property
    def own(self) -> int:
        """The number of words that the function writes."""
        return RECORD_WORDS if self.is_checked else 0


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel as LLVM text, the intrinsics that it declares, and its frame."""

    text: str
    declared: frozenset[str]
    frame: Frame

    @property
    def module(self) -> str:
        """The text of a module that LLVM can compile alone."""
        return "\n\n".join([*sorted(self.declared), self.text, *ATTRIBUTES])


class LoopLowering(Protocol):
    """The target's part of code generation: all that is not scalar code."""

    def head(self, name: str, words: int) -> str:
        """The first line of the function; its frame `%frame` has `words` words."""

    def local(self, to: Emitter, buffer: Buffer) -> str:
        """The address of a buffer in scratch or shared memory, which the frame does not contain."""

    def readable(self, to: Emitter, buffer: Buffer, start: str) -> str:
        """The address of a readable first element for loads beside a condition; the buffer at `start` may be
        empty."""

    def write(self, to: Emitter, stmt: Stmt) -> bool:
        """Write `stmt` in the target's own form and return True; False if it has none. The kernel's own loop
        is a PARALLEL one, of which the target writes the iterations of one call."""


@dataclass(slots=True)
class Emitter:
    """Writes the statements of one function."""

    values: Values
    lowering: LoopLowering

    def function(self, kernel: Kernel, name: str) -> Function:
        """The complete function, from entry to return."""
        v = self.values
        touched = buffers_in_order(kernel)
        # Tables never move against each other, so that one address serves all and leaves registers free.
        tables = [b for b in touched if b.space is Space.TABLE]
        anchor = next((b for b in tables if always_le(1, b.size)), None)
        away = [b for b in tables if anchor is not None and b is not anchor]
        frame = [b for b in touched if b.space not in LOCAL and b not in away]
        v.own = _both(kernel) - {b.name for b in touched if b.space in LOCAL}
        for buffer in (*frame, *(b for b in touched if b not in frame)):
            self._base(buffer, frame, anchor)
        checked = () if v.checks is None else touched
        for word, buffer in enumerate(checked, abi.FIRST_BINDING + len(frame)):
            v.checks.begin(buffer, word) if v.checks is not None else None
        self.block((For(kernel.var, Loop.PARALLEL, kernel.body),))
        entry, first = v.out.scopes.stack[0], abi.FIRST_BINDING + len(frame) + len(checked)
        layout = Frame(tuple(frame), tuple(v.slots), checked, v.checks is not None)
        head = [
            self.lowering.head(name, first + len(v.slots) + layout.own),
            "entry:",
            f"  %slots = getelementptr i64, ptr %frame, i64 {first}",
            *(() if v.checks is None else v.checks.head(len(v.slots))),
        ]
        text = "\n".join(head + v.allocas + entry.lines + ["  ret void", "}"])
        return Function(text, frozenset(v.out.declared), layout)

    def _base(self, buffer: Buffer, frame: Sequence[Buffer], anchor: Buffer | None) -> None:
        """Write the address of a buffer: from the frame, relative to the table `anchor`, or in the target's
        local memory."""
        v, entry = self.values, self.values.out.scopes.stack[0]
        if buffer.space in LOCAL:
            start = self.lowering.local(self, buffer)
        elif anchor is not None and buffer not in frame:
            away = v.dim(add(buffer.offset, mul(-1, anchor.offset)))
            start = v.out.put(entry, f"getelementptr i8, ptr {v.pointers[anchor]}, i64 {away}", "b")
        else:
            number = abi.FIRST_BINDING + frame.index(buffer)
            word = v.out.put(entry, f"getelementptr i64, ptr %frame, i64 {number}")
            start = v.out.put(entry, f"load ptr, ptr {word}, !invariant.load !0", "b")
        if not always_le(1, buffer.size):
            start = self.lowering.readable(self, buffer, start)
        v.pointers[buffer] = start

    # ---- statements ---------------------------------------------------------------------------

    def block(self, body: Iterable[Stmt]) -> None:
        """Write statements in order into the innermost scope."""
        for stmt in body:
            if not self.lowering.write(self, stmt):
                self._scalar(stmt)

    def _scalar(self, stmt: Stmt) -> None:
        """A statement as code of one turn after the other."""
        match stmt:
            case For(var=var, kind=Loop.UNROLL, body=inner):
                self.unrolled(var, inner)
            case For(var=var, body=inner):
                assert var.extent is not None, f"loop {var} has no extent"
                self.counted(var, "0", self.values.dim(var.extent), inner)
            case If(condition=condition, body=inner):
                self._branch(condition, inner)
            case Let(var=var, value=value):
                scope = self.values.out.scopes.inner
                scope.syms[var] = self.values.dim(value)
            case Alloc():
                allocate(self.values, stmt, 1, self.values.scalar)
            case Store(buffer=buffer) if buffer.space is Space.REGISTER:
                keep(self.values, stmt, self.values.scalar)
            case Store():
                self._store(stmt)
            case Fold():
                fold(self.values, stmt, self.values.scalar)
            case Fetch():  # nothing depends on it
                pass
            case _:
                raise AssertionError(f"{type(stmt).__name__} has no scalar form")

    def counted(self, var: Sym, first: str, end: str, body: tuple[Stmt, ...]) -> None:
        """A scalar loop, first … end − 1, entered only if it has an iteration."""
        i = f"%{self.values.out.scopes.name('i')}"
        scope = Scope(syms={var: i}, changes=changes_of(body))
        self.turns(i, first, end, scope, lambda: self.block(body))

    def turns(self, i: str, first: str, end: str, scope: Scope, write: Callable[[], None]) -> None:
        """A loop with counter `i` around what `write` puts into `scope`."""
        v = self.values
        head, done = v.out.scopes.name("loop"), v.out.scopes.name("done")
        after = f"%{v.out.scopes.name('i')}"
        before = v.out.scopes.name("pre")
        outer = v.out.scopes.inner
        inner = v.out.scopes.open(scope)
        write()
        last = v.out.scopes.name("end")
        v.out.scopes.stack.pop()
        enter = v.out.put(outer, f"icmp slt i64 {first}, {end}")
        outer.lines += [
            f"  br i1 {enter}, label %{before}, label %{done}",
            f"{before}:",
            f"  br label %{head}",
            f"{head}:",
            f"  {i} = phi i64 [{first}, %{before}], [{after}, %{last}]",
            *inner.lines,
            f"  br label %{last}",
            f"{last}:",
            f"  {after} = add nuw nsw i64 {i}, 1",
        ]
        again = v.out.put(outer, f"icmp slt i64 {after}, {end}")
        outer.lines += [f"  br i1 {again}, label %{head}, label %{done}", f"{done}:"]

    def unrolled(self, var: Sym, body: tuple[Stmt, ...]) -> None:
        """The body once for each turn."""
        assert isinstance(var.extent, int), f"unrolled loop {var} needs a fixed extent"
        scopes = self.values.out.scopes
        outer = scopes.inner
        for i in range(var.extent):
            inner = scopes.open(Scope(syms={var: str(i)}, changes=changes_of(body)))
            self.block(body)
            scopes.stack.pop()
            outer.lines += inner.lines

    def _branch(self, condition: Expr, body: tuple[Stmt, ...]) -> None:
        out, flag = self.values.out, self.values.scalar(condition)
        inner = out.scopes.open(Scope(changes=changes_of(body)))
        self.block(body)
        out.scopes.stack.pop()
        out.guarded(out.scopes.inner, flag, inner.lines)

    def _store(self, stmt: Store) -> None:
        v, scope = self.values, self.values.out.scopes.inner
        buffer, type = stmt.buffer, stmt.buffer.stored
        assert stmt.value.type is type, f"storing {stmt.value.type} into {buffer.name}, which holds {type}"
        value = v.scalar(stmt.value)
        v.changed(buffer.name)
        where = v.place(scope, buffer, v.dim(stmt.index), writes=True)
        scope.lines.append(f"  store {ll.NAMES[type]} {value}, ptr {where}, align {ll.BYTES[type]}")


def _both(kernel: Kernel) -> frozenset[str]:
    """Names of the buffers that a kernel reads and writes."""
    written = {s.buffer for s in stores(kernel.body)}
    read = (x.buffer for x in loads(expressions(kernel.body)))
    return frozenset(b.name for b in read if b in written)
