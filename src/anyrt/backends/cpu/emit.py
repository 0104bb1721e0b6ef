"""Kernels as functions for processors with vector registers.

define void @kernel(ptr %frame, i64 %begin, i64 %end, ptr %scratch)
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import TypeVar

from anyrt.backends.cpu import matrix, mmla
from anyrt.backends.cpu.instructions import CpuInstructions
from anyrt.backends.cpu.stores import fetch, store
from anyrt.backends.cpu.tiles import write_tile
from anyrt.backends.cpu.vectors import Lanes, Vectors
from anyrt.backends.cpu.widen import VectorLoop
from anyrt.codegen import llvmtext as ll
from anyrt.codegen.checks import Checks
from anyrt.codegen.emit import NAME, Emitter, Function
from anyrt.codegen.registers import allocate, fold, keep
from anyrt.codegen.scope import Scope
from anyrt.codegen.values import Values
from anyrt.codegen.writer import Writer
from anyrt.core.dims import Sym, depends
from anyrt.core.errors import NotSupportedError
from anyrt.core.machine import Machine
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.kernel import Alloc, Fetch, Fold, For, Kernel, Let, Loop, MultiReduction, Stmt, Store
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import allocations, changes_of, folds, loops
from anyrt.ir.visit import statements

T = TypeVar("T")
FUNCTION = "void (ptr, i64, i64, ptr)"  # the type of all of them


def emit(kernel: Kernel, machine: Machine, name: str = NAME, *, checked: bool = False) -> Function:
    """`kernel` as an LLVM function, with or without checks of every access. Its text depends only on the
    kernel's loops: it contains no names of buffers and sizes."""
    _refuse(kernel)
    writer = Writer(CpuInstructions(machine))
    values = Values(writer, {}, checks=Checks(writer) if checked else None)
    marked = [s for s in loops(kernel.body) if s.intrinsic and s.kind is Loop.VECTOR and machine.has_tiles]
    heights = {_met(matrix.matrix_product(s)).rows for s in marked}
    return Emitter(values, VectorLowering(Vectors(values, machine), heights)).function(kernel, name)


