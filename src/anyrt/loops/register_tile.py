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
both. Here is how large a tile is, and the names of the loops that it splits rows and lanes into; the steps
that make it are files of their own: split, pack, dots, peel, cache_write, accumulate, upcoming.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyrt.core.dims import Dim, Sym, add, ceildiv, minimum, mod, mul
from anyrt.ir.kernel import Alu, Cast, Expr, Intrinsic, Op, alu, index
from anyrt.ir.statements import dims_of
from anyrt.ir.visit import parts
from anyrt.loops.nest import Names, stride, turn
from anyrt.loops.pack import SQUARE
from anyrt.loops.product import Product
from anyrt.loops.split import pieces, several

LIGHT = 12  # instructions that are made of a sum in registers, where their text is there once for each row


@dataclass(frozen=True, slots=True)
class Words:
    """The intrinsic, what is copied, and the rows of tiles of matrices (0: there are none). `split`: words
    hold the two parts of one term."""

    dot: Intrinsic
    copy_rows: bool
    copy_lanes: bool
    matrix_rows: int = 0
    split: bool = False

    @property
    def parts(self) -> int:
        """Terms of a word."""
        return 1 if self.split else self.dot.parts


@dataclass(frozen=True, slots=True)
class Tile:
    """Of `rows` of the loop `row`, each `registers` vectors of `width` lanes of the loop `lane`; so many
    `tiles` and `panels` an item. Tiles hold whole `unit`s of rows; `beside`: so many rows are stored between
    two lanes. `fused`: two loops and the one over rows that they become first. `copy_rows`, `copy_lanes`: the
    factor is copied to scratch, `held`: in all panels of an item before its tiles; `words`: of terms.
    `across`: results are stored along the rows, taking turns with those of the loop `turns`.
    `turned`: the second factor is that of the rows."""

    product: Product
    row: Sym | None
    lane: Sym
    rows: int
    registers: int
    width: int
    tiles: int = 1
    panels: int = 1
    unit: int = 1
    beside: int = 1
    fused: tuple[Sym, Sym, Sym] | None = None
    copy_rows: bool = False
    copy_lanes: bool = False
    held: bool = False
    words: Words | None = None
    across: bool = False
    turns: Sym | None = None
    turned: bool = False

    @property
    def panel(self) -> int:
        """Lanes of a panel."""
        return self.registers * self.width

    @property
    def is_whole(self) -> bool:
        """Whether tiles of matrices are always whole."""
        return self.words is not None and self.words.matrix_rows > 0


@dataclass(frozen=True, slots=True)
class RowLoops:
    """The loop `row` in items, `chunk`, of rows `own`; these in tiles, `within`, of `size` rows `i`, which
    begin at row `first`."""

    row: Sym
    size: int
    chunk: Sym
    own: Sym
    within: Sym
    i: Sym
    first: Dim
    begin: Dim  # of an item

    @property
    def count(self) -> Dim:
        """All rows."""
        return self.row.extent or 0


@dataclass(frozen=True, slots=True)
class LaneLoops:
    """The lanes in items, `many`, of panels, `panel`, of lanes `j`; `at`: where loops over lanes are by
    these. `last`: lanes of the last panel, where that is known to have fewer; all others are `whole`."""

    many: Sym
    panel: Sym
    j: Sym
    at: dict[Sym, Dim]
    last: int
    whole: Expr


