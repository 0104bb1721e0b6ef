"""Window tile: the image that windows slide over is copied to scratch, and the sums of several rows of
windows stay in registers.

    for c: 0 … 64                                  for c: 0 … 64
      for i: 0 … 28                                  image[58, 2, 29] = x[c] with its border
        for j: 0 … 28                                for t: 0 … 4
          acc = 0                                      vector j: 0 … 28
          for k: 0 … 3                    ->             acc[7] = 0
            for l: 0 … 3                                 unroll l, i, k:
              acc += w[c, k, l]                            acc[i] += w[c, k, l]
                · x[c, 2i + k, 2j + l]                       · image[2·(7t + i) + k, l mod 2, j + l // 2]
          y[c, i, j] = f(acc)                            unroll i: y[c, 7t + i, j] = f(acc[i])

Each image is read once and copied to the nearest cache with its border; each row of it serves several rows of
windows. If windows have a stride, the columns of the image are sorted by their remainder modulo the stride,
so that neighbouring windows read contiguous elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import gcd

from anyrt.core.dims import Dim, Fn, Sym, add, ceildiv, depends, floordiv, minimum, mod, mul, product
from anyrt.core.dims import Expr as DimExpr
from anyrt.ir.buffer import Buffer
from anyrt.ir.kernel import (
    Alloc,
    Const,
    Expr,
    Fold,
    For,
    Kernel,
    Load,
    Loop,
    Op,
    Stmt,
    Store,
    alu,
    const,
    load,
)
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import dims_of, loops, stores
from anyrt.ir.visit import Rewrite
from anyrt.ir.windows import together
from anyrt.loops.nest import Estimate, Names, moves, reserve, serial, stride, turn
from anyrt.loops.product import Product, product_of
from anyrt.loops.split import pieces
from anyrt.loops.split_by_range import first_inside, ranges

SUMS = 8  # registers, whose sums hide each other's latencies
COPIES = 512  # products of unrolled text
PARTS = 256  # of expressions that the ranges of an image may have together
SHORT = 2  # vectors of a row
FAR = 1 << 30  # iterations of a loop of dynamic extent


@dataclass(frozen=True, slots=True)
class Slide:
    """How windows slide along one axis of an image: `out` counts them, `tap` counts positions in one, None if
    that is one element; window `out` has the elements step·out + dilation·tap, which is the index `at`."""

    out: Sym
    tap: Sym | None
    step: int
    dilation: int
    at: Sym

    @property
    def place(self) -> Dim:
        """The position of a window's element in the image."""
        return add(mul(self.out.dim, self.step), 0 if self.tap is None else mul(self.tap.dim, self.dilation))


@dataclass(frozen=True, slots=True)
class Windows:
    """A sum of products of windows, alone inside loops. `outer`: the loops over images; `planes`: loops of
    the sum that belong to no slide; `element` is the image's element at the slides' `at`, and `factor` its
    factor."""

    outer: tuple[Sym, ...]
    rows: Slide | None
    columns: Slide
    planes: tuple[Sym, ...]
    element: Expr
    factor: Expr
    sum: Alloc
    stores: tuple[Store, ...]


def windows_of(kernel: Kernel) -> Windows | Fail:
    """The windows of images that a kernel of serial loops sums."""
    p = _one_sided(kernel)
    if isinstance(p, Fail):
        return p
    slides, element = _slides(p.second, p.n[-2:], p.summed)
    taps = [s.tap for s in slides if s.tap is not None]
    if not taps:
        return Fail("no window slides")
    if any(moves(dims_of(element), v) for v in (*taps, *(s.out for s in slides))):
        return Fail("its windows are not parts of an image")
    planes = tuple(v for v in p.summed if v not in taps)
    outer = (*p.batch, *p.n[:-2])
    rows = slides[0] if len(slides) > 1 else None
    return Windows(outer, rows, slides[-1], planes, element, p.first, p.sum, p.stores)


def _one_sided(kernel: Kernel) -> Product | Fail:
    """A sum of products with loops that move the second factor alone, or both."""
    product = product_of(kernel)
    if isinstance(product, Fail):
        return product
    p = product.turned if product.m and not product.n else product
    if p.m or not p.n:
        return Fail("both factors have loops of their own")
    if any(moves(dims_of(p.sum.value), v) for v in p.summed):
        return Fail("the initial value of its sum moves with its terms")
    return p


