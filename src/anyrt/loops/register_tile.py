"""Register tile: a sum of products becomes a tile of rows × lanes whose sums stay in registers.

    for m: 0 … 28                            for t: 0 … 2
      for n: 0 … 64                            for p: 0 … 2
        acc = 0                                  vector j: 0 … 32 (two registers)
        for k: …                                   acc[14] = 0
          acc += x[m, k] · w[k, n]     ->          for k: …
        y[m, n] = f(acc)                             unroll i: 0 … 14
                                                       acc[i] += x[14t + i, k] · w[k, 32p + j]
                                                   unroll i: 0 … 14
                                                     y[14t + i, 32p + j] = f(acc[i])

Loops are told apart by which factor moves with them: *rows* move the one, *lanes* the other; batches move
both. What is dear to read in place is copied into the thread's scratch first: a panel of the lanes' factor
for all tiles of an item, the rows' factor for all panels of one. What is dear to compute from a sum, or is
stored across memory, leaves the registers through scratch: a tile of it, or, so that whole lines of cache
are stored, all tiles of an item. Rows that lie between two lanes in memory leave the registers together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from anyrt.core.dims import Dim, Sym, add, ceildiv, floordiv, minimum, mod, mul
from anyrt.core.dimvalues import substitute
from anyrt.ir.buffer import Buffer, Scalar
from anyrt.ir.kernel import (
    Alloc,
    Alu,
    Expr,
    Fetch,
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
    const,
    index,
    load,
)
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import dims_of
from anyrt.ir.visit import Rewrite
from anyrt.loops.collapse import nested
from anyrt.loops.nest import Names, around, flat, moves, nest_of, reserve, serial, stride, turn
from anyrt.loops.upcoming import Item, Run, next_panel, next_rows
from anyrt.loops.words import OFFSET, PARTS, counted, split, word

FEW = (4, 2, 1)  # rows of the smaller tiles that are left of an open number
SUMS = 8  # registers, whose sums hide each other's latencies
SHORT = 2  # turns of a loop over few terms
SQUARE = 16  # terms that are read side by side, and transposed in registers
MOVED = ((True, True), (True, False), (False, True))  # which factors move with batches, rows, lanes


@dataclass(frozen=True, slots=True)
class Product:
    """A sum of products, alone inside loops: `rows` move the first factor, `lanes` the second, `both` both;
    `summed` are the loops of the sum, and `stores` what is made of it."""

    both: tuple[Sym, ...]
    rows: tuple[Sym, ...]
    lanes: tuple[Sym, ...]
    summed: tuple[Sym, ...]
    first: Expr
    second: Expr
    sum: Alloc
    stores: tuple[Store, ...]

    @property
    def turned(self) -> Product:
        """The same with the factors' parts exchanged."""
        return replace(self, rows=self.lanes, lanes=self.rows, first=self.second, second=self.first)


def product_of(kernel: Kernel) -> Product | Fail:
    """The sum of products that a kernel of serial loops is."""
    vars, body = around(kernel)
    nest = nest_of(body[1]) if len(body) > 1 else None
    if not isinstance(body[0], Alloc) or nest is None or len(nest.body) != 1:
        return Fail("it is no sum inside of loops")
    (fold,), stores = nest.body, tuple(s for s in body[2:] if isinstance(s, Store))
    if len(stores) < len(body) - 2 or not isinstance(fold, Fold) or fold.op is not Op.ADD:
        return Fail("it is no sum with stores of what is made of it")
    if not isinstance(fold.value, Alu) or fold.value.op is not Op.MUL:
        return Fail("it is no sum of products")
    first, second = fold.value.args
    by = {v: (moves(dims_of(first), v), moves(dims_of(second), v)) for v in vars}
    both, rows, lanes = (tuple(v for v in vars if by[v] == m) for m in MOVED)
    if len(both) + len(rows) + len(lanes) < len(vars):
        return Fail("a loop moves neither factor")
    return Product(both, rows, lanes, nest.vars, first, second, body[0], stores)


