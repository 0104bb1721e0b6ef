"""Codes of few bits as factors of products: codes are extracted from words, and scales are applied to block
sums.

    for k: 0 … 4                               for k: 0 … 4
      for i: 0 … 32                              part = 0
        acc += x[k, i] · (w[k, i] · s[k])   ->     for w: 0 … 4
                                                     part += x[k, 8w] · (word[k, w] & 15)
                                                     …
                                                     part += x[k, 8w + 7] · (word[k, w] >> 28 & 15)
                                                   acc += part · s[k]

The terms of a block share one scale, which multiplies the block sum instead of each weight. The block sum
must stay in the range of its type wherever products with the scale do. Therefore the rows are first
multiplied by a power of two, small enough for a block of the largest codes, and the sum times its scale by
the inverse. Digits are lost only if numbers times that power are denormal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add as add_
from operator import mul as mul_
from typing import TypeAlias

from anyrt.core.dims import Sym, add, depends, mod, mul, product
from anyrt.core.dimvalues import substitute
from anyrt.core.dtype import bits, is_packed
from anyrt.core.enums import DataType
from anyrt.ir.buffer import BITS, Buffer, Scalar, Space
from anyrt.ir.kernel import (
    Alloc,
    Alu,
    Cast,
    Const,
    Expr,
    Fetch,
    Fold,
    For,
    Intrinsic,
    Kernel,
    Load,
    Loop,
    Op,
    Stmt,
    Store,
    alu,
    cast,
    const,
    load,
)
from anyrt.ir.statements import dims_of, stores
from anyrt.ir.visit import Rewrite, loads, parts
from anyrt.loops.nest import Names, at_loop, flat, reserve, serial, stride
from anyrt.loops.product import Product, Sums, at_sums, before_loop, multiplying, tile_sums
from anyrt.loops.words import counted


@dataclass(frozen=True, slots=True)
class Ahead:
    """How many bytes ahead to prefetch, one cache line of so many bytes at a time."""

    bytes: int
    line: int


Rows: TypeAlias = tuple[Load, Expr]
Lanes: TypeAlias = tuple[Load, Expr, Expr | None]
WORD = BITS[Scalar.I32]
BYTE = BITS[Scalar.U8]
BYTES = (DataType.INT8, DataType.UINT8)
ONES = 0x01010101
FEW = 16  # words of a block that are faster to add one by one than in a vector
LOWEST = 128  # the largest magnitude of rows of int8
# Codes that are summed as bytes, and the last step that converts one to an integer.
SUMMED = {
    DataType.INT2: Op.SHR,
    DataType.INT4: Op.SHR,
    DataType.UINT2: Op.AND,
    DataType.UINT4: Op.AND,
    DataType.INT8: None,
    DataType.UINT8: None,
}


def codes_in(x: Expr) -> int:
    """The number of codes in a word of a factor, which is a constant's factor if they are bytes; 0 if it has
    none."""
    types = (_coded(y, x) for y in loads([x], bound=False))
    return max((WORD // bits(t) for t in types if t is not None), default=0)


def fill_words(x: Expr) -> bool:
    """True for a factor whose codes are extracted from words: a vector loads bytes directly."""
    return codes_in(x) > WORD // BYTE


def _coded(x: Load, of: Expr) -> DataType | None:
    """The type of the codes that are loaded."""
    kind = x.buffer.type
    if not isinstance(kind, DataType):
        return None
    bytes = kind in BYTES and x.buffer.space is Space.CONST and of.type is Scalar.F32
    return kind if bytes or is_packed(kind) else None


def smaller(p: Product) -> float:
    """The power of two that multiplies rows, so that no block sum overflows."""
    terms = p.summed[-1].extent
    assert isinstance(terms, int), "codes are constants"
    return 2.0 ** -(WORD // codes_in(p.second) + (terms - 1).bit_length())


def make_smaller(kernel: Kernel, row: Sym, small: float) -> Kernel:
    """The sums of the tiles with these rows of `small` times the first factor."""

    def change(sums: Sums) -> tuple[Stmt, ...]:
        ((first, second),), (fold,) = sums.factors, sums.folds
        return (replace(sums, folds=(multiplying(fold, first * small, second),)).statement,)

    return at_sums(kernel, row, change)


def unpack(kernel: Kernel, names: Names, row: Sym) -> Kernel:
    """The sums of the tiles with these rows over words of the second factor's codes."""

    def change(sums: Sums) -> tuple[Stmt, ...]:
        *outer, last = sums.summed
        ((first, second),), (fold,) = sums.factors, sums.folds
        count, extent = codes_in(second), last.extent
        assert isinstance(extent, int), "codes are constants"
        number = names.var(extent // count, "w")
        turns = (Rewrite({last: add(mul(number.dim, count), t)}) for t in range(count))
        folds = tuple(multiplying(fold, r.expr(first), _words().expr(r.expr(second))) for r in turns)
        return (replace(sums, summed=(*outer, number), folds=folds).statement,)

    return at_sums(kernel, row, change)


def unpack_copies(kernel: Kernel, names: Names, term: Sym) -> Kernel:
    """Extracts codes from words in copies in loops over `term`."""

    def change(loop: For) -> tuple[Stmt, ...]:
        count = max((codes_in(s.value) for s in stores(loop.body)), default=0)
        if not count:
            return (loop,)
        extent = loop.var.extent
        assert isinstance(extent, int), "codes are constants"
        number = names.var(extent // count, "w")
        turns = ({loop.var: add(mul(number.dim, count), t)} for t in range(count))
        (lanes,) = loop.body
        assert isinstance(lanes, For), "what is copied are lanes"
        body = tuple(s for turn in turns for s in _words().body(Rewrite(turn).body(lanes.body)))
        return (For(number, Loop.SERIAL, (replace(lanes, body=body),)),)

    return replace(kernel, body=at_loop(kernel.body, term, change))


def rows_of_codes(p: Product) -> bool:
    """True for factors that are only codes times scales, of int8 the first, of few bits in words the second,
    with scales shared by the terms of a block, whose sum int32 represents."""
    rows, lanes = _rows(p.first), _lanes(p.second)
    if rows is None or lanes is None:
        return False
    last, code = p.summed[-1], lanes[0]
    scales = (x for x in (rows[1], *lanes[1:]) if x is not None)
    most = (1 << bits(code.buffer.type)) - 1 if isinstance(code.buffer.type, DataType) else 0
    fits = isinstance(last.extent, int) and LOWEST * most * last.extent < 1 << (WORD - 1)
    return fits and _lies_in_words(code, last) and not any(_moves(x, last) for x in scales)


def _lies_in_words(x: Load, term: Sym) -> bool:
    """True if neighbouring terms are in the bytes of a word."""
    number = Sym("words", extent=term.extent)
    at = [Rewrite({term: add(mul(number.dim, WORD // BYTE), k)}).dim(x.index) for k in range(WORD // BYTE)]
    return all(place == add(at[0], k) for k, place in enumerate(at))


def sum_bytes(kernel: Kernel, names: Names, before: Sym, row: Sym, most: int, dot: Intrinsic) -> Kernel:
    """The sums of rows of codes over words of bytes, by a dot whose first words are unsigned: half of their
    range is added to signed codes. The excess of a block sum is the zero point, with the same addition, times
    the sum of the row's codes; `less` is that sum times −1, of at most so many rows of an item, computed
    before the loop `before`. Each word adds an equal part of the product (see `factor_out`)."""
    sums = tile_sums(kernel, row)
    *outer, last = sums.summed
    ((first, second),), (fold,) = sums.factors, sums.folds
    (held, coarse), (packed, fine, zero) = _coded_factors(first, second)
    assert isinstance(last.extent, int), "codes are constants"
    count = codes_in(second)
    number = names.var(last.extent // count, "w")
    of_word = Rewrite({last: mul(number.dim, count)})
    begin, loops = of_word.dim(held.index), (*outer, number)
    halves = [load(held.buffer, add(begin, k), word=True) for k in range(0, count, WORD // BYTE)]
    words = _bytes_of(load(packed.buffer, of_word.dim(packed.index), word=True), packed)
    terms = [cast(alu(dot, w, x), Scalar.F32) for w, x in zip(words, halves, strict=True)]
    if zero is not None:
        kernel, less = _less(kernel, names, before, replace(sums, summed=loops), (most, dot, halves))
        over = cast(less * zero, Scalar.F32) if zero.type is Scalar.I32 else cast(less, Scalar.F32) * zero
        terms.append(over * (count / last.extent))
    # The scale of weights first: an integer times it keeps all bits, even if it is small.
    folds = tuple(multiplying(fold, x * fine, coarse) for x in terms)
    by_words = replace(sums, summed=loops, folds=folds)
    return at_sums(kernel, row, lambda _: (by_words.statement,))


def _bytes_of(word: Expr, code: Load) -> list[Expr]:
    """Words of unsigned codes, one per byte, extracted from a loaded word."""
    assert isinstance(code.buffer.type, DataType), "codes have a type of their own"
    width = bits(code.buffer.type)
    low = (1 << width) - 1
    if middle := _middle(code):
        word = word ^ (middle * ((1 << WORD) - 1) // low - (1 << WORD))
    if width == BYTE:
        return [word]
    return [alu(Op.LSHR, word, const(k, Scalar.I32)) & low * ONES for k in range(0, BYTE, width)]


def _less(
    kernel: Kernel, names: Names, before: Sym, sums: Sums, of: tuple[int, Intrinsic, Sequence[Expr]]
) -> tuple[Kernel, Expr]:
    """The kernel with the sums of a block's codes, times −1, in scratch before a loop, and that of a row. The
    sums of words are computed first, contiguously, and are added up at the block's first one."""
    (most, dot, halves), loops = of, sums.summed
    place, depth = flat(loops)
    kernel, less = reserve(kernel, names.name("less"), Scalar.I32, mul(depth, most))
    own = names.var(sums.row.extent or 0, "r")
    of_row, block = Rewrite({sums.row: own.dim}), Rewrite({loops[-1]: 0}).dim(place)
    sum = _summed_words([of_row.expr(x) for x in halves], dot)
    at = add(mul(own.dim, depth), place)
    fill = Store(less, at, const(0, Scalar.I32) - sum)
    total = Buffer(names.name("sum"), Scalar.I32, Space.REGISTER, 1)
    in_turn = Loop.UNROLL if loops[-1].extent in range(FEW + 1) else Loop.SERIAL
    add_up = (
        Alloc(total, const(0, Scalar.I32)),
        For(loops[-1], in_turn, (Fold(total, Op.ADD, load(less, at)),)),
        Store(less, add(mul(own.dim, depth), block), load(total, 0)),
    )
    body = (*_side_by_side(fill, loops, names), *serial(loops[:-1], add_up))
    kernel = before_loop(kernel, before, serial([own], body))
    return kernel, load(less, add(mul(sums.row.dim, depth), block))


def _coded_factors(first: Expr, second: Expr) -> tuple[Rows, Lanes]:
    rows, lanes = _rows(first), _lanes(second)
    assert rows is not None, "the first factor is codes of int8 times a scale"
    assert lanes is not None, "the second one is codes of few bits times a scale"
    return rows, lanes


def _summed_words(words: Sequence[Expr], dot: Intrinsic) -> Expr:
    """The sum of all bytes of words."""
    return reduce(add_, (alu(dot, const(ONES, Scalar.I32), x) for x in words))


def _side_by_side(fill: Store, loops: tuple[Sym, ...], names: Names) -> tuple[Stmt, ...]:
    """A copy of words, by one loop if they are evenly spaced."""
    counter = names.var(product(v.extent or 0 for v in loops), "w")
    read = {x for x in parts([fill.value], bound=False) if isinstance(x, Load)}
    at = {x: counted(x.index, loops, counter.dim) for x in read}
    to = counted(fill.index, loops, counter.dim)
    if to is None or None in at.values():
        return serial(loops[:-1], (For(loops[-1], Loop.VECTOR, (fill,)),))

    def moved(x: Expr) -> Expr | None:
        index = at.get(x) if isinstance(x, Load) else None
        return None if index is None or not isinstance(x, Load) else load(x.buffer, index, x.word)

    value = Rewrite(rule=moved).expr(fill.value)
    return (For(counter, Loop.VECTOR, (Store(fill.buffer, to, value),)),)


def _rows(x: Expr) -> Rows | None:
    """Codes of int8 and their factor."""
    for codes, scale in _pairs(x):
        match codes:
            case Cast(type=Scalar.F32, arg=Cast(arg=Load() as element)) if element.buffer.stored is Scalar.I8:
                return element, scale
    return None


def _lanes(x: Expr) -> Lanes | None:
    """Codes of few bits, their factor, and their zero point, shifted like them; None if it is 0. A zero point
    that is not an integer is not shifted, since that would round it."""
    for steps, scale in _pairs(x):
        match steps:
            case Alu(op=Op.SUB, args=(Cast(arg=number), zero)):
                pass
            case Cast(type=Scalar.F32, arg=number):
                zero = const(0, Scalar.I32)
            case _:
                continue
        code = _code(number)
        if code is None:
            continue
        middle, whole = _middle(code), zero.arg if isinstance(zero, Cast) else zero
        if whole.type is Scalar.I32:
            return code, scale, _raised(whole, middle)
        if not middle:
            return code, scale, zero
    return None


def _raised(zero: Expr, middle: int) -> Expr | None:
    """An integer plus another one; None for 0."""
    if isinstance(zero, Const):
        return const(middle, Scalar.I32) if middle else None
    return zero + middle if middle else zero


def _middle(code: Load) -> int:
    """The number that makes signed codes unsigned."""
    assert isinstance(code.buffer.type, DataType), "codes have a type of their own"
    signed = SUMMED[code.buffer.type] is Op.SHR or code.buffer.type is DataType.INT8
    return 1 << (bits(code.buffer.type) - 1) if signed else 0


def _code(x: Expr) -> Load | None:
    """The one code that is loaded and converted to an integer: part of a byte by a mask, or by two shifts
    that extend its sign."""
    read = [y for y in parts([x], bound=False) if isinstance(y, Load)]
    kind = read[0].buffer.type if len(read) == 1 else None
    if not isinstance(kind, DataType) or kind not in SUMMED:
        return None
    if kind in BYTES:
        plain = isinstance(x, Cast) and x.arg is read[0] and read[0].buffer.space is Space.CONST
        return read[0] if plain else None
    return read[0] if isinstance(x, Alu) and x.op is SUMMED[kind] else None


def _pairs(x: Expr) -> tuple[tuple[Expr, Expr], ...]:
    """The factors of a product, in either order."""
    if not isinstance(x, Alu) or x.op is not Op.MUL:
        return ()
    a, b = x.args
    return (a, b), (b, a)


def factor_out(
    kernel: Kernel, names: Names, lane: Sym, small: float | None, ahead: Ahead | None = None
) -> Kernel:
    """The sums in registers of the loops over `lane`, which are `small` times too large, as sums of block
    sums times the factor of each of their terms; `small` is None for sums of integers. `ahead`: prefetch the
    operands of later blocks."""

    def change(loop: For) -> tuple[Stmt, ...]:
        return (_factored(loop, names, small, ahead),)

    return replace(kernel, body=at_loop(kernel.body, lane, change))


def _words() -> Rewrite:
    """Codes are extracted from words instead of bytes; signed ones directly as float32."""

    def extraction(y: Expr) -> Expr | None:
        match y:
            case Cast(
                type=Scalar.F32,
                arg=Alu(op=Op.SHR, args=(Alu(op=Op.SHL, args=(Alu(op=Op.AND, args=(code, _)), _)), _)),
            ) if (place := _place(code)) is not None and place[0].buffer.type is DataType.INT4:
                return alu(Op.CODE, place[0], const(place[1], Scalar.I32))
            case Alu(op=Op.LSHR) if (place := _place(y)) is not None:
                return alu(Op.LSHR, place[0], const(place[1], Scalar.I32))
        return None

    return Rewrite(rule=extraction)


def _place(x: Expr) -> tuple[Load, int] | None:
    """The word that holds a code, and its first bit in it, for an expression that shifts the code's byte."""
    match x:
        case Alu(
            op=Op.LSHR,
            args=(
                Cast(arg=Load(buffer=buffer, index=at)),
                Alu(op=Op.MUL, args=(Cast(arg=Const(value=number)), Const(value=width))),
            ),
        ) if isinstance(buffer.type, DataType) and is_packed(buffer.type):
            byte = mod(at, WORD // BYTE)
            assert isinstance(byte, int), "terms of a word are numbered"
            word = load(buffer, add(at, -byte), word=True)
            assert isinstance(word, Load), "a word is loaded"
            return word, BYTE * byte + int(number) * int(width)
    return None


def _factored(loop: For, names: Names, small: float | None, ahead: Ahead | None) -> For:
    begin, summing, *then = loop.body
    assert isinstance(begin, Alloc), "lanes begin with sums"
    *outer, words = _nest(summing)
    rows = [s for s in words.body if isinstance(s, For)]
    folds = (s for r in rows for s in r.body if isinstance(s, Fold))
    terms = {s: _whole_term(s, words.var) if small is None else _term(s) for s in folds}
    common = _common(terms.values(), words.var)
    size, kind = begin.buffer.size, next(term.own.type for term in terms.values())
    part = Buffer(names.name("part"), kind, Space.REGISTER, size)
    each = names.var(size, "e")
    of_each = Rewrite({rows[0].var: each.dim})
    once = [of_each.expr(term.own) for term in terms.values() if term.once]
    sum = _scaled(_total(load(part, each.dim), once), [of_each.expr(x) for x in common], small)
    fetches = list[Fetch]()
    if ahead is not None and outer:
        read = [*(term.own for term in terms.values()), *common]
        fetches += dict.fromkeys(_later(read, ahead, outer[-1].var, (words.var, loop.var)))
    block: tuple[Stmt, ...] = (
        *fetches,
        Alloc(part, const(0, kind)),
        replace(words, body=tuple(r for r in (_parted(r, part, terms) for r in rows) if r.body)),
        For(each, Loop.UNROLL, (Fold(begin.buffer, Op.ADD, sum, index=each.dim),)),
    )
    return replace(loop, body=(begin, *serial([s.var for s in outer], block), *then))


@dataclass(frozen=True, slots=True)
class _Term:
    """A term of a block: its `own` factor, an integer or the row's number times a code, and those that all
    have in `common`. once: parts of it are added by words, and a block adds it as a whole."""

    own: Expr
    common: tuple[Expr, ...]
    once: bool = False


def _later(read: Iterable[Expr], ahead: Ahead, block: Sym, inner: Sequence[Sym]) -> Iterator[Fetch]:
    """The cache lines of constants that a later iteration of `block` reads, if iterations are contiguous."""
    constants = dict.fromkeys(x for x in loads(read) if x.buffer.space is Space.CONST)
    steps = {x: step for x in constants if isinstance(step := stride(x.index, block), int) and step}
    sizes = {x: BITS[x.buffer.stored] // BYTE for x in steps}
    most = max((step * sizes[x] for x, step in steps.items()), default=1)
    for x, step in steps.items():
        begin = add(substitute(x.index, dict.fromkeys(inner, 0)), -(-ahead.bytes // most) * step)
        lines = range(0, step, ahead.line // sizes[x])
        yield from (Fetch(x.buffer, add(begin, at), nearest=True) for at in lines)


def _common(terms: Iterable[_Term], word: Sym) -> tuple[Expr, ...]:
    """The common factor of all terms of a block."""
    (common,) = {term.common for term in terms}
    assert not any(_moves(x, word) for x in common), "terms of a block have one scale"
    return common


def _total(sum: Expr, once: Sequence[Expr]) -> Expr:
    """The sum of a block as a float, with the value that is added as a whole: integers before they are
    rounded."""
    for x in once:
        sum = sum + x.arg if isinstance(x, Cast) else cast(sum, Scalar.F32) + x
    return cast(sum, Scalar.F32)


def _scaled(sum: Expr, common: Sequence[Expr], small: float | None) -> Expr:
    """The block sum with its scale: its factors first, so that nothing overflows."""
    sum = reduce(mul_, common, sum)
    return sum if small is None else sum * (1 / small)


def _parted(loop: For, part: Buffer, terms: Mapping[Fold, _Term]) -> For:
    """Folds of rows into `part`, without the common factors."""
    folds = (s for s in loop.body if isinstance(s, Fold) and not terms[s].once)
    return replace(loop, body=tuple(replace(s, buffer=part, value=terms[s].own) for s in folds))


def _nest(stmt: Stmt) -> list[For]:
    """The loops around those over rows, the last one over words."""
    nested: list[For] = []
    while isinstance(stmt, For) and all(isinstance(s, For) for s in stmt.body):
        nested.append(stmt)
        stmt = stmt.body[0]
    return nested


def _term(fold: Fold) -> _Term:
    """The row's number times a code, and the factors of both."""
    assert isinstance(fold.value, Alu), "what is summed has two factors"
    first, second = fold.value.args
    own, common = list[Expr](), list[Expr]()
    for x in _multiplied(second):
        (own if codes_in(x) else common).append(x)
    return _Term(reduce(mul_, own, first), (reduce(mul_, common),) if common else ())


def _whole_term(fold: Fold, word: Sym) -> _Term:
    """The integer of a word, or the equal parts that words of a block add, and the scales of both factors."""
    assert isinstance(fold.value, Alu), "what is summed has factors"
    scaled, coarse = fold.value.args
    assert isinstance(scaled, Alu), "sums of codes are multiplied by two scales"
    own, fine = scaled.args
    if isinstance(own, Cast):
        return _Term(own.arg, (fine, coarse))
    assert isinstance(own, Alu), "words add parts of what a block adds"
    assert not _moves(own, word), "a block has one zero point"
    return _Term(own.args[0], (fine, coarse), once=True)


def _multiplied(x: Expr) -> Iterator[Expr]:
    """The factors of a product."""
    if isinstance(x, Alu) and x.op is Op.MUL:
        for y in x.args:
            yield from _multiplied(y)
    else:
        yield x


def _moves(x: Expr, var: Sym) -> bool:
    return any(depends(at, var) for at in dims_of(x))