def _slides(x: Expr, outs: Sequence[Sym], summed: Sequence[Sym]) -> tuple[list[Slide], Expr]:
    """A slide for each loop over windows, and the element by its positions."""
    steps = sorted(_steps(x, outs, summed), key=lambda candidate: candidate[2] + candidate[3])
    chosen: dict[Sym, tuple[Sym | None, int, int]] = {}
    for out, tap, step, dilation in steps:
        if out not in chosen and tap not in {t for t, _, _ in chosen.values()} and 1 in (step, dilation):
            chosen[out] = tap, step, dilation
    slides = [_slide(out, *chosen.get(out, (None, 1, 1))) for out in outs]
    values: dict[Sym, Dim] = {}
    for slide in slides:
        if slide.tap is not None and slide.dilation == 1:
            values[slide.tap] = add(slide.at.dim, mul(slide.out.dim, -slide.step))
        else:
            rest = 0 if slide.tap is None else mul(slide.tap.dim, -slide.dilation)
            values[slide.out] = add(slide.at.dim, rest)
    return slides, Rewrite(values).expr(x)


def _slide(out: Sym, tap: Sym | None, step: int, dilation: int) -> Slide:
    own = 0 if tap is None else mul(add(tap.extent or 0, -1), dilation)
    last = add(mul(add(out.extent or 0, -1), step), own)
    return Slide(out, tap, step, dilation, Sym(f"{out.name}.at", extent=add(last, 1)))


def _steps(x: Expr, outs: Sequence[Sym], summed: Sequence[Sym]) -> Iterator[tuple[Sym, Sym, int, int]]:
    """(loop over windows, loop over elements of one, their steps), for each index that moves with both."""
    loops = (*outs, *summed)
    for at in dict.fromkeys(d for dim in dims_of(x) for d in _inside(dim)):
        moving = [loops[k] for k in together(at, loops)]
        taps = [v for v in moving if v in summed]
        for out, tap in ((out, tap) for out in moving if out in outs for tap in taps):
            a, b = stride(at, out), stride(at, tap)
            if isinstance(a, int) and isinstance(b, int) and _overlap(out, tap, a, b):
                yield out, tap, abs(a) // gcd(a, b), abs(b) // gcd(a, b)


def _overlap(out: Sym, tap: Sym, a: int, b: int) -> bool:
    """True if an element belongs to several windows, as far as sizes are known."""
    if a * b <= 0:
        return False
    sizes = (v.extent if isinstance(v.extent, int) else FAR for v in (out, tap))
    windows, taps = ((n - 1) * abs(step) for n, step in zip(sizes, (a, b), strict=True))
    return windows >= abs(b) and taps >= abs(a)


