"""Sums of squares around a mean, of rows too long for the cache nearest the core, in one pass of chunks.

With a and b the sums of x − k and (x − k)² over a chunk of m elements, s = a + m k its sum (Chan, Golub and
LeVeque 1979, formula 2.1, and 1983, the shifted algorithm):

    sum = Σ s        Σ (x − sum / n)² = Σ (b − a² / m) + Σ m (s / m − sum / n)²

k is the mean of the chunk before. Where it is far from this one's, so that b − a² / m loses digits, the two
means are far from each other, and the last sum is as large: what is lost is a few units in the last place of
the whole. The first chunk, which has none before, is read twice.
"""

from __future__ import annotations

from collections.abc import Callable

from anyrt.core.dims import Dim, Sym, add, floordiv, maximum, minimum, mul
from anyrt.ir.kernel import (
    Alloc,
    Alu,
    Buffer,
    Cast,
    Const,
    Expr,
    Fold,
    For,
    Load,
    Loop,
    Op,
    Scalar,
    Space,
    Stmt,
    Store,
    cast,
    const,
    fma,
    index,
    load,
    select,
)
from anyrt.schedule.elements import Reduction
from anyrt.schedule.nest import Names, Nest, merge

CHUNK = 4096  # elements: with what they are computed from, half of a first-level cache
LONG = 3 * CHUNK

Widen = Callable[[Nest, Sym], tuple[Stmt, ...]]
Reserve = Callable[[str, Scalar, Dim], Buffer]


def around_mean(first: Reduction, second: Reduction, names: Names) -> Nest | None:
    """The one loop over what `first` sums, when `second` sums its squares around that sum by its length."""
    if (first.op, second.op, first.register.type) != (Op.ADD, Op.ADD, Scalar.F32):
        return None
    one, two = (merge(Nest(r.vars, (Fold(r.register, r.op, r.body),)), names) for r in (first, second))
    if len(one.vars) != 1 or len(two.vars) != 1:
        return None
    (a,), (b,) = one.vars, two.vars
    (plain,), (squares,) = one.replace({a: b.dim}, (b,)).body, two.body
    assert isinstance(plain, Fold), "a fold stays one"
    assert isinstance(squares, Fold), "a fold stays one"
    match squares.value:
        case Alu(op=Op.MUL, args=(Alu(op=Op.SUB, args=(x, centre)) as d, again)) if d == again:
            same = x == plain.value and _is_mean(centre, first.register, b)
            return Nest((b,), (plain,)) if same else None
    return None


def _is_mean(x: Expr, register: Buffer, var: Sym) -> bool:
    match x:
        case Alu(op=Op.DIV, args=(Load(buffer=buffer), count)) if buffer == register:
            match count:
                case Const(value=value):
                    return value == var.extent
                case Cast(arg=arg):
                    return arg == index(var.extent or 0)
    return False


def in_chunks(
    first: Reduction, second: Reduction, nest: Nest, names: Names, reserve: Reserve, widen: Widen
) -> list[Stmt]:
    """Both reductions over the loop of `nest`; right, though not fast, for rows that turn out short."""
    (var,), (fold,) = nest.vars, nest.body
    assert isinstance(fold, Fold), "a fold stays one"
    assert var.extent is not None, f"loop {var} has no extent"
    total, squares, x = first.register, second.register, fold.value
    chunks = floordiv(add(var.extent, CHUNK - 1), CHUNK)
    later, each = names.var(add(chunks, -1), "b"), names.var(chunks, "b")
    sums = reserve("sums", Scalar.F32, maximum(1, chunks))
    head, begin, part, apart, centre = (
        Buffer(names.name(n), Scalar.F32, Space.REGISTER)
        for n in ("head", "begin", "part", "apart", "centre")
    )

    def sized(chunk: Dim) -> Dim:
        return minimum(CHUNK, add(var.extent or 0, mul(chunk, -CHUNK)))

    def over(chunk: Dim, *folds: tuple[Buffer, Expr]) -> tuple[Stmt, ...]:
        within = names.var(sized(chunk))
        nest = Nest((var,), tuple(Fold(into, Op.ADD, e) for into, e in folds))
        return widen(nest.replace({var: add(mul(chunk, CHUNK), within.dim)}, (within,)), within)

    def over_all(into: Buffer, e: Expr) -> tuple[Stmt, ...]:
        return widen(Nest((each,), (Fold(into, Op.ADD, e),)), each)

    now, first_off, off = add(later.dim, 1), x - load(begin, 0), x - load(centre, 0)
    # a · (a / m), since a² could overflow where b does not; what rounding makes negative would make it NaN.
    inside = fma(load(part, 0), -(load(part, 0) / _count(sized(now))), load(apart, 0))
    turn = (
        Alloc(centre, load(sums, later.dim) / float(CHUNK)),
        *(Alloc(part, first.start), Alloc(apart, second.start)),
        *over(now, (part, off), (apart, off * off)),
        Fold(squares, Op.ADD, select(inside < 0.0, 0.0, inside)),
        Store(sums, now, fma(load(centre, 0), _count(sized(now)), load(part, 0))),
    )
    between = load(sums, each.dim) / _count(sized(each.dim)) - load(total, 0) / _count(var.extent)
    return [
        *(Alloc(total, first.start), Alloc(squares, second.start), Alloc(head, first.start)),
        *over(0, (head, x)),
        *(Store(sums, 0, load(head, 0)), Alloc(begin, load(head, 0) / _count(sized(0)))),
        *over(0, (squares, first_off * first_off)),
        For(later, Loop.SERIAL, turn),
        *over_all(total, load(sums, each.dim)),
        *over_all(squares, between * between * _count(sized(each.dim))),
    ]


def _count(elements: Dim) -> Expr:
    if isinstance(elements, int):
        return const(float(elements), Scalar.F32)
    return cast(index(elements), Scalar.F32)
