"""Kernels parsed from the text that ir/kerneltext.py prints; every failure is a PlanError that names
the line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from anyrt.core.dims import Dim, Sym, as_symbol
from anyrt.core.dimtext import Reader
from anyrt.core.enums import DataType
from anyrt.core.errors import PlanError
from anyrt.ir import kernel
from anyrt.ir.buffer import BITS, Addresses, Buffer, Scalar, Space
from anyrt.ir.kernel import (
    Alloc,
    Barrier,
    Expr,
    Fetch,
    Fold,
    For,
    If,
    Intrinsic,
    Kernel,
    Let,
    Loop,
    MultiReduction,
    Op,
    Stmt,
    Store,
)
from anyrt.ir.kernelrules import kernel_faults, operand_fault
from anyrt.ir.text import read_symbol

MAX_WORD: Final = (1 << 64) - 1  # the largest literal
T = TypeVar("T")


def parse_kernels(
    text: str, where: str = "kernels", intrinsics: Iterable[Intrinsic] = ()
) -> tuple[Kernel, ...]:
    """The kernels that `print_kernels` printed; PlanError at `where` for anything else. `intrinsics`: those
    that the text may name."""
    parser = _Parser(text, where, intrinsics)
    while parser.reader.next:
        parser.member(TOP_LEVEL)(parser)
    return tuple(parser.kernels)


class _Parser:
    """Kernels that grow statement by statement."""

    def __init__(self, text: str, where: str, intrinsics: Iterable[Intrinsic]) -> None:
        self.instructions: dict[str, Op | Intrinsic] = {**OPS, **{x.name: x for x in intrinsics}}
        self.symbols: dict[str, Sym] = {}
        self.reader = Reader(text, self.symbols, where)
        self.buffers: dict[str, Buffer] = {}
        self.named: dict[str, Expr] = {}
        self.bounds: dict[str, Sym] = {}
        self.kernels: list[Kernel] = []

    def member(self, table: Mapping[str, T]) -> T:
        """The entry of `table` that the next word names."""
        if self.reader.next not in table:
            raise self.reader.error(f"one of {', '.join(table)}")
        return table[self.reader.take()]

    def size(self) -> None:
        sym = read_symbol(self.reader)
        self.symbols[sym.name] = sym

    def declare_buffer(self) -> None:
        read = self.reader
        name, kind = read.name(), self.member(ELEMENTS)
        space, size = self.member(SPACES), read.dim()
        read.expect("offset")
        offset = read.dim()
        slope = read.integer() if read.skip("slope") else 0
        group = read.integer() if read.skip("group") else 1
        addresses = self.addresses() if read.skip("addresses") else None
        nontemporal = read.dim() if read.skip("nontemporal") else 0
        hints = slope, group, addresses, nontemporal, read.skip("padded"), read.skip("coded")
        self.buffers[name] = Buffer(name, kind, space, size, offset, *hints)

    def addresses(self) -> Addresses:
        read = self.reader
        starts, offsets = self.member(self.buffers), self.member(self.buffers)
        read.expect("taps")
        taps = read.integer()
        read.expect("length")
        return Addresses(starts, offsets, taps, read.dim())

    def kernel(self) -> None:
        read, place = self.reader, self.reader.place
        self.named, self.bounds = {}, {}
        before = dict(self.symbols)
        name, var = read.string(), self.variable()
        self.symbols[var.name] = var
        read.expect("work")
        work = read.dim()
        read.expect("scratch")
        scratch = read.dim()
        shared = read.dim() if read.skip("shared") else 0
        parsed = Kernel(name, var, self.body(), work, scratch, shared)
        self.restore(before)
        fault = next(kernel_faults(parsed), None)
        if fault is not None:
            raise PlanError("AR607", place, got=fault)
        self.kernels.append(parsed)

    def restore(self, before: Mapping[str, Sym]) -> None:
        """Loop variables end with their block, bound values do not: they are only notation."""
        self.symbols.clear()
        self.symbols.update(before)
        self.symbols.update(self.bounds)

    def variable(self) -> Sym:
        sym = read_symbol(self.reader)
        return Sym(sym.name, sym.lo, sym.hi, self.reader.dim() if self.reader.skip("<") else None)

    def body(self) -> tuple[Stmt, ...]:
        before, out = dict(self.symbols), list[Stmt]()
        self.reader.enter()
        self.reader.expect("{")
        while not self.reader.skip("}"):
            stmt = self.statement()
            out += [] if stmt is None else [stmt]
        self.reader.leave()
        self.restore(before)
        return tuple(out)

    def statement(self) -> Stmt | None:
        """None for a line that only names an expression."""
        if self.reader.next in STATEMENTS:
            return STATEMENTS[self.reader.take()](self)
        name = self.reader.word()
        self.reader.expect("=")
        self.named[name] = self.expr()
        return None

    def bound(self) -> None:
        read, name, prefix, lo = self.reader, self.reader.word(), self.reader.word(), self.reader.integer()
        read.expect("..")
        hi = read.integer()
        extent = read.dim() if read.skip("below") else None
        read.expect("=")
        sym = as_symbol(kernel.bound(self.expr(), lo, hi, prefix, extent))
        assert sym is not None, f"{name} is no symbol"
        self.symbols[name] = self.bounds[name] = sym

    def loop(self) -> For:
        kind = self.member(LOOPS)
        registers = self.reader.integer() if self.reader.skip("*") else 1
        var = self.variable()
        before = dict(self.symbols)
        self.symbols[var.name] = var
        intrinsic = self.reader.name() if self.reader.skip("by") else ""
        body = self.body()
        self.restore(before)
        return For(var, kind, body, registers, intrinsic)

    def branch(self) -> If:
        return If(self.expr(), self.body())

    def let(self) -> Let:
        var = self.variable()
        self.reader.expect("=")
        value = self.reader.dim()
        self.symbols[var.name] = var
        return Let(var, value)

    def alloc(self) -> Alloc:
        buffer = self.buffer()
        self.reader.expect("=")
        return Alloc(buffer, self.expr())

    def store(self) -> Store:
        buffer, at = self.buffer(), self.subscript()
        self.reader.expect("=")
        return Store(buffer, at, self.expr())

    def fold(self) -> Fold | MultiReduction:
        if self.reader.follows("("):
            return self.multi_reduction()
        buffer = self.buffer()
        at = self.subscript() if self.reader.follows("[") else 0
        return Fold(buffer, self.member(OPS), self.expr(), at)

    def multi_reduction(self) -> MultiReduction:
        buffers = self.several(self.buffer)
        self.reader.expect("step")
        step = self.several(self.expr)
        self.reader.expect("from")
        neutral = self.several(self.expr)
        self.reader.expect("merge")
        return MultiReduction(buffers, step, neutral, self.several(self.buffer), self.several(self.expr))

    def several(self, item: Callable[[], T]) -> tuple[T, ...]:
        out: list[T] = []
        self.reader.items("(", lambda: out.append(item()), ")")
        return tuple(out)

    def fetch(self) -> Fetch:
        return Fetch(self.buffer(), self.subscript(), self.reader.skip("nearest"))

    def barrier(self) -> Barrier:
        return Barrier()

    def buffer(self) -> Buffer:
        place, name = self.reader.place, self.reader.name()
        if name not in self.buffers:
            raise PlanError("AR605", place, got=repr(name), wanted="a buffer declared above")
        return self.buffers[name]

    def subscript(self) -> Dim:
        self.reader.expect("[")
        at = self.reader.dim()
        self.reader.expect("]")
        return at

    def expr(self) -> Expr:
        read, place = self.reader, self.reader.place
        if read.next[:1] in "-0123456789" or read.next in LITERALS:
            return self.literal()
        name = read.name()
        if read.follows("["):
            return kernel.load(self.known(self.buffers, name, place), self.subscript())
        if not read.follows("("):
            return self.known(self.named, name, place)
        if name in CALLS:
            return CALLS[name](self)
        return self.applied(name, self.several(self.expr), place)

    def known(self, table: Mapping[str, T], name: str, place: str) -> T:
        if name not in table:
            raise PlanError("AR605", place, got=repr(name), wanted="a name defined above")
        return table[name]

    def literal(self) -> Expr:
        read, place = self.reader, self.reader.place
        negative = read.skip("-")
        value = read.integer(MAX_WORD) if read.next.isdecimal() else self.fraction()
        value = -value if negative else value
        read.expect(":")
        kind = self.member(SCALARS)
        if not kind.is_float and value != value // 1:
            raise PlanError("AR605", place, got=f"{value}", wanted=f"an integer for {kind.value}")
        return kernel.const(value, kind)

    def fraction(self) -> float:
        return LITERALS[self.reader.take()] if self.reader.next in LITERALS else self.reader.number()

    def word(self) -> Expr:
        self.reader.expect("(")
        load = kernel.load(self.buffer(), self.subscript(), word=True)
        self.reader.expect(")")
        return load

    def index(self) -> Expr:
        self.reader.expect("(")
        dim = self.reader.dim()
        self.reader.expect(")")
        return kernel.index(dim)

    def applied(self, name: str, args: tuple[Expr, ...], place: str) -> Expr:
        op, _, suffix = name.partition(".")
        kinds = [a.type for a in args]
        if name in SCALARS and len(args) == 1:
            return kernel.cast(args[0], SCALARS[name])
        if op not in self.instructions:
            raise PlanError("AR605", place, got=repr(name), wanted="an instruction")
        instruction = self.instructions[op]
        fault = operand_fault(instruction, kinds)
        if fault is not None:
            raise PlanError("AR607", place, got=fault)
        if instruction is not Op.BITCAST:
            return kernel.alu(instruction, *args)
        if suffix not in SCALARS or BITS[SCALARS[suffix]] != BITS[kinds[0]]:
            raise PlanError("AR607", place, got=f"{name} of {kinds[0].value}", wanted="one width")
        return kernel.bitcast(args[0], SCALARS[suffix])


SCALARS: Mapping[str, Scalar] = {s.value: s for s in Scalar}
ELEMENTS: Mapping[str, DataType | Scalar] = {**{t.name: t for t in DataType}, **SCALARS}
SPACES: Mapping[str, Space] = {s.value: s for s in Space}
LOOPS: Mapping[str, Loop] = {k.value: k for k in Loop}
OPS: Mapping[str, Op] = {op.value: op for op in Op}
LITERALS: Mapping[str, float] = {"True": True, "False": False, "inf": math.inf, "nan": math.nan}
CALLS: Mapping[str, Callable[[_Parser], Expr]] = {"index": _Parser.index, "word": _Parser.word}
TOP_LEVEL: Mapping[str, Callable[[_Parser], None]] = {
    "symbol": _Parser.size,
    "buffer": _Parser.declare_buffer,
    "kernel": _Parser.kernel,
}
STATEMENTS: Mapping[str, Callable[[_Parser], Stmt | None]] = {
    "bound": _Parser.bound,
    "for": _Parser.loop,
    "if": _Parser.branch,
    "let": _Parser.let,
    "alloc": _Parser.alloc,
    "store": _Parser.store,
    "fold": _Parser.fold,
    "fetch": _Parser.fetch,
    "barrier": _Parser.barrier,
}