def _inside(x: Dim) -> Iterator[Dim]:
    """An index, and the operands of its minima and maxima."""
    yield x
    for monomial, _ in x.terms if isinstance(x, DimExpr) else ():
        for atom in monomial:
            if isinstance(atom, Fn):
                for arg in atom.args:
                    yield from _inside(arg)


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes: an item has `band` rows of windows (None: all of them), of which `tile` stay in registers, each
    `registers` vectors of `lanes` wide, and copies so many `images` one after the other."""

    band: int | None
    tile: int
    registers: int
    lanes: int
    images: int


@dataclass(slots=True)
class _Tiles:
    """Builds the loops of one kernel. `start`: the first row of windows of a band, which has `count`; `deep`:
    the stored rows of the image, each with `pitch` columns for each remainder; `shift`: columns before the
    first, so that the inside begins with a whole step."""

    kernel: Kernel
    names: Names
    windows: Windows
    size: Size
    estimate: Estimate
    rows: Slide = field(init=False)
    band: Sym = field(init=False)
    start: Dim = field(init=False)
    count: Dim = field(init=False)
    deep: Dim = field(init=False)
    pitch: Dim = field(init=False)
    shift: int = field(init=False)
    image: Buffer = field(init=False)

    def __post_init__(self) -> None:
        one, columns = self.names.var(1, "m"), self.windows.columns
        self.rows = self.windows.rows or Slide(one, None, 1, 1, one)
        total = self.rows.out.extent or 0
        size = total if self.size.band is None else self.size.band
        self.band = self.names.var(1 if self.size.band is None else ceildiv(total, size), "b")
        self.start = mul(turn(self.band), size)
        self.count = minimum(size, add(total, mul(self.start, -1)))
        self.deep = self._reach(size)
        self.shift = -first_inside(columns.at, self.windows.element) % columns.step
        self.pitch = ceildiv(add(columns.at.extent or 0, self.shift), columns.step)
        count = product([*(v.extent or 0 for v in self.windows.planes), self.deep, columns.step, self.pitch])
        kind, name = self.windows.element.type, self.names.name("image")
        room = self.size.registers * self.size.lanes
        self.kernel, image = reserve(self.kernel, name, kind, add(count, room))
        self.image = replace(image, padded=True)

    def _reach(self, windows: Dim) -> Dim:
        """Rows of the image that so many rows of windows read."""
        tap, step, dilation = self.rows.tap, self.rows.step, self.rows.dilation
        own = 1 if tap is None else add(mul(add(tap.extent or 0, -1), dilation), 1)
        return add(mul(add(windows, -1), step), own)

    def build(self) -> tuple[Kernel, int]:
        """The kernel, and how many of its outer loops are its items. The border, which no image changes,
        is stored once per item, on top of zeros everywhere; a border that varies by image is stored with
        each."""
        *outer, last = self.windows.outer or (self.names.var(1, "c"),)
        block, within, at = pieces(self.names, last.extent or 0, self.size.images, "c")
        fill, tiles = self._fill(), self._tiles()
        moving, still = _stores_where(fill, _is_moving), (self._zeros(), *_stores_where(fill, _is_border))
        if _moves_border(fill, last):
            moving, still = (*still, *moving), ()
        each = Rewrite({last: at}).body((*moving, *tiles))
        items = [v for v in (*outer, block, self.band) if v.extent != 1]
        body = (*still, *serial([within] if within.extent != 1 else [], each))
        return replace(self.kernel, body=serial(items, body)), len(items)

    # ---- the image ----------------------------------------------------------------------------

    def _zeros(self) -> Stmt:
        at = self.names.var(self.image.size, "z")
        return For(at, Loop.VECTOR, (Store(self.image, at.dim, const(0, self.image.stored)),))

    def _fill(self) -> tuple[Stmt, ...]:
        """Loops that copy the image: one for each range of rows and of columns in which no comparison of
        positions is left."""
        at = self.names.var(self._reach(self.count), "r")
        first = mul(self.start, self.rows.step)
        element = Rewrite({self.rows.at: add(first, at.dim)}).expr(self.windows.element)
        body: list[Stmt] = []
        for start, var, value in self._ranges(at, element, self.windows.columns.at):
            row = self._row(start if var is None else add(start, var.dim))
            copied = self._copied(row, value)
            body += copied if var is None else self._each_row(var, copied)
        return serial(self.windows.planes, body)

    def _each_row(self, var: Sym, copied: tuple[Stmt, ...]) -> Iterator[Stmt]:
        """Loops over rows that are copied in this way. If a row is a dynamic, small number of vectors, that
        loop is inside: masks and addresses are then computed once for all rows."""
        inside = [s for s in copied if isinstance(s, For) and self._is_short(s.var, var)]
        for loop in inside:
            yield replace(loop, body=serial([var], loop.body))
        rest = [s for s in copied if s not in inside]
        if rest:
            yield from serial([var], rest)

    def _is_short(self, var: Sym, row: Sym) -> bool:
        is_open = not isinstance(var.extent, int) and not depends(var.extent or 0, row)
        return is_open and self.estimate(var) <= SHORT * self.size.lanes

    def _ranges(self, var: Sym, element: Expr, *inner: Sym) -> Iterator[tuple[Dim, Sym | None, Expr]]:
        """(start, counter, element) for each range; positions that `inner` decides, which count within a
        step, are no ends of ranges."""
        loop = For(var, Loop.SERIAL, serial(inner, (Store(self.image, 0, element),)))
        for start, counter, (stmt,) in ranges(loop, self.names, self.estimate, PARTS):
            while isinstance(stmt, For):
                (stmt,) = stmt.body
            assert isinstance(stmt, Store), "a range stores what the loop does"
            yield start, counter, stmt.value

    def _copied(self, row: Dim, element: Expr) -> tuple[Stmt, ...]:
        """The row of the image that begins at `row`."""
        columns = self.windows.columns
        if isinstance(element, Const):
            at = self.names.var(mul(self.pitch, columns.step), "x")
            return (For(at, Loop.VECTOR, (Store(self.image, add(row, at.dim), element),)),)
        body: list[Stmt] = []
        column = self.names.var(columns.at.extent or 0, "x")
        element = Rewrite({columns.at: column.dim}).expr(element)
        for start, var, value in self._ranges(column, element):
            body += self._run(row, add(start, self.shift), var, value)
        return tuple(body)

    def _run(self, row: Dim, first: Dim, var: Sym | None, value: Expr) -> tuple[Stmt, ...]:
        """Columns from `first` on, sorted by their remainder."""
        step = self.windows.columns.step
        if var is None:
            return (Store(self.image, self._place(row, first), value),)
        length = var.extent or 0
        if step == 1 or mod(first, step) != 0:
            store = self._stored(row, first, var, var.dim, value)
            return (For(var, Loop.VECTOR if step == 1 else Loop.SERIAL, (store,)),)
        many, rest = self.names.var(floordiv(length, step), "x"), self.names.var(mod(length, step), "x")
        turns = (add(mul(many.dim, step), left) for left in range(step))
        body = tuple(self._stored(row, first, var, at, value) for at in turns)
        whole = (For(many, Loop.VECTOR, body),) if many.extent != 0 else ()
        at = add(mul(many.extent or 0, step), rest.dim)
        last = serial([rest], (self._stored(row, first, var, at, value),)) if rest.extent != 0 else ()
        return (*whole, *last)

    def _stored(self, row: Dim, first: Dim, var: Sym, at: Dim, value: Expr) -> Store:
        place = self._place(row, add(first, at))
        return Store(self.image, place, Rewrite({var: at}).expr(value))

    def _row(self, at: Dim) -> Dim:
        """Where a row of the image begins."""
        plane: Dim = 0
        for v in self.windows.planes:
            plane = add(mul(plane, v.extent or 0), v.dim)
        return mul(add(mul(plane, self.deep), at), mul(self.pitch, self.windows.columns.step))

    def _place(self, row: Dim, column: Dim) -> Dim:
        """The position of a column in the row that begins at `row`."""
        step = self.windows.columns.step
        return add(row, add(mul(mod(column, step), self.pitch), floordiv(column, step)))

    # ---- sums ---------------------------------------------------------------------------------

    def _tiles(self) -> tuple[Stmt, ...]:
        """All rows of a band in tiles, and the remainder: for a dynamic number a few at a time, of which the
        last ones may all be the last row, since fewer sums would take as long."""
        size = self.size.tile
        if isinstance(self.count, int):
            size = -(-self.count // -(-self.count // size))
        whole, rest = self.names.var(floordiv(self.count, size), "t"), mod(self.count, size)
        tiles = serial([whole] if whole.extent != 1 else [], self._tile(mul(turn(whole), size), size))
        first = mul(whole.extent or 0, size)
        if isinstance(rest, int):
            return (*tiles, *(self._tile(first, rest) if rest else ()))
        at_once = min(size, max(1, SUMS // self.size.registers))
        part = self.names.var(ceildiv(rest, at_once), "t")
        last = self._tile(add(first, mul(part.dim, at_once)), at_once, whole=False)
        return (*tiles, *serial([part], last))

    def _tile(self, first: Dim, size: int, whole: bool = True) -> tuple[Stmt, ...]:
        """So many rows of windows from `first` on; if there are fewer of them, the last one is repeated."""
        w, rows, columns = self.windows, self.rows, self.windows.columns
        sums = replace(w.sum.buffer, name=self.names.name("acc"), size=size)
        i, e = self.names.var(size, "i"), self.names.var(size, "e")

        def place(n: Dim) -> Dim:
            return add(first, n) if whole else minimum(add(first, n), add(self.count, -1))

        row = Rewrite({rows.out: place(i.dim)}).dim(rows.place)
        at = self._place(self._row(row), add(columns.place, self.shift))
        term: tuple[Stmt, ...] = (Fold(sums, Op.ADD, alu(Op.MUL, w.factor, load(self.image, at)), i.dim),)
        vars = [v for v in (columns.tap, *w.planes, i, rows.tap) if v is not None]
        copies = self.size.registers
        for var in reversed(vars):
            copies *= var.extent if isinstance(var.extent, int) else COPIES + 1
            term = (For(var, Loop.UNROLL if var is i or copies <= COPIES else Loop.SERIAL, term),)
        stores = _of_sums(w, add(self.start, place(e.dim)), rows.out, load(sums, e.dim))
        body = (Alloc(sums, w.sum.value), *term, For(e, Loop.UNROLL, stores))
        return (For(columns.out, Loop.VECTOR, body, self.size.registers),)


def _of_sums(w: Windows, row: Dim, out: Sym, total: Expr) -> tuple[Stmt, ...]:
    """The stores of a row of windows for its sum."""

    def replacement(x: Expr) -> Expr | None:
        return total if isinstance(x, Load) and x.buffer == w.sum.buffer else None

    return Rewrite({out: row}, rule=replacement).body(w.stores)


def _moves_border(fill: Sequence[Stmt], image: Sym) -> bool:
    """True if it depends on the image which elements of its copy are inside."""
    return moves([*(s.var.extent or 0 for s in loops(fill)), *(s.index for s in stores(fill))], image)


def _is_border(value: Expr) -> bool:
    """True for a number that is stored around images, unless that is 0 anyway."""
    return isinstance(value, Const) and value.value != 0


def _is_moving(value: Expr) -> bool:
    return not isinstance(value, Const)


def _stores_where(body: Sequence[Stmt], predicate: Callable[[Expr], bool]) -> tuple[Stmt, ...]:
    """The stores in loops whose values are needed."""
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case For(body=inner):
                stored = _stores_where(inner, predicate)
                out += [replace(stmt, body=stored)] if stored else []
            case Store(value=value) if predicate(value):
                out.append(stmt)
    return tuple(out)


def window_tile(
    kernel: Kernel, names: Names, windows: Windows, size: Size, estimate: Estimate
) -> tuple[Kernel, int]:
    """The kernel in tiles of rows of windows; its items are so many outer loops."""
    return _Tiles(kernel, names, windows, size, estimate).build()
