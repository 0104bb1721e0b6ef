"""Sums of dots in matrix tiles: recognising these loops, and writing them for AMX.

A vector loop over 32 lanes that sums dots of words for up to 32 rows, and stores the sums, needs two or four
tiles of up to 16 × 16 sums. For every 16 words of the sum, the rows' words and the lanes' words are loaded as
tiles, whose products the processor adds. (Intel 64 and IA-32 Architectures Software Developer's Manual,
volume 1, chapter 18, "Programming with Intel AMX")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import Final, TypeAlias

from anyrt.backends.cpu.intrinsics import AMX, OnTiles
from anyrt.backends.cpu.stores import prefetch
from anyrt.codegen import llvmtext as ll
from anyrt.codegen.checks import NOTHING, NOWHERE
from anyrt.codegen.scope import Scope
from anyrt.codegen.values import Values, registers_of
from anyrt.core.dims import Dim, Sym, add, bounds, linear, mul
from anyrt.core.dimvalues import substitute
from anyrt.ir.buffer import Buffer
from anyrt.ir.kernel import (
    Alloc,
    Alu,
    Const,
    Fetch,
    Fold,
    For,
    Intrinsic,
    Load,
    Loop,
    Op,
    Stmt,
    Store,
    alu,
    load,
)
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import expressions
from anyrt.ir.visit import Rewrite

SIDE: Final = 16  # rows of a tile, and words of each
WORD: Final = 4  # bytes
LANES: Final = 2 * SIDE
FIRST, SECOND = (4, 5), (6, 7)  # the tiles of the factors; before them those of sums
CHAINED: Final = "amx_overlapped"
Vars: TypeAlias = tuple[Sym, Sym, Sym, Sym]  # of lanes, words, rows, and rows that are stored


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """The sum of a loop: rows × lanes of dots over `count` words, stored to `target`. The factors and the
    target are given at the first row, lane and word, with the distance in elements from one row to the next,
    `pitch`, and from one word of the lanes to the next, `step`. Several second factors, whose words
    alternate, share one first factor. `fetches`: what the loop prefetches with the first word, and the
    distance in elements from one word to the next."""

    by: OnTiles
    rows: int
    lanes: int
    count: Dim
    first: Load
    pitch: Dim
    seconds: tuple[Load, ...]
    step: Dim
    target: Store
    fetches: tuple[tuple[Fetch, int], ...] = ()

    @property
    def is_dense(self) -> bool:
        """Whether words of the lanes are contiguous, as AMX loads them."""
        return self.step == len(self.seconds) * self.lanes * self.seconds[0].elements

    def text(self, sums: Buffer, vars: Vars) -> tuple[tuple[Stmt, ...], Stmt]:
        """The definition of the instructions, for these variables: the fold for each word, and the stores at
        the end."""
        lane, word, row, out = (v.dim for v in vars)
        size = self.seconds[0].elements
        first = _at(self.first, mul(row, self.pitch), mul(word, self.first.elements))
        at = add(mul(word, self.step), mul(lane, size))
        dots = (alu(self.by.intrinsic, first, _at(x, at)) for x in self.seconds)
        place = add(self.target.index, add(mul(out, self.lanes), lane))
        store = Store(self.target.buffer, place, load(sums, out))
        return tuple(Fold(sums, Op.ADD, x, row) for x in dots), store


def _at(x: Load, *by: Dim) -> Load:
    moved = load(x.buffer, reduce(add, by, x.index), x.word)
    assert isinstance(moved, Load), "a load further on is one"
    return moved


@dataclass(frozen=True, slots=True)
class Chain:
    """Products of one loop, one after the other, the statements with each of them, and the epilogue: a
    separate loop, whose iterations are distributed to the words of the next product."""

    loop: For
    product: MatrixProduct
    after: tuple[Stmt, ...]
    then: For

    @property
    def var(self) -> Sym:
        """The products' counter."""
        return self.loop.var

    def share(self, v: Values, scope: Scope, word: str) -> tuple[str, str]:
        """(first, end) of the iterations that are computed beside the tiles at `word`, evenly distributed."""
        assert isinstance(self.product.count, int), "tiles of words have a fixed number"
        turns, most = self.product.count // SIDE, bounds(self.then.var.extent or 0)[1]
        times, by = (most // turns, SIDE) if most % turns == 0 else (most, SIDE * turns)
        later = v.out.put(scope, f"add i64 {word}, {SIDE}")
        first, end = (
            v.out.put(scope, f"udiv i64 {v.out.put(scope, f'mul i64 {x}, {times}')}, {by}")
            for x in (word, later)
        )
        return first, end

    @staticmethod
    def of(loop: For) -> Chain | Fail:
        """The product of a serial loop, if it is such a chain."""
        match loop:
            case For(kind=Loop.SERIAL, body=(For(intrinsic=name) as tile, *after, For() as then)) if name:
                p = matrix_product(tile)
                if isinstance(p, Fail):
                    return p
                if then.kind is not Loop.SERIAL or bounds(then.var.extent or 0)[1] > LANES:
                    return Fail("the epilogue of a tile has more iterations than the tile has lanes")
                if any(map(registers_of, expressions((then,)))):
                    return Fail("the epilogue of a tile reads registers")
                return Chain(loop, p, tuple(after), then)
        return Fail("it is not a loop over a tile and its epilogue")


def height(rows: Dim) -> int:
    """The rows of a tile of sums, if one or two of them have so many rows; else 0."""
    if not isinstance(rows, int) or not AMX[0].grid.fits(rows):
        return 0
    return rows if rows <= SIDE else rows // 2


def matrix_product(loop: For, among: Sequence[OnTiles] = AMX) -> MatrixProduct | Fail:
    """The product of a loop, if the loop equals the definition of instructions on the same tiles."""
    match loop:
        case For(
            kind=Loop.VECTOR,
            body=(
                Alloc(buffer=sums, value=Const(value=0 | 0.0)),
                For(var=word, kind=Loop.SERIAL, body=(For(var=row, kind=Loop.UNROLL, body=folds), *fetches)),
                For(var=out, kind=Loop.UNROLL, body=(Store() as store,)),
            ),
        ):
            vars = (loop.var, word, row, out)
            p = _operands(vars, folds, store, among)
            if isinstance(p, Fail):
                return p
            even = (p.is_dense or not p.by.grid.apart) and p.text(sums, vars) == (folds, store)
            ahead = _by_word(fetches, word, loop.var)
            if not even or len(ahead) < len(fetches):
                return Fail("its rows and words are not evenly spaced")
            return replace(p, fetches=ahead)
    return Fail("it does not sum dots of several rows and store the sums")


def _by_word(stmts: Sequence[Stmt], word: Sym, lane: Sym) -> tuple[tuple[Fetch, int], ...]:
    """The prefetches with the first word, and their distances, of those that are evenly spaced."""
    fetches = [s for s in stmts if isinstance(s, Fetch)]
    moves = [(s, linear(substitute(s.index, {lane: 0}), word)) for s in fetches]
    return tuple((replace(s, index=m[1]), m[0]) for s, m in moves if m and isinstance(m[0], int))


def intrinsic(loop: For) -> str | Fail:
    """The name of the instruction that computes a loop."""
    p = matrix_product(loop)
    return p if isinstance(p, Fail) else p.by.loop


def overlapped(loop: For) -> str | Fail:
    """The name of loops whose iterations are interleaved."""
    c = Chain.of(loop)
    return c if isinstance(c, Fail) else CHAINED


def _operands(
    vars: Vars, folds: tuple[Stmt, ...], store: Store, among: Sequence[OnTiles]
) -> MatrixProduct | Fail:
    """An expression at the first row, lane and word."""
    (lane, word, row, _), grid, by = vars, among[0].grid, {x.intrinsic: x for x in among}
    rows, lanes = row.extent, lane.extent
    if not isinstance(rows, int) or not grid.fits(rows) or lanes != grid.wide(rows):
        return Fail(f"{row.extent} rows of {lane.extent} lanes fill no tiles")
    if not isinstance(word.extent, int) or word.extent % grid.deep:
        return Fail(f"{word.extent} words fill no tiles")
    dots = [s.value for s in folds if isinstance(s, Fold) and isinstance(s.value, Alu)]
    pairs = [x.args for x in dots if x.op in by and all(isinstance(a, Load) for a in x.args)]
    dot = dots[0].op if dots else None
    if len(pairs) < len(folds) or not isinstance(dot, Intrinsic):
        return Fail("it sums other terms than dots of loads")
    at = Rewrite(dict.fromkeys(vars, 0))
    first, *seconds = (x for x in map(at.expr, (pairs[0][0], *(b for _, b in pairs))) if isinstance(x, Load))
    pitch, step = (
        linear(x.index, v) for x, v in zip(pairs[0], (row, word), strict=True) if isinstance(x, Load)
    )
    if pitch is None or step is None:
        return Fail("its rows are not evenly spaced")
    target = replace(store, index=at.dim(store.index))
    return MatrixProduct(
        by[dot], rows, grid.wide(rows), word.extent, first, pitch[0], tuple(seconds), step[0], target
    )


def configure(v: Values, scope: Scope, p: MatrixProduct) -> None:
    """Eight tiles of 16 words per row: those of sums and of the first factor have the height that the product
    needs."""
    rows = [height(p.rows)] * SECOND[0] + [SIDE] * len(SECOND)
    values = ", ".join(f"i8 {b}" for b in (1, *[0] * 15, *[SIDE * WORD, 0] * 8, *[0] * 16, *rows, *[0] * 8))
    place = f"%{v.out.scopes.name('tiles')}"
    v.allocas.append(f"  {place} = alloca <64 x i8>, align 64")
    v.out.declared.add("declare void @llvm.x86.ldtilecfg(ptr)")
    scope.lines += [
        f"  store <64 x i8> <{values}>, ptr {place}",
        f"  call void @llvm.x86.ldtilecfg(ptr {place})",
    ]


def release(v: Values) -> None:
    """The end of the function: the contents of the tiles need not be preserved."""
    v.out.declared.add("declare void @llvm.x86.tilerelease()")
    v.out.scopes.inner.lines.append("  call void @llvm.x86.tilerelease()")


def write(v: Values, p: MatrixProduct, between: Callable[[str], None] = lambda word: None) -> None:
    """The sums initialized, the loop over words, and the stores. The code that `between` writes for each
    iteration of that loop is executed while tiles are multiplied, since those instructions take many
    cycles."""
    scope, out, tall = v.out.scopes.inner, v.out, height(p.rows)
    rows = range(p.rows // tall)
    first, seconds, target = places(v, scope, p)
    pitch = out.put(scope, f"mul i64 {v.dim(p.pitch)}, {ll.BYTES[p.first.buffer.stored]}")
    for r in rows:
        for c in range(2):
            _call(v, scope, "llvm.x86.tilezero", ("i8", str(2 * r + c)))
    at, after, head, done = (
        f"%{out.scopes.name('k')}",
        f"%{out.scopes.name('k')}",
        out.scopes.name("dots"),
        out.scopes.name("done"),
    )
    before, last = out.scopes.name("pre"), out.scopes.name("end")
    ranges = [
        (v.address(scope, x.buffer, v.dim(x.index)), step * ll.BYTES[x.buffer.stored])
        for x, step in p.fetches
    ]
    scope.lines += [f"  br label %{before}", f"{before}:", f"  br label %{head}", f"{head}:"]
    scope.lines.append(f"  {at} = phi i64 [0, %{before}], [{after}, %{last}]")
    here = out.put(scope, f"getelementptr i32, ptr {first}, i64 {moved(v, scope, first, at)}")
    lower = moved(v, scope, first, pitch)
    for r in rows:
        row = out.put(
            scope, f"getelementptr i8, ptr {here}, i64 {out.put(scope, f'mul i64 {lower}, {r * tall}')}"
        )
        _call(v, scope, "llvm.x86.tileloaddt164", ("i8", str(FIRST[r])), ("ptr", row), ("i64", lower))
    words = out.put(scope, f"mul i64 {at}, {LANES * len(seconds)}")
    for second in seconds:
        for c in range(2):
            lane = out.put(scope, f"add i64 {words}, {c * SIDE}")
            start = out.put(scope, f"getelementptr i32, ptr {second}, i64 {moved(v, scope, second, lane)}")
            step = ("i64", moved(v, scope, second, str(LANES * WORD * len(seconds))))
            _call(v, scope, "llvm.x86.tileloadd64", ("i8", str(SECOND[c])), ("ptr", start), step)
        for start, nbytes in ranges:
            _prefetch(v, scope, start, nbytes, at)
        for r, c in product(rows, range(2)):
            tiles = (2 * r + c, FIRST[r], SECOND[c])
            _call(v, scope, p.by.name, *(("i8", str(t)) for t in tiles))
    between(at)
    scope.lines += [f"  br label %{last}", f"{last}:", f"  {after} = add nuw nsw i64 {at}, {SIDE}"]
    again = out.put(scope, f"icmp slt i64 {after}, {v.dim(p.count)}")
    scope.lines += [f"  br i1 {again}, label %{head}, label %{done}", f"{done}:"]
    for r in rows:
        for c in range(2):
            offset = moved(v, scope, target, str(r * tall * LANES + c * SIDE))
            place = out.put(scope, f"getelementptr i32, ptr {target}, i64 {offset}")
            step = ("i64", moved(v, scope, target, str(LANES * WORD)))
            _call(v, scope, "llvm.x86.tilestored64", ("i8", str(2 * r + c)), ("ptr", place), step)
    v.changed(p.target.buffer.name)


def _prefetch(v: Values, scope: Scope, start: str, nbytes: int, word: str) -> None:
    """Prefetch what belongs to a tile of words, from `word` on, of a range with so many bytes for each."""
    here = v.out.put(
        scope, f"getelementptr i8, ptr {start}, i64 {v.out.put(scope, f'mul i64 {word}, {nbytes}')}"
    )
    for line in range(0, SIDE * nbytes, SIDE * WORD):
        prefetch(v.out, scope, here, line)


def places(v: Values, scope: Scope, p: MatrixProduct) -> tuple[str, list[str], str]:
    """The start of the factors and the target; the range of each is checked here if accesses are checked."""
    rows, size, lanes = p.rows, p.first.elements, p.lanes * p.seconds[0].elements
    words = add(mul(add(p.count, -1), p.step), lanes)

    def begin(x: Load | Store, count: Dim, *, writes: bool = False) -> str:
        row = SIDE * WORD // ll.BYTES[x.buffer.stored]  # what a tile takes from there, if nothing is
        span = (v.dim(count), row) if v.checks is not None else ("1", 1)
        return v.place(scope, x.buffer, v.dim(x.index), span, writes=writes)

    first = begin(p.first, add(mul(p.pitch, rows - 1), mul(p.count, size)))
    seconds = [begin(x, words) for x in p.seconds]
    return first, seconds, begin(p.target, rows * p.lanes, writes=True)


def moved(v: Values, scope: Scope, place: str, by: str) -> str:
    """The address `by` behind `place`; `place` itself if checks found no memory there."""
    if v.checks is None:
        return by
    nothing, nowhere = (v.out.put(scope, f"icmp eq ptr {place}, {x}") for x in (NOTHING, NOWHERE))
    still = v.out.put(scope, f"or i1 {nothing}, {nowhere}")
    return v.out.put(scope, f"select i1 {still}, i64 0, i64 {by}")


def _call(v: Values, scope: Scope, name: str, *args: tuple[str, str]) -> None:
    types = ", ".join(t for t, _ in args)
    v.out.declared.add(f"declare void @{name}({types})")
    scope.lines.append(f"  call void @{name}({', '.join(f'{t} {x}' for t, x in args)})")