@dataclass(frozen=True, slots=True)
class Tiled:
    """The loops that a tile splits rows and lanes into: those around `items`, then over `panels`, those
    `inside` that read a panel again, and `tiles` around an item's rows."""

    tile: Tile
    rows: RowLoops
    lanes: LaneLoops
    items: tuple[Sym, ...]
    panels: tuple[Sym, ...]
    inside: tuple[Sym, ...]
    tiles: tuple[Sym, ...]

    @property
    def held(self) -> tuple[Sym, ...]:
        """The panels of an item, where all are copied first."""
        return several((self.lanes.panel,)) if self.tile.held else ()

    @property
    def order(self) -> tuple[Sym, ...]:
        """All loops, before an item's rows are split."""
        return *self.items, *self.panels, *self.inside, *self.tiles, self.rows.own, self.lanes.j

    def behind(self, *loops: tuple[Sym, ...]) -> Sym:
        """The outermost loop within these."""
        return self.order[sum(map(len, loops))]

    @property
    def deep(self) -> int:
        """Words of a sum come in multiples of it."""
        return SQUARE if self.tile.is_whole else 1

    @property
    def product(self) -> Product:
        """The product by the loops over lanes."""
        return self.tile.product.at(self.lanes.at)

    @property
    def is_apart(self) -> bool:
        """Whether results leave registers through scratch."""
        values = [s.value for s in self.tile.product.stores]
        weight = sum(isinstance(x, Alu | Cast) for x in parts(values, bound=False))
        return self.tile.is_whole or self.tile.across or weight > LIGHT

    @property
    def is_together(self) -> bool:
        """Whether results of all tiles of an item leave scratch together, so that whole lines are stored."""
        t = self.tile
        return t.across and (t.tiles > 1 or t.turns is not None) and t.unit == 1 and not t.is_whole

    @property
    def few(self) -> int:
        """Registers for the lanes of the last panel, where there are fewer and these need fewer."""
        t, few = self.tile, 1 << (-(-self.lanes.last // self.tile.width) - 1).bit_length()
        rows = t.row is not None and not self.is_together
        narrow = self.lanes.last and few < t.registers and t.words is None and rows
        return few if narrow else 0

    def registers(self, lanes: Dim) -> int:
        """Of a tile of so many lanes."""
        return self.few if self.few and lanes == self.lanes.last else self.tile.registers


def tiled(t: Tile, names: Names) -> Tiled:
    """The loops of a tile."""
    p, rest = t.product, [v for v in t.product.lanes if v not in (t.lane, t.turns)]
    lanes = t.lane.extent or 0
    cut = rest.pop() if isinstance(lanes, int) and lanes <= t.panel and rest else None
    rows, columns = _row_loops(t, names), _lane_loops(t, cut, names)
    inside = tuple(v for v in p.rows if v is not t.row) if t.copy_lanes and not t.copy_rows else ()
    batches, shared = [v for v in p.both if v not in (t.lane, t.turns)], _sharing(p)
    others = [v for v in p.rows if v not in (t.row, *inside)]
    apart, together = ([v for v in batches if (v in shared) == some] for some in (False, True))
    panels = several((columns.panel,))
    turns = (t.turns,) if t.turns else ()
    return Tiled(
        t,
        rows,
        columns,
        items=several([*apart, *rest, columns.many, *others, rows.chunk, *together]),
        panels=() if t.held else panels,
        inside=inside,
        tiles=several((*turns, *panels) if t.held else turns),
    )


def _row_loops(t: Tile, names: Names) -> RowLoops:
    row = t.row or names.var(1, "m")
    count, size = row.extent or 0, _size(t, row.extent or 0)
    chunk, within, at = pieces(names, ceildiv(count, size), t.tiles, "t")
    first, begin = mul(at, size), mul(turn(chunk), t.tiles * size)
    own = names.var(minimum(t.tiles * size, add(count, mul(begin, -1))), "r")
    even = mod(count, size) == 0 and not t.is_whole
    i = names.var(size if even else minimum(size, add(count, mul(first, -1))), "i")
    return RowLoops(row, size, chunk, own, within, i, first, begin)


def _lane_loops(t: Tile, cut: Sym | None, names: Names) -> LaneLoops:
    """`cut`: the loop whose turns are panels already."""
    lanes, size = t.lane.extent or 0, t.panel
    many, panel, at = pieces(names, ceildiv(lanes, size) if cut is None else cut.extent or 0, t.panels, "p")
    start = mul(at, size) if cut is None else 0
    fits = isinstance(lanes, int) and lanes <= size
    whole = size if mod(lanes, size) == 0 else minimum(size, add(lanes, mul(start, -1)))
    j = names.var(lanes if fits else whole, "j")
    values = {t.lane: add(start, j.dim)} | ({} if cut is None else {cut: at})
    last = lanes % size if isinstance(lanes, int) and not fits else 0
    return LaneLoops(many, panel, j, values, last, alu(Op.LE, index(add(start, size)), index(lanes)))


def _size(t: Tile, count: Dim) -> int:
    """Rows of a tile: as alike as they can be."""
    if t.is_whole or not isinstance(count, int):
        return t.rows
    tiles = -(-count // t.rows)
    return -(-count // (tiles * t.unit)) * t.unit


def _sharing(p: Product) -> tuple[Sym, ...]:
    """Batches that move the lanes' factor as lanes do, as windows of several kinds over one image: neighbours
    among them read nearly the same, so that one thread had better compute them."""
    steps = [(v, [stride(at, v) for at in dims_of(p.second)]) for v in (*p.both, *p.lanes)]
    lanes = [found for v, found in steps if v in p.lanes and any(found)]
    return tuple(v for v, found in steps if v in p.both and found in lanes)