@dataclass(slots=True)
class VectorLowering:
    """The state of the vector code of one function."""

    vectors: Vectors
    heights: Set[int] = frozenset()  # rows of the products in matrix tiles
    configured: bool = False  # these tiles, where the function begins

    def head(self, name: str, words: int) -> str:
        """A call executes the iterations from `begin` to `end` of the kernel's own loop."""
        return f"define void @{name}(ptr noalias %frame, i64 %begin, i64 %end, ptr noalias %scratch) #0 {{"

    def local(self, to: Emitter, buffer: Buffer) -> str:
        """A place in the thread's memory."""
        v, start = to.values, "%scratch"
        if buffer.offset == 0:
            return start
        entry = v.out.scopes.stack[0]
        return v.out.put(entry, f"getelementptr i8, ptr {start}, i64 {v.dim(buffer.offset)}", "b")

    def readable(self, to: Emitter, buffer: Buffer, start: str) -> str:
        """The frame, which is always valid memory, in place of an empty buffer."""
        v, entry = to.values, to.values.out.scopes.stack[0]
        some = v.out.put(entry, f"icmp sgt i64 {v.dim(buffer.size)}, 0")
        return v.out.put(entry, f"select i1 {some}, ptr {start}, ptr %frame", "b")

    def write(self, to: Emitter, stmt: Stmt) -> bool:
        """Vector loops, their bodies, and the kernel's own loop."""
        lanes = self.vectors.lanes
        match stmt:
            case For(kind=Loop.PARALLEL):
                self._share(to, stmt)
            case For(intrinsic=matrix.CHAINED) if self.vectors.machine.has_tiles:
                self._chain(to, _met(matrix.Chain.of(stmt)))
            case For(kind=Loop.VECTOR, intrinsic=name) if name and self.vectors.machine.has_tiles:
                self._product(to, _met(matrix.matrix_product(stmt)))
            case For(kind=Loop.VECTOR, intrinsic=name) if mmla.has(name, self.vectors.machine):
                mmla.write(to.values, _met(mmla.mmla_product(stmt)))
            case For(kind=Loop.VECTOR):
                VectorLoop(self.vectors, to.block, stmt).emit()
            case _:
                return lanes is not None and self._within(to, stmt, lanes)
        return True

    def _chain(self, to: Emitter, c: matrix.Chain) -> None:
        """Each product with the epilogue of the one before, which keeps no tiles waiting; the last epilogue
        after them."""
        v, var = to.values, c.var
        turns = v.dim(var.extent or 0)
        now = f"%{v.out.scopes.name('i')}"

        def before(word: str) -> None:
            outer = v.out.scopes.inner
            some = v.out.put(outer, f"icmp sgt i64 {now}, 0")
            last = v.out.put(outer, f"add i64 {now}, -1")
            place = v.out.put(outer, f"select i1 {some}, i64 {last}, i64 0")
            inner = v.out.scopes.open(Scope(syms={var: place}, changes=changes_of((c.then,))))
            first, end = c.share(v, inner, word)
            there = v.out.put(inner, f"select i1 {some}, i64 {v.dim(c.then.var.extent or 0)}, i64 0")
            own = v.out.call(inner, "i64", "llvm.smin.i64", [("i64", end), ("i64", there)])
            to.counted(c.then.var, first, own, c.then.body)
            v.out.scopes.stack.pop()
            outer.lines += inner.lines

        scope = Scope(syms={var: now}, changes=changes_of(c.loop.body))

        def turn() -> None:
            self._product(to, c.product, before)
            to.block(c.after)

        to.turns(now, "0", turns, scope, turn)
        entry = v.out.scopes.inner
        most = v.out.put(entry, f"add i64 {turns}, -1")
        first = v.out.call(entry, "i64", "llvm.smax.i64", [("i64", most), ("i64", "0")])
        to.counted(var, first, turns, (c.then,))

    def _product(
        self, to: Emitter, p: matrix.MatrixProduct, between: Callable[[str], None] = lambda word: None
    ) -> None:
        """Products of one height use the configured tiles, those of several configure them."""
        scopes = to.values.out.scopes
        if len(self.heights) > 1 or not self.configured:
            matrix.configure(to.values, scopes.inner if len(self.heights) > 1 else scopes.stack[0], p)
        self.configured = True
        matrix.write(to.values, p, between)

    def _share(self, to: Emitter, loop: For) -> None:
        """The iterations of one call; its non-temporal stores are visible to others when it ends."""
        to.counted(loop.var, "%begin", "%end", loop.body)
        if any(b.nontemporal != 0 for b in to.values.pointers):
            to.values.out.scopes.inner.lines.append("  fence seq_cst")
        if self.configured:
            matrix.release(to.values)

    def _within(self, to: Emitter, stmt: Stmt, lanes: Lanes) -> bool:
        """A statement in a vector loop; False for one that all lanes execute alike."""
        v = self.vectors
        match stmt:
            case For(kind=Loop.TILE):
                write_tile(to, v, stmt, lanes)
            case Alloc():
                allocate(v.values, stmt, lanes.width, v.value)
            case Store(buffer=buffer) if buffer.space is Space.REGISTER:
                keep(v.values, stmt, v.value)
            case Store():
                store(v, stmt, lanes)
            case Fold():
                self._fold(stmt, lanes)
            case Fetch():
                fetch(v, stmt, lanes)
            case _:
                return False
        return True

    def _fold(self, stmt: Fold, lanes: Lanes) -> None:
        """Masked lanes keep their value if lanes are combined to one number; otherwise nothing reads them.

        LLVM 22 merges a multiply-add, the masked load that it reads and a selection between its result and
        zeros to an instruction with `{z}`, and then splits it again into an instruction and a load without a
        mask, which reads behind a tensor (x86 with AVX-512). Joined sums begin with -0.0, which is no such
        zero.
        """
        out, register = self.vectors.out, self.vectors.values.registers[stmt.buffer.name]
        width, kind = register.lanes, ll.vector(stmt.buffer.stored, register.lanes)

        def masked(new: str, old: str) -> str:
            if lanes.mask is None or not register.joined:
                return new
            return out.put(
                out.scopes.inner, f"select <{width} x i1> {lanes.mask}, {kind} {new}, {kind} {old}"
            )

        fold(self.vectors.values, stmt, self.vectors.value, masked)


def _met(outcome: T | Fail) -> T:
    """The intrinsic of a loop that is marked with one."""
    assert not isinstance(outcome, Fail), f"a loop for an intrinsic differs from its text: {outcome.reason}"
    return outcome


def _refuse(kernel: Kernel) -> None:
    """Raises for the first statement that this file cannot write as LLVM text."""
    for unsupported in filter(None, map(_unwritten, statements(kernel.body))):
        raise NotSupportedError(
            "AR901", f"kernel {kernel.name}", got=unsupported, wanted="a statement that this backend compiles"
        )


def _unwritten(stmt: Stmt) -> str | None:
    match stmt:
        case For(var=var, body=body, registers=registers) if registers > 1 and _folds_outside(body):
            return f"loop {var}, which folds vectors of {registers} registers"
        case For(var=var, kind=Loop.VECTOR, body=body):
            return next(filter(None, (_in_lanes(s, var) for s in statements(body))), None)
        case For(var=var, kind=Loop.BLOCK | Loop.THREAD as kind):
            return f"{kind.value} loop {var}"
        case MultiReduction():
            return "a fold of several registers at once"
        case _:
            return None


def _folds_outside(body: tuple[Stmt, ...]) -> bool:
    """True if an accumulator is folded that is initialized before the loop."""
    inside = {s.buffer for s in allocations(body)}
    return any(s.buffer not in inside for s in folds(body))


def _in_lanes(stmt: Stmt, var: Sym) -> str | None:
    """The lanes of a vector loop execute the same iterations of inner loops."""
    match stmt:
        case Let():
            return f"a let in vector loop {var}"
        case For(var=inner, kind=Loop.VECTOR):
            return f"vector loop {inner} in vector loop {var}"
        case For(var=inner) if depends(inner.extent or 0, var):
            return f"loop {inner} of another length in each turn of vector loop {var}"
        case _:
            return None
