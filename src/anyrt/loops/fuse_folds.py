"""Fuse two folds: sums of squares around a mean, of rows too long for the nearest cache, in one pass of
chunks.

With a and b the sums of x − k and (x − k)² over a chunk of m elements, s = a + m k its sum (Chan, Golub and
LeVeque 1979, formula 2.1, and 1983, the shifted algorithm):

    sum = Σ s        Σ (x − sum / n)² = Σ (b − a² / m) + Σ m (s / m − sum / n)²

k is the mean of the chunk before. If it is far from this one's, so that b − a² / m loses digits, the two
means are far from each other, and the last sum is as large: the error is a few units in the last place of the
whole. The first chunk, which has none before, is read twice.

Differences from k may be twice those from the mean, and their squares overflow earlier. If the result is not
finite, the row is therefore read again in two passes.

    for r: acc += x[r]                    for b: for r: part += x[4096b + r] − k; apart += (…)²
    for r: sq += (x[r] − acc / n)²   ->     sums[b] = …; …
                                          for b: acc += sums[b]; …
                                          if sq is not finite: sq = 0; for r: sq += (x[r] − acc / n)²
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from anyrt.core.dims import Dim, Sym, add, floordiv, maximum, minimum, mul
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import (
    Alloc,
    Alu,
    Cast,
    Const,
    Expr,
    Fold,
    For,
    If,
    Kernel,
    Load,
    Loop,
    Op,
    Stmt,
    Store,
    alu,
    cast,
    const,
    fma,
    index,
    load,
    select,
)
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import Rewrite, substituted
from anyrt.loops.nest import Estimate, Names, reserve

LONG = 3  # chunks, from which one pass is faster
LARGEST: Final = (2 - 2.0**-23) * 2.0**127  # of float32


def fuse_folds(kernel: Kernel, names: Names, estimate: Estimate, chunk: int) -> Kernel | Fail:
    """Every two folds of the second kind over at least `LONG` chunks of `chunk` elements in one pass;
    correct, though not fast, for rows that are short at run time."""
    pass_ = _Pass(kernel, names, estimate, chunk)
    body = pass_.statements(kernel.body)
    return replace(pass_.kernel, body=body) if pass_.pairs else Fail("no long row is folded around its mean")


@dataclass(frozen=True, slots=True)
class _Sum:
    """A register, its initial value, and the loop that adds to it."""

    register: Buffer
    start: Expr
    var: Sym
    value: Expr


def _sum(stmts: Sequence[Stmt]) -> _Sum | None:
    """The sum of two statements: the initialization of a register, and one loop that adds to it."""
    match stmts:
        case [Alloc(buffer=register, value=start), For(var=var, kind=Loop.SERIAL, body=(Fold() as fold,))]:
            if fold.buffer == register and fold.op is Op.ADD and register.type is Scalar.F32:
                return _Sum(register, start, var, fold.value)
    return None


@dataclass(slots=True)
class _Pass:
    """Finds pairs of sums, and creates one loop of each."""

    kernel: Kernel
    names: Names
    estimate: Estimate
    chunk: int
    pairs: int = 0

    def statements(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """Statements with their pairs fused."""
        out: list[Stmt] = []
        todo = list(body)
        while todo:
            both = self._around_mean(todo[:4])
            if both is not None:
                out += self._in_chunks(*both)
                todo = todo[4:]
                self.pairs += 1
                continue
            stmt = todo.pop(0)
            if isinstance(stmt, For) and stmt.kind is Loop.SERIAL:
                stmt = replace(stmt, body=self.statements(stmt.body))
            out.append(stmt)
        return tuple(out)

    def _around_mean(self, stmts: Sequence[Stmt]) -> tuple[_Sum, _Sum] | None:
        """Two long sums over one loop, if the second adds squares around the first divided by its length."""
        one, two = _sum(stmts[:2]), _sum(stmts[2:])
        if one is None or two is None or self.estimate(two.var) < LONG * self.chunk:
            return None
        value = Rewrite({one.var: two.var.dim}).expr(one.value)
        match two.value:
            case Alu(op=Op.MUL, args=(Alu(op=Op.SUB, args=(x, centre)) as d, again)) if d == again:
                if x == value and _is_mean(centre, one.register, two.var):
                    return replace(one, var=two.var, value=value), two
        return None

    def _in_chunks(self, first: _Sum, second: _Sum) -> list[Stmt]:
        names, var, size = self.names, second.var, self.chunk
        assert var.extent is not None, f"loop {var} has no extent"
        total, x = first.register, first.value
        chunks = floordiv(add(var.extent, size - 1), size)
        later, each = names.var(add(chunks, -1), "b"), names.var(chunks, "b")
        self.kernel, sums = reserve(self.kernel, names.name("sums"), Scalar.F32, maximum(1, chunks))
        head, begin, part, apart, centre, squares, anew = (
            Buffer(names.name(n), Scalar.F32, Space.REGISTER)
            for n in ("head", "begin", "part", "apart", "centre", "squares", "anew")
        )

        def sized(chunk: Dim) -> Dim:
            return minimum(size, add(var.extent or 0, mul(chunk, -size)))

        def over(chunk: Dim, *folds: tuple[Buffer, Expr]) -> tuple[Stmt, ...]:
            within = names.var(sized(chunk))
            body = [Fold(into, Op.ADD, e) for into, e in folds]
            moved = substituted(body, {var: add(mul(chunk, size), within.dim)})
            return (For(within, Loop.SERIAL, moved),)

        def over_all(into: Buffer, e: Expr) -> tuple[Stmt, ...]:
            return (For(each, Loop.SERIAL, (Fold(into, Op.ADD, e),)),)

        now, first_off, off = add(later.dim, 1), x - load(begin, 0), x - load(centre, 0)
        # a · (a / m), since a² could overflow where b does not; negative by rounding would make it NaN.
        inside = fma(load(part, 0), -(load(part, 0) / _count(sized(now))), load(apart, 0))
        turn = (
            Alloc(centre, load(sums, later.dim) / float(size)),
            *(Alloc(part, first.start), Alloc(apart, second.start)),
            *over(now, (part, off), (apart, off * off)),
            Fold(squares, Op.ADD, select(inside < 0.0, 0.0, inside)),
            Store(sums, now, fma(load(centre, 0), _count(sized(now)), load(part, 0))),
        )
        again = (
            Alloc(anew, second.start),
            For(var, Loop.SERIAL, (Fold(anew, Op.ADD, second.value),)),
            Store(sums, 0, load(anew, 0)),
        )
        is_finite = alu(Op.LE, alu(Op.ABS, load(squares, 0)), const(LARGEST, Scalar.F32))
        between = load(sums, each.dim) / _count(sized(each.dim)) - load(total, 0) / _count(var.extent)
        return [
            *(Alloc(total, first.start), Alloc(squares, second.start), Alloc(head, first.start)),
            *over(0, (head, x)),
            *(Store(sums, 0, load(head, 0)), Alloc(begin, load(head, 0) / _count(sized(0)))),
            *over(0, (squares, first_off * first_off)),
            For(later, Loop.SERIAL, turn),
            *over_all(total, load(sums, each.dim)),
            *over_all(squares, between * between * _count(sized(each.dim))),
            Store(sums, 0, load(squares, 0)),
            If(alu(Op.NOT, is_finite), again),
            Alloc(second.register, load(sums, 0)),
        ]


def _is_mean(x: Expr, register: Buffer, var: Sym) -> bool:
    match x:
        case Alu(op=Op.DIV, args=(Load(buffer=buffer), count)) if buffer == register:
            match count:
                case Const(value=value):
                    return value == var.extent
                case Cast(arg=arg):
                    return arg == index(var.extent or 0)
    return False


def _count(elements: Dim) -> Expr:
    if isinstance(elements, int):
        return const(float(elements), Scalar.F32)
    return cast(index(elements), Scalar.F32)
