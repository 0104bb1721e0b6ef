"""Canonical form: equal for kernels that differ only in names.

Variables of each kind of loop are numbered in the order of their declarations, buffers of each kind in the
order of first use. Terms of an index are sorted by these names. LLVM text is therefore generated from the
canonical kernel and may add the terms of addresses in another order than the text that a build compiles.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from anyrt.core.dims import Dim, Sym
from anyrt.ir.buffer import Buffer
from anyrt.ir.kernel import For, If, Kernel, Let, Stmt
from anyrt.ir.visit import Rewrite

_LOCAL: Final = re.compile(r'"[^"\n]*"|%[-\w.$]+|^[-\w.$]+(?=:)', re.M)


def canonical_kernel(kernel: Kernel) -> Kernel:
    """The same loops with canonical names."""
    names = _Names()
    var = names.variable(kernel.var, "item", {})
    body = tuple(names.body(kernel.body, {kernel.var: var.dim}))
    return Kernel("kernel", var, body, kernel.work, kernel.scratch, kernel.shared)


class _Names:
    """Names by first use; a variable that is declared again gets another one."""

    def __init__(self) -> None:
        self.counts, self.buffers = Counter[str](), dict[Buffer, Buffer]()

    def next(self, kind: str) -> str:
        """The next name of a kind."""
        self.counts[kind] += 1
        return f"{kind}{self.counts[kind]:03}"

    def variable(self, var: Sym, kind: str, symbols: Mapping[Sym, Dim]) -> Sym:
        """A variable under its new name."""
        extent = None if var.extent is None else Rewrite(symbols, self.access).dim(var.extent)
        return replace(var, name=self.next(kind), extent=extent)

    def body(self, body: Iterable[Stmt], symbols: Mapping[Sym, Dim]) -> Iterator[Stmt]:
        """Statements in order, and those in loops with the loops' variables."""
        known = Rewrite(symbols, self.access)
        for stmt in body:
            match stmt:
                case For(var=var, kind=kind, body=inner):
                    new = self.variable(var, kind.value, symbols)
                    yield replace(stmt, var=new, body=tuple(self.body(inner, {**symbols, var: new.dim})))
                case If(condition=condition, body=inner):
                    yield If(known.expr(condition), tuple(self.body(inner, symbols)))
                case Let(var=var, value=value):
                    new = self.variable(var, "let", symbols)
                    yield Let(new, known.dim(value))
                    symbols = {**symbols, var: new.dim}
                    known = Rewrite(symbols, self.access)
                case _:
                    yield known.stmt(stmt)

    def access(self, buffer: Buffer, at: Dim) -> tuple[Buffer, Dim]:
        """The same element of the buffer's new name."""
        return self.buffer(buffer), at

    def buffer(self, old: Buffer) -> Buffer:
        """A buffer under its new name."""
        if old not in self.buffers:
            tables = old.addresses
            if tables is not None:
                starts, offsets = self.buffer(tables.starts), self.buffer(tables.offsets)
                tables = replace(tables, starts=starts, offsets=offsets)
            self.buffers[old] = replace(old, name=self.next(f"{old.space.value}_"), addresses=tables)
        return self.buffers[old]


def canonical_llvm(text: str) -> str:
    """LLVM text with its local names numbered by first use.

    >>> canonical_llvm("a7:\\n  %x9 = add i64 %y, 1\\n  br label %a7")
    '0:\\n  %1 = add i64 %2, 1\\n  br label %0'
    """
    numbers = dict[str, int]()

    def local(match: re.Match[str]) -> str:
        word = match[0]
        if word.startswith('"'):
            return word
        number = numbers.setdefault(word.removeprefix("%"), len(numbers))
        return f"%{number}" if word.startswith("%") else str(number)

    return _LOCAL.sub(local, text)
