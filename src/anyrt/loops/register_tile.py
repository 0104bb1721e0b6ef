"""Register tile: a sum of products becomes tiles of m × n sums in registers.

    for m: 0 … 28                            for t: 0 … 2
      for n: 0 … 64                            for p: 0 … 2
        acc = 0                                  vector j: 0 … 32 (two registers)
        for k: …                                   acc[14] = 0
          acc += x[m, k] · w[k, n]     ->          for k: …
        y[m, n] = f(acc)                             unroll i: 0 … 14
                                                       acc[i] += x[14t + i, k] · w[k, 32p + j]
                                                   unroll i: 0 … 14
                                                     y[14t + i, 32p + j] = f(acc[i])

A loop is classified by the factors that move with it: *m* moves the first, *n* the second, batches both. The
iterations of m in a tile are its rows, those of n are lanes of vectors, which together form a panel. This
file has the parameters of a tile, and the names of the loops that m and n are split into; the steps have
their own files: split, pack, dots, peel, cache_write, accumulate, upcoming.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from anyrt.core.dims import Dim, Sym, add, ceildiv, floordiv, minimum, mod, mul
from anyrt.ir.kernel import Alu, Cast, Expr, Intrinsic, Op, alu, index
from anyrt.ir.statements import dims_of
from anyrt.ir.visit import parts
from anyrt.loops.nest import Names, stride, turn
from anyrt.loops.product import Product
from anyrt.loops.split import pieces, several

LIGHT = 12  # instructions of an epilogue in registers, whose text is repeated for each row


@dataclass(frozen=True, slots=True)
class Words:
    """The intrinsic that sums the words, a multiple of `deep` at once; whole matrix tiles if these are
    several. `split`: words hold the two parts of one term."""

    dot: Intrinsic
    deep: int = 1
    split: bool = False

    @property
    def parts(self) -> int:
        """Terms of a word."""
        return 1 if self.split else self.dot.parts


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a tile: `m` rows, each `registers` vectors of `width` lanes."""

    m: int
    registers: int
    width: int

    @property
    def n(self) -> int:
        """Lanes of a panel."""
        return self.registers * self.width


@dataclass(frozen=True, slots=True)
class Fused:
    """Two loops that become one, `m`, first, whose tiles hold whole iterations of `inner`. `beside`: the
    results of such an iteration are between two lanes."""

    outer: Sym
    inner: Sym
    m: Sym
    beside: bool

    @property
    def unit(self) -> int:
        """Iterations of m that belong together."""
        assert isinstance(self.inner.extent, int), f"loop {self.inner} has a fixed extent"
        return self.inner.extent

    @property
    def values(self) -> dict[Sym, Dim]:
        """The two loops by the fused counter."""
        return {self.outer: floordiv(self.m.dim, self.unit), self.inner: mod(self.m.dim, self.unit)}


class Pack(Enum):
    """The copies of the factor that n moves: none, a panel before the tiles that read it, or all panels of an
    item before its tiles."""

    NOTHING = "nothing"
    EACH = "each panel"
    ITEM = "item"


@dataclass(frozen=True, slots=True)
class Tile:
    """The parameters of the tiles of a product: their `shape`, the loops `m` and `n` whose iterations are
    rows and lanes, and the number of `tiles` and `panels` per item. `pack_m`, `pack_n`: which factors are
    copied; `words`: of terms. `across`: the loops other than n along which results are contiguous, if these
    are not contiguous along n: m, and one whose results are all between two of m. `shares`: whether the
    results of two panels share cache lines, so that one thread should compute both."""

    product: Product
    m: Sym | None
    n: Sym
    shape: Shape
    fused: Fused | None = None
    pack_m: bool = False
    pack_n: Pack = Pack.NOTHING
    words: Words | None = None
    across: tuple[Sym, ...] = ()
    shares: bool = False
    tiles: int = 1
    panels: int = 1

    @property
    def unit(self) -> int:
        """The remainder of m divided by the tile."""
        return self.fused.unit if self.fused else 1

    @property
    def beside(self) -> int:
        """Iterations of m whose results are stored between two lanes."""
        return self.fused.unit if self.fused and self.fused.beside else 1

    @property
    def turns(self) -> Sym | None:
        """The loop whose results are interleaved with those of m."""
        return self.across[1] if len(self.across) > 1 else None

    @property
    def is_whole(self) -> bool:
        """Whether matrix tiles are always whole."""
        return self.words is not None and self.words.deep > 1


@dataclass(frozen=True, slots=True)
class MLoops:
    """The `loop` m in items, `chunk`, of iterations `own`; these in tiles, `within`, of `size` rows `i`, from
    `first` on."""

    loop: Sym
    size: int
    chunk: Sym
    own: Sym
    within: Sym
    i: Sym
    first: Dim
    begin: Dim  # of an item

    @property
    def count(self) -> Dim:
        """All iterations of m."""
        return self.loop.extent or 0


@dataclass(frozen=True, slots=True)
class NLoops:
    """The loop n in items, `many`, of panels, `panel`, of lanes `j`; `at`: the positions of the loops that
    move the second factor, by these. `last`: lanes of the last panel, if that is known to have fewer; all
    others are `whole`."""

    many: Sym
    panel: Sym
    j: Sym
    at: dict[Sym, Dim]
    last: int
    whole: Expr


