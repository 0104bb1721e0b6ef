"""One walk and one rewrite for the parts of kernels: statements, expressions, and the values of bound symbols
in indices.

    >>> from anyrt.ir.buffer import Buffer, Scalar, Space
    >>> x = Buffer("x", Scalar.F32, Space.INPUT, 8)
    >>> i, j = Sym("i", extent=8), Sym("j", extent=8)
    >>> value = load(x, i.dim) * load(x, i.dim) + 1.0
    >>> parts([value])
    [add(mul(x[i], x[i]), 1.0), 1.0, mul(x[i], x[i]), x[i]]
    >>> Rewrite({i: j.dim}).expr(value)
    add(mul(x[j], x[j]), 1.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from anyrt.core.dims import Dim, Sym
from anyrt.core.dimvalues import rebuild
from anyrt.ir.buffer import Buffer
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
    Let,
    Load,
    MultiReduction,
    Op,
    Stmt,
    Store,
    alu,
    bitcast,
    bound,
    cast,
    free_symbols,
    index,
    load,
    operands,
)

Access: TypeAlias = Callable[[Buffer, Dim], tuple[Buffer, Dim]]


def statements(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Every statement, each before its nested ones."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, For | If):
            yield from statements(stmt.body)


def held(stmt: Stmt) -> tuple[Expr | Dim, ...]:
    """The expressions and indices of a statement itself."""
    match stmt:
        case For(var=var):
            return () if var.extent is None else (var.extent,)
        case If(condition=condition):
            return (condition,)
        case Let(value=value) | Alloc(value=value) | Fold(value=value, index=0):
            return (value,)
        case Store(index=at, value=value) | Fold(index=at, value=value):
            return (at, value)
        case MultiReduction(step=step, neutral=neutral, merge=merge):
            return (*step, *neutral, *merge)
        case Fetch(index=at):
            return (at,)
        case Barrier():
            return ()


def written(stmt: Stmt) -> tuple[Buffer, ...]:
    """The buffers that a statement itself writes."""
    match stmt:
        case Alloc(buffer=buffer) | Store(buffer=buffer) | Fold(buffer=buffer):
            return (buffer,)
        case MultiReduction(buffers=buffers):
            return buffers
        case _:
            return ()


def parts(roots: Iterable[Expr], bound: bool = True) -> list[Expr]:
    """Every expression below `roots`, each once, in the same order in every run; with or without the values
    of `bound` symbols."""
    seen: dict[Expr, None] = {}
    todo = list(roots)
    while todo:
        x = todo.pop()
        if x not in seen:
            seen[x] = None
            todo += operands(x) or (behind(x) if bound else ())
    return list(seen)


def loads(roots: Iterable[Expr], bound: bool = True) -> list[Load]:
    """Every load among the parts of `roots`."""
    return [x for x in parts(roots, bound) if isinstance(x, Load)]


def behind(x: Expr) -> tuple[Expr, ...]:
    """The values of the bound symbols in an index."""
    sources = (s.source for s in sorted(free_symbols(x), key=lambda s: s.name))
    return tuple(s for s in sources if isinstance(s, Index | Load | Alu | Cast))


def _as_it_is(buffer: Buffer, at: Dim) -> tuple[Buffer, Dim]:
    return buffer, at


def _no_rule(x: Expr) -> None:
    return None


def _same(x: Dim) -> Dim:
    return x


@dataclass(slots=True, eq=False)
class Rewrite:
    """Statements and expressions rebuilt, each expression once.

    `symbols`: indices that replace symbols; `access`: the element that replaces a load or store; `rule`: the
    replacement of an expression, None to rebuild it on new operands; `simpler`: another form of an index,
    before its symbols are replaced. Without `bound`, indices and the values of their bound symbols are
    unchanged."""

    symbols: Mapping[Sym, Dim] = field(default_factory=dict)
    access: Access = _as_it_is
    rule: Callable[[Expr], Expr | None] = _no_rule
    simpler: Callable[[Dim], Dim] = _same
    bound: bool = True
    _exprs: dict[Expr, Expr] = field(default_factory=dict)
    _dims: dict[Dim, Dim] = field(default_factory=dict)

    def body(self, body: Iterable[Stmt]) -> tuple[Stmt, ...]:
        """Statements in order."""
        return tuple(map(self.stmt, body))

    def stmt(self, stmt: Stmt) -> Stmt:
        """A statement with those that it holds."""
        match stmt:
            case For(var=var, body=body):
                return replace(stmt, var=self._variable(var), body=self.body(body))
            case If(condition=condition, body=body):
                return replace(stmt, condition=self.expr(condition), body=self.body(body))
            case Let(value=dim):
                return replace(stmt, value=self.dim(dim))
            case Alloc(buffer=buffer, value=value):
                return Alloc(self.access(buffer, 0)[0], self.expr(value))
            case Store(value=value) | Fold(value=value):
                buffer, at = self.access(stmt.buffer, self.dim(stmt.index))
                return replace(stmt, buffer=buffer, index=at, value=self.expr(value))
            case MultiReduction():
                return self._multi_reduction(stmt)
            case Fetch():
                return Fetch(*self.access(stmt.buffer, self.dim(stmt.index)), stmt.nearest)
            case Barrier():
                return stmt

    def _multi_reduction(self, stmt: MultiReduction) -> MultiReduction:
        step, neutral, merge = (tuple(map(self.expr, some)) for some in (stmt.step, stmt.neutral, stmt.merge))
        buffers, others = (tuple(self.access(b, 0)[0] for b in some) for some in (stmt.buffers, stmt.others))
        return MultiReduction(buffers, step, neutral, others, merge)

    def _variable(self, var: Sym) -> Sym:
        """A loop's variable, a new one if its extent changes."""
        if not self.bound:
            return var
        new = replace(var, extent=self.dim(var.extent or 0))
        if new != var:
            self.symbols = {**self.symbols, var: new.dim}
        return new

    def expr(self, x: Expr) -> Expr:
        """An expression; operands first, with a stack of our own, since fused expressions are deeper than
        Python recurses."""
        todo = [x]
        while todo:
            top = todo[-1]
            new = self._exprs.get(top) or self.rule(top)
            missing = [] if new is not None else [a for a in operands(top) if a not in self._exprs]
            if missing:
                todo += reversed(missing)
                continue
            self._exprs[top] = self._on_new(top) if new is None else new
            todo.pop()
        return self._exprs[x]

    def _on_new(self, x: Expr) -> Expr:
        match x:
            case Const():
                return x
            case Index(dim=dim):
                return index(self.dim(dim))
            case Load(buffer=buffer, index=at, word=word):
                return load(*self.access(buffer, self.dim(at)), word)
            case Cast(arg=arg, type=type):
                return cast(self._exprs[arg], type)
            case Alu(op=Op.BITCAST, args=(arg,), type=type):
                return bitcast(self._exprs[arg], type)
            case Alu(op=op, args=args):
                return alu(op, *(self._exprs[a] for a in args))

    def dim(self, x: Dim) -> Dim:
        """An index."""
        if not self.bound:
            return x
        if x not in self._dims:
            self._dims[x] = rebuild(self.simpler(x), self._symbol)
        return self._dims[x]

    def _symbol(self, sym: Sym) -> Dim:
        if sym in self.symbols:
            return self.symbols[sym]
        if not isinstance(sym.source, Const | Index | Load | Alu | Cast):
            return sym.dim
        new = self.expr(sym.source)
        if new is sym.source:
            return sym.dim
        extent = None if sym.extent is None else self.dim(sym.extent)
        return bound(new, sym.lo, sym.hi, sym.name.partition("{")[0], extent)


def substituted(
    body: Iterable[Stmt], values: Mapping[Sym, Dim], buffers: Mapping[Buffer, Buffer] | None = None
) -> tuple[Stmt, ...]:
    """Statements with symbols (and buffers) replaced, those behind bound symbols too."""
    swap = buffers or {}
    return Rewrite(values, lambda buffer, at: (swap.get(buffer, buffer), at)).body(body)