def summed_in(kernel: Kernel, order: tuple[Sym, ...]) -> Kernel | Fail:
    """The kernel with the loops of its sum in another order."""
    vars, (begin, *rest) = around(kernel)
    nest = nest_of(rest[0])
    if nest is None or nest.vars == order:
        return Fail("its loops stand as they should")
    return replace(kernel, body=serial(vars, (begin, *serial(order, nest.body), *rest[1:])))


def join_rows(product: Product, outer: Sym, inner: Sym, names: Names) -> tuple[Product, Sym]:
    """A loop over rows and another one as one, whose counter is taken apart."""
    assert inner.extent is not None, f"loop {inner} has no extent"
    row = names.var(mul(outer.extent or 0, inner.extent), "m")
    parts_of = {outer: floordiv(row.dim, inner.extent), inner: mod(row.dim, inner.extent)}
    both, rows, lanes = (
        tuple(v for v in of if v not in (outer, inner)) for of in (product.both, product.rows, product.lanes)
    )
    return replace(_moved(product, parts_of), both=both, rows=(*rows, row), lanes=lanes), row


@dataclass(frozen=True, slots=True)
class Tiling:
    """How large: `rows` of a tile, each `registers` vectors of `width` lanes; so many `tiles` and `panels` an
    item. Tiles hold whole `unit`s of rows; `beside`: so many rows are stored between two lanes. `copy_rows`,
    `copy_lanes`: the factor is copied to scratch first; `apart`: results leave registers through scratch,
    `across`: and are stored along the rows, taking turns with those of the loop `turns`, in lines that are on
    their way while a tile is summed where these are `asked` for. `dot`: words of terms (words.py) are copied,
    or read, which this instruction sums; `matrix`: in tiles that are always whole, for a multiple of 16
    words; `split`: a word is one term, in two parts. `ahead`: so many terms before they are summed, lanes are
    on their way; `later`: so are those of the panel so many behind this one, a part with each tile; `stream`:
    so are the rows of the next item. `held`: all panels of an item are copied before its tiles."""

    row: Sym | None
    lane: Sym
    rows: int
    registers: int
    width: int
    tiles: int
    panels: int
    unit: int = 1
    beside: int = 1
    copy_rows: bool = False
    copy_lanes: bool = False
    apart: bool = False
    across: bool = False
    turns: Sym | None = None
    asked: bool = False
    dot: Op | None = None
    matrix: bool = False
    split: bool = False
    ahead: int = 0
    later: int = 0
    stream: bool = False
    held: bool = False

    @property
    def panel(self) -> int:
        """Lanes of a panel."""
        return self.registers * self.width