@dataclass(frozen=True, slots=True)
class Tiled:
    """The loops that a tile splits m and n into: those around `items`, then over `panels`, those `inside`
    that read a panel again, and `tiles` around an item's rows."""

    tile: Tile
    m: MLoops
    n: NLoops
    items: tuple[Sym, ...]
    panels: tuple[Sym, ...]
    inside: tuple[Sym, ...]
    tiles: tuple[Sym, ...]

    @property
    def held(self) -> tuple[Sym, ...]:
        """The panels of an item, if all are copied first."""
        return several((self.n.panel,)) if self.tile.pack_n is Pack.ITEM else ()

    @property
    def order(self) -> tuple[Sym, ...]:
        """All loops before an item's iterations of m are split."""
        return *self.items, *self.panels, *self.inside, *self.tiles, self.m.own, self.n.j

    def behind(self, *loops: tuple[Sym, ...]) -> Sym:
        """The outermost loop within these."""
        return self.order[sum(map(len, loops))]

    @property
    def deep(self) -> int:
        """The divisor of the number of words of a sum."""
        return self.tile.words.deep if self.tile.words else 1

    @property
    def product(self) -> Product:
        """The product by the loops over lanes."""
        return self.tile.product.at(self.n.at)

    @property
    def leaves_by_scratch(self) -> bool:
        """Whether results are stored through scratch."""
        t, values = self.tile, [s.value for s in self.tile.product.stores]
        weight = sum(isinstance(x, Alu | Cast) for x in parts(values, bound=False))
        return t.is_whole or bool(t.across) or weight > LIGHT

    @property
    def is_together(self) -> bool:
        """Whether results of all tiles of an item are stored from scratch together, in whole cache lines."""
        t = self.tile
        return bool(t.across) and (t.tiles > 1 or t.turns is not None) and t.unit == 1 and not t.is_whole

    @property
    def few(self) -> int:
        """Registers for the lanes of the last panel, if it has fewer lanes."""
        t, few = self.tile, 1 << (-(-self.n.last // self.tile.shape.width) - 1).bit_length()
        plain = t.m is not None and not self.is_together and t.words is None
        return few if self.n.last and few < t.shape.registers and plain else 0

    def registers(self, lanes: Dim) -> int:
        """The shape of a tile of so many lanes."""
        return self.few if self.few and lanes == self.n.last else self.tile.shape.registers


def tiled(t: Tile, names: Names) -> Tiled:
    """The loops of a tile."""
    p, rest = t.product, [v for v in t.product.n if v not in (t.n, t.turns)]
    lanes = t.n.extent or 0
    cut = rest.pop() if isinstance(lanes, int) and lanes <= t.shape.n and rest else None
    m, n = _m_loops(t, names), _n_loops(t, cut, names)
    inside = tuple(v for v in p.m if v is not t.m) if t.pack_n is not Pack.NOTHING and not t.pack_m else ()
    batches, shared = [v for v in p.batch if v not in (t.n, t.turns)], _sharing(p)
    others = [v for v in p.m if v not in (t.m, *inside)]
    alone, together = ([v for v in batches if (v in shared) == some] for some in (False, True))
    panels, turns = several((n.panel,)), (t.turns,) if t.turns else ()
    held = t.pack_n is Pack.ITEM
    moving = [*others, m.chunk, n.many] if t.shares else [n.many, *others, m.chunk]
    return Tiled(
        t,
        m,
        n,
        items=several([*alone, *rest, *moving, *together]),
        panels=() if held else panels,
        inside=inside,
        tiles=several((*turns, *panels) if held else turns),
    )


def _m_loops(t: Tile, names: Names) -> MLoops:
    m = t.m or names.var(1, "m")
    count, size = m.extent or 0, _size(t, m.extent or 0)
    chunk, within, at = pieces(names, ceildiv(count, size), t.tiles, "t")
    first, begin = mul(at, size), mul(turn(chunk), t.tiles * size)
    own = names.var(minimum(t.tiles * size, add(count, mul(begin, -1))), "r")
    even = mod(count, size) == 0 and not t.is_whole
    i = names.var(size if even else minimum(size, add(count, mul(first, -1))), "i")
    return MLoops(m, size, chunk, own, within, i, first, begin)


def _n_loops(t: Tile, cut: Sym | None, names: Names) -> NLoops:
    """`cut`: the loop whose iterations are panels already."""
    lanes, size = t.n.extent or 0, t.shape.n
    many, panel, at = pieces(names, ceildiv(lanes, size) if cut is None else cut.extent or 0, t.panels, "p")
    start = mul(at, size) if cut is None else 0
    fits = isinstance(lanes, int) and lanes <= size
    whole = size if mod(lanes, size) == 0 else minimum(size, add(lanes, mul(start, -1)))
    j = names.var(lanes if fits else whole, "j")
    values = {t.n: add(start, j.dim)} | ({} if cut is None else {cut: at})
    last = lanes % size if isinstance(lanes, int) and not fits else 0
    return NLoops(many, panel, j, values, last, alu(Op.LE, index(add(start, size)), index(lanes)))


def _size(t: Tile, count: Dim) -> int:
    """Rows of a tile, as equal as possible."""
    if t.is_whole or not isinstance(count, int):
        return t.shape.m
    tiles = -(-count // t.shape.m)
    return -(-count // (tiles * t.unit)) * t.unit


def _sharing(p: Product) -> tuple[Sym, ...]:
    """Batches that move the second factor as n does, such as windows of several kinds over one image:
    neighbours among them read nearly the same data, so one thread should compute them."""
    steps = [(v, [stride(at, v) for at in dims_of(p.second)]) for v in (*p.batch, *p.n)]
    lanes = [strides for v, strides in steps if v in p.n and any(strides)]
    return tuple(v for v, strides in steps if v in p.batch and strides in lanes)
