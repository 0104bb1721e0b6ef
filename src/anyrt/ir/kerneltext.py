"""Kernels printed as text, for users and tests; ir/kernelread.py parses it back to equal kernels.

    buffer x FLOAT input 8*n offset 0
    kernel "square" i 0.. < n work 1000 scratch 0 {
      for vector j 0.. < 8 {
        e0 = add(x[8*i + j], 1.0:f32)
        store y[8*i + j] = mul(e0, e0)
      }
    }

The line of a buffer applies to the kernels below it, up to another one of the same name. `e0 = …` names an
expression that is used more than once or is deep; `bound v0 …` names a value that indices use. Both are only
notation: the parsed kernel shares the expression like the printed one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Final

from anyrt.core.dims import Dim, Sym, symbols
from anyrt.core.dimtext import print_dim, print_name
from anyrt.ir.buffer import Buffer, Scalar
from anyrt.ir.kernel import (
    Alloc,
    Alu,
    Barrier,
    Cast,
    Const,
    Expr,
    Fetch,
    Fold,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    MultiReduction,
    Op,
    Stmt,
    Store,
    operands,
)
from anyrt.ir.text import in_order, size_text, symbol_text
from anyrt.ir.visit import held, statements

MAX_NESTED: Final = 8  # deeper expressions get names
Node = Const | Index | Load | Alu | Cast


def print_kernels(kernels: Iterable[Kernel]) -> str:
    """`kernels` as text. If they use one name for several buffers, each is declared where it is used
    first."""
    parts = [_Printer(k) for k in kernels]
    texts = [p.kernel() for p in parts]
    buffers = {b for p in parts for b in p.buffers}
    names = Counter(b.name for b in buffers)
    own = {b for b in buffers if names[b.name] > 1}
    own |= {b for b in buffers if b.addresses is not None and own & {b.addresses.starts, b.addresses.offsets}}
    placed = {s for b in buffers for s in symbols(b.size) | symbols(b.offset) | symbols(b.nontemporal)}
    sizes = in_order(placed.union(*(p.sizes for p in parts)))
    lines = [f"symbol {size_text(s)}" for s in sizes]
    lines += _declared(buffers - own)
    last: dict[str, Buffer] = {}  # of several of one name
    for part, text in zip(parts, texts, strict=True):
        lines += [*_declared(b for b in part.buffers & own if last.get(b.name) != b), text]
        last |= {b.name: b for b in part.buffers & own}
    return "\n".join(lines) + "\n"


def _declared(buffers: Iterable[Buffer]) -> list[str]:
    """Lines for buffers; tables that others refer to come first."""
    return [_buffer_text(b) for b in sorted(buffers, key=lambda b: (b.addresses is not None, b.name))]


def _buffer_text(b: Buffer) -> str:
    kind = b.type.value if isinstance(b.type, Scalar) else b.type.name
    where = f"{b.space.value} {print_dim(b.size)} offset {print_dim(b.offset)}"
    known = (f" slope {b.slope}" if b.slope else "") + (f" group {b.group}" if b.group != 1 else "")
    if b.addresses is not None:
        starts, offsets = print_name(b.addresses.starts.name), print_name(b.addresses.offsets.name)
        known += (
            f" addresses {starts} {offsets} taps {b.addresses.taps} length {print_dim(b.addresses.length)}"
        )
    hints = known + (f" nontemporal {print_dim(b.nontemporal)}" if b.nontemporal != 0 else "")
    hints += (" padded" if b.padded else "") + (" coded" if b.coded else "")
    return f"buffer {print_name(b.name)} {kind} {where}{hints}"


def _children(x: Expr | Dim) -> list[Expr | Dim]:
    """Operands, indices, and the sources of the values that an index uses."""
    match x:
        case Index(dim=dim) | Load(index=dim):
            return [dim]
        case Const() | Alu() | Cast():
            return list(operands(x))
    return [s.source for s in sorted(symbols(x), key=lambda s: s.name) if isinstance(s.source, Node)]


class _Printer:
    """The text of one kernel; collects the sizes and buffers that it meets."""

    def __init__(self, whole: Kernel) -> None:
        self.whole = whole
        self.sizes: set[Sym] = set()
        self.buffers: set[Buffer] = set()
        self.lines: list[str] = []
        self.texts: dict[Expr, str] = {}
        self.depths: dict[Expr, int] = {}
        self.bounds: dict[Sym, str] = {}
        self.scope: set[Sym] = set()
        self.indent = 1
        self.named = self.bound = 0  # names so far
        self.uses = self._uses()

    def _uses(self) -> Counter[Expr]:
        uses: Counter[Expr] = Counter()
        todo = [x for s in statements(self.whole.body) for x in held(s)]
        while todo:
            x = todo.pop()
            if not isinstance(x, Node):
                todo += _children(x)
                continue
            uses[x] += 1
            if uses[x] == 1:
                todo += _children(x)
        return uses

    def kernel(self) -> str:
        whole = self.whole
        head = f"kernel {json.dumps(whole.name)} {self.variable(whole.var)}"
        rest = f"work {self.dim(whole.work)} scratch {self.dim(whole.scratch)}"
        rest += "" if whole.shared == 0 else f" shared {self.dim(whole.shared)}"
        self.body(whole.body)
        return "\n".join([f"{head} {rest} {{", *self.lines, "}"])

    def variable(self, var: Sym) -> str:
        extent = "" if var.extent is None else f" < {self.dim(var.extent)}"
        taken = {s.name for s in self.scope}
        assert var.name not in taken, f"two variables are named {var.name}"
        self.scope.add(var)
        return f"{symbol_text(var)}{extent}"

    def body(self, body: Iterable[Stmt]) -> None:
        before, named, bounded = set(self.scope), len(self.texts), len(self.bounds)
        for stmt in body:
            self.statement(stmt)
        self.scope = before
        # Names of a block are unknown behind it: a dictionary removes its last entries first.
        while len(self.texts) > named:
            self.texts.popitem()
        while len(self.bounds) > bounded:
            self.bounds.popitem()

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case For(var=var, kind=kind, body=body, registers=registers, intrinsic=name):
                several, by = f"*{registers}" * (registers != 1), f" by {print_name(name)}" if name else ""
                self.block(f"for {kind.value}{several} {self.variable(var)}{by}", body)
                self.scope.discard(var)
            case If(condition=condition, body=body):
                self.block(f"if {self.expr(condition)}", body)
            case Let(var=var, value=dim):
                value = self.dim(dim)
                self.line(f"let {self.variable(var)} = {value}")
            case Alloc(buffer=buffer, value=start):
                self.line(f"alloc {self.buffer(buffer)} = {self.expr(start)}")
            case Store(buffer=buffer, index=at, value=stored):
                self.line(f"store {self.buffer(buffer)}[{self.dim(at)}] = {self.expr(stored)}")
            case Fold(buffer=buffer, op=op, value=folded, index=at):
                element = "" if at == 0 and buffer.size == 1 else f"[{self.dim(at)}]"
                self.line(f"fold {self.buffer(buffer)}{element} {op.value} {self.expr(folded)}")
            case MultiReduction():
                self.line(self.multi_reduction(stmt))
            case Fetch(buffer=buffer, index=at, nearest=nearest):
                self.line(f"fetch {self.buffer(buffer)}[{self.dim(at)}]{' nearest' if nearest else ''}")
            case Barrier():
                self.line("barrier")

    def multi_reduction(self, stmt: MultiReduction) -> str:
        into, other = (", ".join(map(self.buffer, b)) for b in (stmt.buffers, stmt.others))
        step, neutral, merge = (", ".join(map(self.expr, e)) for e in (stmt.step, stmt.neutral, stmt.merge))
        return f"fold ({into}) step ({step}) from ({neutral}) merge ({other}) ({merge})"

    def block(self, head: str, body: Iterable[Stmt]) -> None:
        self.line(f"{head} {{")
        self.indent += 1
        self.body(body)
        self.indent -= 1
        self.line("}")

    def line(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    def buffer(self, b: Buffer) -> str:
        self.buffers.add(b)
        if b.addresses is not None:
            self.buffers |= {b.addresses.starts, b.addresses.offsets}
        return print_name(b.name)

    def dim(self, x: Dim) -> str:
        for source in _children(x):
            assert isinstance(source, Node), f"{source} is no expression"
            self.expr(source)
        return print_dim(x, self.symbol)

    def symbol(self, s: Sym) -> str:
        if not isinstance(s.source, Node):
            if s not in self.scope:
                self.sizes.add(s)
            return print_name(s.name)
        if s not in self.bounds:
            self.bounds[s] = f"v.{self.bound}"
            self.bound += 1
            prefix = s.name.partition("{")[0]
            below = "" if s.extent is None else f" below {self.dim(s.extent)}"
            self.line(f"bound {self.bounds[s]} {prefix} {s.lo}..{s.hi}{below} = {self.expr(s.source)}")
        return self.bounds[s]

    def expr(self, x: Expr) -> str:
        """Operands first, so that the recursion of an expression never goes deep."""
        todo: list[Expr | Dim] = [x]
        while todo:
            top = todo[-1]
            missing = [c for c in self._operands(top) if c not in self.texts]
            if missing:
                todo += missing
                continue
            todo.pop()
            if isinstance(top, Node) and top not in self.texts:
                self.define(top)
        return self.texts[x]

    def _operands(self, x: Expr | Dim) -> list[Expr]:
        inner = _children(x)
        if isinstance(x, Index | Load):
            inner = [c for d in inner for c in _children(d)]
        return [c for c in inner if isinstance(c, Node)]

    def define(self, x: Expr) -> None:
        text, depth = self.written(x), 1 + max((self.depths[c] for c in self._operands(x)), default=0)
        if isinstance(x, Alu | Cast) and (self.uses[x] > 1 or depth >= MAX_NESTED):
            name, depth = f"e{self.named}", 0
            self.named += 1
            self.line(f"{name} = {text}")
            text = name
        self.texts[x], self.depths[x] = text, depth

    def written(self, x: Expr) -> str:
        match x:
            case Const(value=value, type=type):
                return f"{value!r}:{type.value}"
            case Index(dim=dim):
                return f"index({print_dim(dim, self.symbol)})"
            case Load(buffer=buffer, index=dim, word=word):
                element = f"{self.buffer(buffer)}[{print_dim(dim, self.symbol)}]"
                return f"word({element})" if word else element
            case Cast(arg=arg, type=type):
                return f"{type.value}({self.texts[arg]})"
            case Alu(op=op, args=args, type=type):
                name = f"{op.value}.{type.value}" if op is Op.BITCAST else op.value
                return f"{name}({', '.join(self.texts[a] for a in args)})"