@dataclass(slots=True)
class _Tile:
    """Builds the loops of one kernel."""

    kernel: Kernel
    names: Names
    product: Product
    tiling: Tiling
    row: Sym = field(init=False)
    count: Dim = field(init=False)
    words: Sym = field(init=False)
    held: tuple[Sym, ...] = field(init=False, default=())  # the panels of an item, where all are copied first
    last: int = field(init=False, default=0)  # lanes of the last panel, where that is known to have fewer
    is_whole: Expr = field(init=False)  # which all others are
    whole: Product = field(init=False)  # with its factors as they are, whatever is copied
    first: Dim = field(init=False, default=0)  # row of an item
    runs: tuple[Run, ...] = field(init=False, default=())  # of memory, to be asked for meanwhile
    kept: Buffer | None = field(init=False, default=None)  # the sums of an item's rows, where tiles share it

    def __post_init__(self) -> None:
        last = self.product.summed[-1].extent if self.product.summed else 1
        parts = 1 if self.tiling.dot is None or self.tiling.split else PARTS[self.tiling.dot]
        self.words = self.names.var(ceildiv(last or 0, parts), "w")
        self.row = self.tiling.row or self.names.var(1, "m")
        self.count = self.row.extent or 0

    def build(self) -> tuple[Kernel, int]:
        """The kernel, and how many of its outer loops are its items."""
        t, names, lane = self.tiling, self.names, self.tiling.lane
        lanes, size = lane.extent or 0, self._rows()
        chunk, tile, at_tile = pieces(names, ceildiv(self.count, size), t.tiles, "t")
        rest_lanes = [v for v in self.product.lanes if v not in (lane, t.turns)]
        sharing = _sharing(self.product)
        cut = rest_lanes.pop() if always_fits(lanes, t.panel) and rest_lanes else None
        count = ceildiv(lanes, t.panel) if cut is None else cut.extent or 0
        many, panel, at_panel = pieces(names, count, t.panels, "p")
        start = mul(at_panel, t.panel) if cut is None else 0
        whole = t.panel if mod(lanes, t.panel) == 0 else minimum(t.panel, add(lanes, mul(start, -1)))
        within = names.var(lanes if always_fits(lanes, t.panel) else whole, "j")
        if cut is None and isinstance(lanes, int) and not always_fits(lanes, t.panel):
            self.last, self.is_whole = lanes % t.panel, alu(Op.LE, index(add(start, t.panel)), index(lanes))
        moved = {lane: add(start, within.dim), **({} if cut is None else {cut: at_panel})}
        self.product = self.whole = _moved(self.product, moved)
        rows = self._copy_rows(mul(turn(chunk), t.tiles * size), t.tiles * size) if t.copy_rows else ()
        self.held = (panel,) if t.held and panel.extent != 1 else ()
        panels = self._copy_lanes(within) if t.copy_lanes else ()
        if t.dot is not None:
            self.product = self._by_words()
            panels += self._offset(within)
        self.first = mul(turn(chunk), t.tiles * size)
        rest_rows = [v for v in self.product.rows if v is not self.tiling.row]
        item = Item(self.row, size, t.tiles, chunk, many, panel, within, t.panels, t.panel)
        self.runs = self._upcoming(item, rest_rows)
        if t.across and (t.tiles > 1 or t.turns) and t.unit == 1 and not t.matrix:
            many_sums = t.tiles * size * self._turns * t.panel
            self.kept = self._reserve("tiles", self.product.sum.value, many_sums)
        tiles = _loops([v for v in (t.turns, tile, *self.held) if v], self._tiles(at_tile, size, within))
        if self.kept is not None:
            own = minimum(t.tiles * size, add(self.count, mul(self.first, -1)))
            tiles = (*tiles, *self._after(self.kept, self.first, own, within))
        inside = [] if t.copy_rows or not t.copy_lanes else rest_rows  # a panel is copied once for all
        body = (*rows, *_loops([] if self.held else [panel], (*panels, *serial(inside, tiles))))
        batches = [v for v in self.product.both if v not in (lane, t.turns)]
        shared = [v for v in batches if v in sharing]
        batches = [v for v in batches if v not in sharing]
        outer = [*batches, *rest_lanes, many, *rest_rows, chunk, *shared]
        around = [v for v in outer if v.extent != 1 and v not in inside]
        return replace(self.kernel, body=serial(around, body)), len(around)

    def _rows(self) -> int:
        """Of a tile: as alike as they can be."""
        if self.tiling.matrix or not isinstance(self.count, int):
            return self.tiling.rows
        tiles, unit = -(-self.count // self.tiling.rows), self.tiling.unit
        return -(-self.count // (tiles * unit)) * unit

    # ---- copies -------------------------------------------------------------------------------

    def _copy_lanes(self, within: Sym) -> tuple[Stmt, ...]:
        """A panel: for each term of the sum, or word of terms, its lanes side by side."""
        p, width, dot = self.product, self.tiling.panel, self.tiling.dot
        if self.tiling.split:
            return self._copy_split_lanes(within)
        terms, value = self._terms(p.second, first=False)
        place, depth = flat(terms)
        count = self.tiling.panels if self.held else 1
        panel = self._reserve("panel", value, mul(self._deep(depth), width * count))
        place = add(place, mul(flat(self.held)[0], depth))
        fill = Store(panel, add(mul(place, width), within.dim), value)
        self.product = replace(p, second=load(panel, add(mul(place, width), within.dim)))
        if self.tiling.matrix:
            rest = self.names.var(add(self._deep(depth), mul(depth, -1)), "z")
            nothing = Store(panel, add(mul(add(depth, rest.dim), width), within.dim), const(0, Scalar.I32))
            fills = serial(terms, (For(within, Loop.VECTOR, (fill,)),))
            return (*fills, *(serial([rest], (For(within, Loop.VECTOR, (nothing,)),)) if rest.extent else ()))
        if dot is not None:
            return serial(terms, (For(within, Loop.VECTOR, (fill,)),))
        return self._squares(p.second, within, (fill,))

    def _squares(self, factor: Expr, within: Sym, fills: tuple[Store, ...]) -> tuple[Stmt, ...]:
        """The lanes of each term; where terms lie side by side in memory and lanes do not, squares of both
        are transposed in registers."""
        *outer, last = self.product.summed
        if any(stride(at, last) != 1 or stride(at, within) == 1 for at in dims_of(factor)):
            return serial((*outer, last, *self.held), (For(within, Loop.VECTOR, fills),))
        block, term, at = pieces(self.names, last.extent or 0, SQUARE, "k")
        moved = Rewrite({last: at}).body(fills)
        squares = (For(within, Loop.VECTOR, (For(term, Loop.TILE, (fill,)),)) for fill in moved)
        return tuple(s for square in squares for s in _loops([*self.held, *outer, block], (square,)))

    def _copy_split_lanes(self, within: Sym) -> tuple[Stmt, ...]:
        """A panel that has for each term words of the upper parts, behind them those of the lower ones."""
        p, width = self.product, self.tiling.panel
        place, depth = flat(p.summed)
        values = split(p.second)[1]
        panel = self._reserve("panel", values[0], mul(self._deep(depth), 2 * width))
        at = add(mul(place, 2 * width), within.dim)
        fills = tuple(Store(panel, add(at, k * width), x) for k, x in enumerate(values))
        made = self._squares(p.second, within, fills)
        self.product = replace(p, second=load(panel, at))
        rest = self.names.var(mul(2, add(self._deep(depth), mul(depth, -1))), "z")
        after = add(mul(add(mul(2, depth), rest.dim), width), within.dim)
        nothing = (For(within, Loop.VECTOR, (Store(panel, after, const(0, Scalar.I32)),)),)
        filled = serial([rest], nothing) if rest.extent != 0 else ()
        return *made, *filled

    def _copy_rows(self, first: Dim, size: int) -> tuple[Stmt, ...]:
        """The rows of an item, each with its terms, or words of them, side by side, a few elements apart from
        the next one so that they do not meet in the same lines of the nearest cache."""
        p = self.product
        terms, value = self._terms(p.first, first=True)
        place, depth = flat(terms)
        pitch = add(self._deep(depth), self.tiling.width)
        rows = self._reserve("rows", value, mul(pitch, size))
        own = self.names.var(minimum(size, add(self.count, mul(first, -1))), "r")
        *outer, last = terms or (self.names.var(1, "k"),)
        copied = Rewrite({self.row: add(first, own.dim)}).expr(value)
        fill = Store(rows, add(mul(own.dim, pitch), place), copied)
        here = add(self.row.dim, mul(first, -1))
        self.product = replace(p, first=load(rows, add(mul(here, pitch), place)))
        rest = self.names.var(add(self._deep(depth), mul(depth, -1)), "z")
        nothing = Store(rows, add(mul(own.dim, pitch), add(depth, rest.dim)), const(0, Scalar.I32))
        tail = (For(rest, Loop.VECTOR, (nothing,)),) if rest.extent != 0 else ()
        reads = [at for at in dims_of(p.first) if moves((at,), self.row)]
        if all(stride(at, self.row) == 1 != stride(at, last) for at in reads):
            block, row, at_row = pieces(self.names, own.extent or 0, SQUARE, "r")
            square = For(last, Loop.VECTOR, (For(row, Loop.TILE, (Rewrite({own: at_row}).stmt(fill),)),))
            zeros = serial([own], tail) if tail else ()
            return *_loops([block, *outer], (square,)), *zeros
        return serial([own], (*nested([*outer, last], Loop.VECTOR, (fill,), self.names), *tail))

    def _deep(self, words: Dim) -> Dim:
        """Words of a sum, filled up where whole tiles of them are read."""
        return mul(ceildiv(words, SQUARE), SQUARE) if self.tiling.matrix else words

    def _terms(self, factor: Expr, *, first: bool) -> tuple[tuple[Sym, ...], Expr]:
        """The loops over a factor's terms, or over words of them, and what is copied there."""
        p, dot = self.product, self.tiling.dot
        if dot is None:
            return p.summed, factor
        if self.tiling.split:
            return p.summed, split(factor)[0]
        *outer, last = p.summed
        return (*outer, self.words), word(factor, last, self.words, dot, first=first)

    def _by_words(self) -> Product:
        """The sum over words; as one loop where it is filled up."""
        p, t = self.product, self.tiling
        first = p.first if t.copy_rows else self._terms(p.first, first=True)[1]
        second = p.second if t.copy_lanes else self._terms(p.second, first=False)[1]
        loops = p.summed if t.split else (*p.summed[:-1], self.words)
        if not t.matrix:
            return replace(p, summed=loops, first=first, second=second)
        one = self.names.var(self._deep(flat(loops)[1]), "w")

        def by_one(x: Expr) -> Expr:
            assert isinstance(x, Load), "tiles of matrices are loaded"
            at = counted(x.index, loops, one.dim)
            assert at is not None, "tiles of matrices lie evenly"
            return load(x.buffer, at, x.word)

        return replace(p, summed=(one,), first=by_one(first), second=by_one(second))

    def _offset(self, within: Sym) -> tuple[Stmt, ...]:
        """Where the first factor's bytes are made unsigned, by adding 128, as much less of each sum."""
        p, dot = self.product, self.tiling.dot
        if dot is not Op.DOT4U:
            return ()
        less = self._reserve("less", p.second, self.tiling.panel)
        total = replace(p.sum.buffer, name=self.names.name("acc"))
        term = Fold(total, Op.ADD, alu(dot, const(OFFSET, Scalar.I32), p.second))
        store = Store(less, within.dim, p.sum.value - load(total, 0))
        body = (Alloc(total, const(0, Scalar.I32)), *serial(p.summed, (term,)), store)
        self.product = replace(p, sum=replace(p.sum, value=load(less, within.dim)))
        return (For(within, Loop.VECTOR, body),)

    def _reserve(self, name: str, of: Expr, count: Dim) -> Buffer:
        self.kernel, buffer = reserve(self.kernel, self.names.name(name), of.type, count)
        return buffer

    # ---- tiles --------------------------------------------------------------------------------

    def _tiles(self, tile: Dim, size: int, within: Sym) -> tuple[Stmt, ...]:
        """The tile of so many rows at `tile`, or what is left for the last one."""
        if self.tiling.matrix:
            return self._matrix(mul(tile, size), size, within)
        if self.tiling.row is None:
            return self._tile(0, 1, within)
        first = mul(tile, size)
        full = self._panel_tile(first, size, within)
        if mod(self.count, size) == 0:
            return full
        if isinstance(self.count, int):
            rest = self._panel_tile(first, self.count % size, within)
        else:
            rest = self._rest(first, size, within)
        whole = alu(Op.LE, index(add(first, size)), index(self.count))
        return If(whole, full), If(alu(Op.NOT, whole), rest)

    def _rest(self, first: Dim, size: int, within: Sym) -> tuple[Stmt, ...]:
        """Rows of an open number, fewer than a tile's, a few at a time. Of the last few all may be the last
        row, as fewer sums take as long; where tiles hold units, or results leave registers through scratch,
        they are summed unit by unit."""
        unit, left = self.tiling.unit, minimum(size - 1, add(self.count, mul(first, -1)))
        if unit == 1 and not self.tiling.apart:
            at_once = min(size, max(1, SUMS // self.tiling.registers))
            part = self.names.var(ceildiv(left, at_once), "r")
            return serial(
                [part], self._tile(add(first, mul(part.dim, at_once)), at_once, within, whole=False)
            )
        body: list[Stmt] = []
        for at_once in dict.fromkeys(-(-few // unit) * unit for few in FEW):
            part = self.names.var(floordiv(left, at_once), "r")
            body += serial([part], self._tile(add(first, mul(part.dim, at_once)), at_once, within))
            done = mul(part.extent or 0, at_once)
            first, left = add(first, done), add(left, mul(done, -1))
        return tuple(body)

    def _panel_tile(self, first: Dim, size: int, within: Sym) -> tuple[Stmt, ...]:
        """The tile for whole panels, and for the last one with no more registers than it needs."""
        t = self.tiling
        few = 1 << (-(-self.last // t.width) - 1).bit_length()
        if not self.last or few >= t.registers or t.dot is not None or self.kept is not None:
            return self._tile(first, size, within)
        whole = self._narrowed(first, size, within, t.panel, t.registers)
        rest = self._narrowed(first, size, within, self.last, few)
        return If(self.is_whole, whole), If(alu(Op.NOT, self.is_whole), rest)

    def _narrowed(self, first: Dim, size: int, within: Sym, lanes: int, registers: int) -> tuple[Stmt, ...]:
        """The tile for so many lanes of a panel."""
        own, product, tiling = self.names.var(lanes, "j"), self.product, self.tiling
        self.product = _moved(product, {within: own.dim})
        self.tiling = replace(tiling, registers=registers)
        made = self._tile(first, size, own)
        self.product, self.tiling = product, tiling
        return made

    def _tile(self, first: Dim, size: int, within: Sym, whole: bool = True) -> tuple[Stmt, ...]:
        """So many rows from `first` on; where there are fewer of them, the last one takes their place."""
        p = self.product
        sums = replace(p.sum.buffer, name=self.names.name("acc"), size=size)
        i, e = self.names.var(size, "i"), self.names.var(size, "e")

        def row(n: Dim) -> Dim:
            return add(first, n) if whole else minimum(add(first, n), add(self.count, -1))

        at = Rewrite({self.row: row(i.dim)})
        factors, dot = (at.expr(p.first), at.expr(p.second)), self.tiling.dot
        term = Fold(sums, Op.ADD, alu(dot or Op.MUL, *factors), i.dim)
        summing = _summing(p.summed, (For(i, Loop.UNROLL, (term,)), *self._fetch(factors[1], first)))
        begin = Alloc(sums, p.sum.value)
        if not self.tiling.apart:
            stores = self._beside(size, lambda n: self._stores(row(n), load(sums, n)))
            return (For(within, Loop.VECTOR, (begin, *summing, *stores), self.tiling.registers),)
        kept = self.kept or self._reserve("tile", load(sums, 0), size * self.tiling.panel)
        start = 0 if self.kept is None else add(first, mul(self.first, -1))
        turned = self.tiling.turns.dim if self.tiling.turns else 0
        place = add(mul(add(mul(add(start, e.dim), self._turns), turned), self.tiling.panel), within.dim)
        body = (begin, *summing, For(e, Loop.UNROLL, (Store(kept, place, load(sums, e.dim)),)))
        if self.kept is not None:
            asked = self._asked(first, size, within) if self.tiling.asked else ()
            return *asked, For(within, Loop.VECTOR, body, self.tiling.registers)
        return For(within, Loop.VECTOR, body, self.tiling.registers), *self._after(kept, first, size, within)

    def _asked(self, first: Dim, size: int, within: Sym) -> tuple[Stmt, ...]:
        """Asks for the lines that results of a tile will be stored to: memory works while it is summed."""
        lane = self.names.var(within.extent or 0, "l")
        next = self.names.var(-(-size * self._turns // SQUARE) * SQUARE, "z")
        turns = self.tiling.turns
        begin = {self.row: first, within: lane.dim} | ({turns: 0} if turns else {})
        lines = ((s.buffer, add(substitute(s.index, begin), next.dim)) for s in self.product.stores)
        asked = tuple(Fetch(buffer, at, nearest=True) for buffer, at in lines)
        return (For(lane, Loop.SERIAL, (For(next, Loop.VECTOR, asked),)),)

    def _upcoming(self, item: Item, around: Sequence[Sym]) -> tuple[Run, ...]:
        p, t = self.product, self.tiling
        lanes = next_panel(p.second, p.summed, item, t.later, self.names) if t.later else None
        rows = next_rows(p.first, p.summed, item, around, self.names) if t.stream else None
        return tuple(run for run in (lanes, rows) if run is not None)

    def _fetch(self, lanes: Expr, first: Dim) -> tuple[Stmt, ...]:
        """Asks for the lanes of a later term, and for a part of what comes after this item."""
        tile = floordiv(add(first, mul(self.first, -1)), self._rows()) if self.runs else 0
        parts = tuple(run.part(tile) for run in self.runs)
        if not self.tiling.ahead or not self.product.summed or not isinstance(lanes, Load):
            return parts
        last = self.product.summed[-1]
        later = substitute(lanes.index, {last: add(last.dim, self.tiling.ahead)})
        return *parts, Fetch(lanes.buffer, later, nearest=True)

    def _beside(self, size: int, stores: Callable[[Dim], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """The stores of all rows of a tile, those together that lie between two lanes."""
        count = self.tiling.beside
        e = self.names.var(size // count, "e")
        if count == 1:
            return (For(e, Loop.UNROLL, stores(e.dim)),)
        b = self.names.var(count, "b")
        return (For(e, Loop.UNROLL, (For(b, Loop.TILE, stores(add(mul(e.dim, count), b.dim))),)),)

    def _matrix(self, first: Dim, size: int, within: Sym) -> tuple[Stmt, ...]:
        """A whole tile, whatever lies where rows or lanes have ended, and what is made of those that are
        there."""
        p, lane = self.product, self.names.var(self.tiling.panel, "j")
        sums = replace(p.sum.buffer, name=self.names.name("acc"), size=size)
        i, e = self.names.var(size, "i"), self.names.var(size, "e")
        at = Rewrite({self.row: add(first, i.dim), within: lane.dim})
        assert self.tiling.dot is not None, "tiles of matrices sum dots"
        dots = (alu(self.tiling.dot, at.expr(p.first), at.expr(x)) for x in self._parts(p.second))
        terms = tuple(Fold(sums, Op.ADD, x, i.dim) for x in dots)
        kept = self._reserve("tile", load(sums, 0), size * self.tiling.panel)
        place = add(mul(e.dim, self.tiling.panel), lane.dim)
        body = (
            Alloc(sums, p.sum.value),
            *serial(p.summed, (For(i, Loop.UNROLL, terms),)),
            For(e, Loop.UNROLL, (Store(kept, place, load(sums, e.dim)),)),
        )
        rows = minimum(size, add(self.count, mul(first, -1)))
        again = self._again(kept, first, rows, within) if self.tiling.split else ()
        tile = For(lane, Loop.VECTOR, body, self.tiling.registers)
        return tile, *again, *self._after(kept, first, rows, within)

    def _parts(self, second: Expr) -> tuple[Expr, ...]:
        """The words of the lanes' factor that each of the rows' is multiplied with."""
        if not self.tiling.split:
            return (second,)
        assert isinstance(second, Load), "what is split is copied"
        return second, load(second.buffer, add(second.index, self.tiling.panel))

    def _again(self, kept: Buffer, first: Dim, size: Dim, within: Sym) -> tuple[Stmt, ...]:
        """Sums that are not finite from the factors as they are: no part of an infinity is one times 0."""
        p, e = self.whole, self.names.var(size, "e")
        odd, total = (replace(p.sum.buffer, name=self.names.name(n), size=1) for n in ("odd", "acc"))
        place = add(mul(e.dim, self.tiling.panel), within.dim)
        at = Rewrite({self.row: add(first, e.dim)})
        term = Fold(total, Op.ADD, at.expr(p.first) * at.expr(p.second))
        sum = (Alloc(total, p.sum.value), *serial(p.summed, (term,)), Store(kept, place, load(total, 0)))
        look = For(within, Loop.VECTOR, (Fold(odd, Op.ADD, load(kept, place) * 0.0),))
        is_odd = alu(Op.NE, load(odd, 0), load(odd, 0))
        return (
            Alloc(odd, const(0.0, Scalar.F32)),
            For(e, Loop.SERIAL, (look,)),
            If(is_odd, (For(e, Loop.SERIAL, (For(within, Loop.VECTOR, sum),)),)),
        )

    def _after(self, kept: Buffer, first: Dim, size: Dim, within: Sym) -> tuple[Stmt, ...]:
        """What is made of the sums, along the lanes or along the rows: in squares that are transposed in
        registers, as rows lie a panel apart in scratch."""
        n, turns = self._turns, self.tiling.turns
        e = self.names.var(mul(size, n), "e")
        place = add(mul(e.dim, self.tiling.panel), within.dim)
        stores = self._stores(add(first, floordiv(e.dim, n)), load(kept, place))
        if turns is not None:
            stores = Rewrite({turns: mod(e.dim, n)}).body(stores)
        if self.tiling.across and len(stores) == 1:
            block, lane, at = pieces(self.names, within.extent or 0, SQUARE, "j")
            moved = Rewrite({within: at}).body(stores)
            return _loops([block], (For(e, Loop.VECTOR, (For(lane, Loop.TILE, moved),)),))
        loops = (within, e) if self.tiling.across else (e, within)
        return (For(loops[0], Loop.SERIAL, (For(loops[1], Loop.VECTOR, stores),)),)

    @property
    def _turns(self) -> int:
        """Results that lie between two rows, and one of these."""
        extent = self.tiling.turns.extent if self.tiling.turns else 1
        assert isinstance(extent, int), "those that take turns have a fixed number"
        return extent

    def _stores(self, row: Dim, total: Expr) -> tuple[Stmt, ...]:
        """The stores of a row for its sum."""
        register = self.product.sum.buffer

        def found(x: Expr) -> Expr | None:
            return total if isinstance(x, Load) and x.buffer == register else None

        return Rewrite({self.row: row}, rule=found).body(self.product.stores)


def register_tile(kernel: Kernel, names: Names, product: Product, tiling: Tiling) -> tuple[Kernel, int]:
    """The kernel in tiles; its items are so many outer loops."""
    return _Tile(kernel, names, product, tiling).build()


def _summing(vars: Sequence[Sym], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The loops of a sum. A last one of two turns is unrolled: left to LLVM, it moves many sums to memory and
    back in each turn (four times slower). With three turns it does so when they are unrolled here."""
    if len(vars) < 2 or not always_fits(vars[-1].extent or 0, SHORT):
        return serial(vars, body)
    return serial(vars[:-1], (For(vars[-1], Loop.UNROLL, body),))


def _sharing(p: Product) -> tuple[Sym, ...]:
    """Batches that move the lanes' factor as lanes do, as windows of several kinds over one image: neighbours
    among them read nearly the same, so that one thread had better compute them."""
    steps = [(v, [stride(at, v) for at in dims_of(p.second)]) for v in (*p.both, *p.lanes)]
    lanes = [found for v, found in steps if v in p.lanes and any(found)]
    return tuple(v for v, found in steps if v in p.both and found in lanes)


def always_fits(extent: Dim, size: int) -> bool:
    """True when one panel holds all lanes."""
    return isinstance(extent, int) and extent <= size


def _moved(p: Product, values: dict[Sym, Dim]) -> Product:
    at = Rewrite(values)
    stores = tuple(s for s in at.body(p.stores) if isinstance(s, Store))
    return replace(p, first=at.expr(p.first), second=at.expr(p.second), stores=stores)


def pieces(names: Names, count: Dim, size: int, stem: str) -> tuple[Sym, Sym, Dim]:
    """(chunk, within, value): `count` turns in chunks of `size`."""
    chunk = names.var(ceildiv(count, size), f"{stem}c")
    left = add(count, mul(turn(chunk), -size))
    within = names.var(size if mod(count, size) == 0 else minimum(size, left), stem)
    return chunk, within, add(mul(turn(chunk), size), turn(within))


def _loops(vars: Sequence[Sym], body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    return serial([v for v in vars if v.extent != 1], body)
