"""Tiles: what one contraction makes of the rows of another one, a few rows at a time, without all rows in
memory.

    s = q · kᵀ;  p = softmax(s);  y = p · v     ->     for each batch and tile of rows of y:
                                                          s' = q' · kᵀ;  p' = softmax(s');  y' = p' · v

The scores of attention are far larger than what they are made of and what is made of them. A tile of them
lies in the second cache, in a thread's scratch. It is found by structure: a contraction reads, as its rows'
factor, what single elements and folds of the last axis make of another contraction's result. The graph of one
tile is an ordinary one, with slices of what is read; its kernels are made as all others, and run one after
the other within an item. Columns behind the last one that a row of the tile counts (reach.py), as those that
no query may look at, are left out of all of them; so are those before the first one and behind the last one
that a mask shows to any row, which a kernel in front of the others looks for.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from math import isqrt, prod
from typing import Final

from anyrt.core.dims import (
    Dim,
    Sym,
    add,
    always_le,
    ceildiv,
    depends,
    floordiv,
    linear,
    maximum,
    minimum,
    mod,
    mul,
    product,
    symbols,
)
from anyrt.core.dimvalues import substitute
from anyrt.core.enums import DataType
from anyrt.core.machine import Machine
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.compute import Contracted, Elements, Folded
from anyrt.ir.graph import Graph, Value, apply, users, walk
from anyrt.ir.kernel import bound, cast, load
from anyrt.ir.rewrite import with_args
from anyrt.prims import build
from anyrt.schedule.cost import Sizes
from anyrt.schedule.elements import FusionFailure
from anyrt.schedule.hidden import hides, spreads
from anyrt.schedule.layout import Block, Layout, row_major
from anyrt.schedule.reach import Mask, masks, reach

MOST = 128  # rows
LEAST = 4  # register tiles, of which the second cache may not hold the scores: all of them lie further away
FEW = 4  # rows of a lower register tile, which tiles of an open number hold a multiple of where they are low
LINE = 64  # bytes
SMALL = 64  # times: fewer scores than fill such a part of the second cache are soon stored and loaded
COPIED = 8  # rows that take as long as copying what all rows of a tile are multiplied with
NEAR = 1 << 16  # scores of a tile, beside which a batch's keys and values stay in the second cache
FLOAT = 4  # bytes
BOTH = 2  # scores, and what softmax makes of them
BLOCK = 2  # registers: columns that are left out in one piece
AT: Final = Sym("tile.at")
MANY: Final = 2**31 - 1  # blocks
# Whether masks show any row something of a block, the first such block, and the one behind the last.
ANY, FIRST, BEHIND = (Buffer(n, DataType.INT32, Space.ARENA, 1) for n in ("any", "first", "behind"))
SHOWN: Final = tuple(
    next(iter(symbols(bound(cast(load(b, 0), Scalar.I64), 0, MANY, b.name)))) for b in (FIRST, BEHIND)
)


@dataclass(frozen=True, slots=True)
class Across:
    """The operand of a contraction whose `axis` becomes lanes, in panels of so many, although another one is
    innermost."""

    reader: Value
    operand: Value
    axis: int
    panel: int


@dataclass(frozen=True, slots=True)
class Columns:
    """Where columns begin, and how many there are, and what symbols stand for there."""

    range: tuple[Dim, Dim]
    lets: Mapping[Sym, Dim]


@dataclass(frozen=True, slots=True)
class FusedTile:
    """`root`: what is made in tiles, a contraction, `product`, or what single elements `after` it make of it
    and of folds of what it reads; `inside`: all that is computed for a tile. Along `batches` a tile has one
    element, along `row` so many as `size` says, along the rest all. `factor`: what the product reads of them;
    `reach`: of that, how many columns count in row `AT`; `masks`: what hides its elements, with their axes
    along `places` of the root. A tile computes whole `block`s of columns. `lets`: what stands for `size`.
    `across`: which operand the factor's contraction reads across its rows; then the tiles of a batch are one
    item, which begins with copying that to panels."""

    root: Value
    inside: frozenset[Value]
    batches: tuple[int, ...]
    row: int
    size: Dim
    product: Value
    after: tuple[Value, ...]
    factor: Value
    block: int
    reach: Dim | None = None
    masks: tuple[Mask, ...] = ()
    places: tuple[int, ...] = ()
    lets: Mapping[Sym, Dim] = field(default_factory=dict)
    across: Across | None = None

    @property
    def shape(self) -> tuple[object, ...]:
        """What of it a kernel depends on."""
        size = substitute(self.size, self.lets)
        return self.batches, self.row, size, self.block, self.reach, len(self.masks), self.across is None

    @property
    def loops(self) -> dict[int, Sym]:
        """What numbers the tiles, by axes, that along the rows last."""
        found = {k: Sym(f"tile.{k}", extent=self.root.shape[k]) for k in self.batches}
        return {**found, self.row: Sym("tile.row", extent=ceildiv(self.root.shape[self.row], self.size))}

    @property
    def is_even(self) -> bool:
        """True where all tiles surely have as many rows."""
        return mod(self.root.shape[self.row], self.size) == 0

    @property
    def pitch(self) -> Dim:
        """Elements from one row of the factor to the next, an odd number of lines, so that rows do not meet
        in the same lines of the nearest cache."""
        line = LINE // FLOAT
        return mul(add(mul(ceildiv(self.factor.shape[-1], 2 * line), 2), 1), line)

    @property
    def at_block(self) -> Sym:
        """What numbers the blocks of columns."""
        return Sym("tile.block", extent=ceildiv(self.factor.shape[-1], self.block))

    @property
    def is_partial(self) -> bool:
        """True where columns may be left out."""
        return self.reach is not None or bool(self.masks)

    def columns(self, row: Dim) -> Columns:
        """Which columns of the factor the tile from a row on computes. Where sizes are open, or masks tell,
        a symbol stands for their number, so that it is known what the longest rows take."""
        whole = self.factor.shape[-1]
        if not self.is_partial:
            return Columns((0, whole), {})
        behind = None if self.reach is None else self._reached(self.reach, row)
        if self.masks:
            return self._shown(behind)
        assert behind is not None, "it has a reach"
        if isinstance(whole, int) and whole % self.block == 0:
            found = mul(self.block, minimum(whole // self.block, behind))
        else:
            found = minimum(whole, mul(self.block, behind))
        if isinstance(whole, int) and isinstance(self.loops[self.row].extent, int):
            return Columns((0, found), {})
        seen = Sym("tile.columns", extent=add(whole, 1))
        return Columns((0, seen.dim), {seen: found})

    def _reached(self, reach: Dim, row: Dim) -> Dim:
        """The blocks that the tile reaches."""
        slope = linear(reach, AT)
        assert slope is not None, "a reach grows with rows, or falls"
        grows = isinstance(slope[0], int) and slope[0] > 0
        last = substitute(reach, {AT: add(row, add(self.size, -1)) if grows else row})
        return ceildiv(last if always_le(1, last) else maximum(1, last), self.block)

    def _shown(self, behind: Dim | None) -> Columns:
        """What masks show, of what is before the block `behind`; where that is nothing, one block."""
        whole, low, end = self.factor.shape[-1], SHOWN[0].dim, SHOWN[1].dim
        blocks: Dim = self.at_block.extent or 0
        first = Sym("tile.first", extent=blocks)
        begin = maximum(0, minimum(low, add(blocks, -1)))
        last = end if behind is None else minimum(end, behind)
        count = maximum(1, add(last, mul(first.dim, -1)))
        start = mul(self.block, first.dim)
        if isinstance(whole, int) and whole % self.block == 0:
            some = Sym("tile.blocks", extent=add(blocks, 1))
            return Columns((start, mul(self.block, some.dim)), {first: begin, some: count})
        seen = Sym("tile.columns", extent=add(whole, 1))
        found = minimum(add(whole, mul(start, -1)), mul(self.block, count))
        return Columns((start, seen.dim), {first: begin, seen: found})


def fused_tiles(graph: Graph, sizes: Sizes, machine: Machine, kept: Set[Value]) -> list[FusedTile]:
    """The contractions of a graph that are better made in tiles; what is `kept` is wanted by others."""
    uses = users(graph)
    found: list[FusedTile] = []
    for value in walk(v for _, v in graph.outputs):
        how = value.compute
        if isinstance(how, Contracted):
            found += _fused_tile(value, how, uses, sizes, machine, kept)
    return found


def _fused_tile(
    value: Value,
    how: Contracted,
    uses: Mapping[Value, Sequence[Value]],
    sizes: Sizes,
    machine: Machine,
    kept: Set[Value],
) -> Iterator[FusedTile]:
    for arg, labels, others in zip(value.args, (how.left, how.right), (how.right, how.left), strict=True):
        excludes = hides(value) and labels is how.left
        rows = [n for n, label in enumerate(how.out) if label in labels and label not in others]
        # Several axes of rows, as heads that share keys are one: a tile has rows of the last of them.
        batches = tuple(n for n, label in enumerate(how.out) if label in labels and n not in rows[-1:])
        whole = rows and all(label in how.out for label in labels[:-1]) and labels[-1] not in how.out
        inside = _inside(arg, _has_batches(value, how)) if whole else None
        outside = None if inside is None else _outside(inside, value, uses)
        if inside is None or outside is None:
            continue
        after, beside = outside
        found = {*inside, *beside, value, *after}
        *_, root = (value, *after)
        if not found.isdisjoint(kept - {root}) or (beside and how.out[:-1] != labels[:-1]):
            continue
        held = machine.l2_bytes // 2 // (BOTH * FLOAT * max(1, sizes.of(arg.shape[-1])))
        most = max(LEAST * machine.tile_rows, min(MOST, held))
        scores = sizes.volume(arg) * FLOAT
        if sizes.of(value.shape[rows[-1]]) >= machine.tile_rows and scores >= machine.l2_bytes // SMALL:
            block = BLOCK * machine.lanes
            tile = FusedTile(root, frozenset(found), batches, rows[-1], most, value, after, arg, block)
            tile = replace(tile, places=tuple(how.out.index(x) for x in labels[:-1]))
            tile = _partial(tile, machine) if excludes else tile
            yield _shared(tile, most, sizes, machine) or _sized(tile, most, sizes, machine)


def _shared(tile: FusedTile, most: int, sizes: Sizes, machine: Machine) -> FusedTile | None:
    """The tiles of a batch as one item, where there are enough batches and tiles are so low that copying
    counts."""
    across = _across(tile, machine)
    rows, columns = tile.root.shape[tile.row], tile.factor.shape[-1]
    batches = prod(sizes.of(tile.root.shape[k]) for k in tile.batches)
    if across is None or batches < 2 * machine.cores:
        return None
    if not isinstance(rows, int) or not isinstance(columns, int):
        return None
    shared = replace(tile, across=across)
    size = _size(shared, min(most, max(2 * machine.tile_rows, NEAR // columns)), sizes, machine)
    return replace(shared, size=size) if size < MOST and 2 * size <= rows else None


def _across(tile: FusedTile, machine: Machine) -> Across | None:
    """What the factor's contraction reads so."""
    (reader,) = (v for v in tile.inside if v != tile.product and isinstance(v.compute, Contracted))
    how = reader.compute
    assert isinstance(how, Contracted), "it has been chosen so"
    for arg, labels, others in zip(reader.args, (how.left, how.right), (how.right, how.left), strict=True):
        lane = how.out[-1]
        if (
            lane in labels
            and lane not in others
            and labels[-1] not in how.out
            and arg.dtype is DataType.FLOAT
        ):
            return Across(reader, arg, labels.index(lane), machine.panel)
    return None


def _sized(tile: FusedTile, most: int, sizes: Sizes, machine: Machine) -> FusedTile:
    """The tile with so many rows; where their number is open, a symbol for as many as it says: tiles about
    as high as one another, shared by all threads, and held by the second cache."""
    rows, columns = tile.root.shape[tile.row], tile.factor.shape[-1]
    size = _size(tile, most, sizes, machine)
    if isinstance(rows, int):
        return replace(tile, size=size)
    least, held = 2 * machine.tile_rows, machine.l2_bytes // 2 // (BOTH * FLOAT)
    others = product(tile.root.shape[k] for k in tile.batches)
    room = minimum(size, maximum(least, ceildiv(mul(rows, others), 2 * machine.cores)))
    if not isinstance(columns, int):
        room = minimum(room, maximum(least, floordiv(held, maximum(1, columns))))
    unit = machine.tile_rows  # of which tiles of an open number hold a multiple
    if tile.reach is not None:  # about as many as of a known number
        room, unit = minimum(room, maximum(MOST // 4, floordiv(rows, COPIED))), FEW
    count = maximum(1, ceildiv(rows, room))
    even = mul(unit, maximum(1, ceildiv(rows, mul(unit, count))))
    found = Sym("tile.size", extent=size + unit)
    # It is no more anyway, but bounds of scratch take each part of a sum for itself.
    return replace(tile, size=found.dim, lets={found: minimum(even, size + unit - 1)})


def _size(tile: FusedTile, most: int, sizes: Sizes, machine: Machine) -> int:
    """Rows of a tile, at most so many: so many that all threads have some; of which the rows of all are a
    multiple, where that can be. Where columns are left out, so few that not many are computed for the sake of
    other rows, and so many that what is copied for a tile is no matter."""
    rows = tile.root.shape[tile.row]
    many = sizes.of(rows)
    if tile.reach is not None and isinstance(rows, int):
        copied = COPIED if tile.across is None else COPIED // 2
        most = min(most, max(MOST // 4, isqrt(copied * many)))
    others = prod(sizes.of(tile.root.shape[k]) for k in tile.batches)
    most = min(most, max(2 * machine.tile_rows, -(-many * others // (2 * machine.cores))))
    if not isinstance(rows, int):
        return most
    least = -(-rows // most)
    even = (-(-rows // n) for n in range(least, 2 * least) if rows % n == 0)
    return next(even, -(-rows // least))


def _partial(tile: FusedTile, machine: Machine) -> FusedTile:
    """The tile with what tells which columns count for a row."""
    loops = {**tile.loops, tile.row: AT}
    column = Sym("tile.column", extent=tile.factor.shape[-1])
    at = (*(loops[k].dim for k in tile.places), column.dim)
    ends = reach(tile.factor, tile.inside, at, column)
    end = next((end for end in ends if linear(end, AT) is not None), None)
    hiding = masks(tile.factor, tile.inside, at)
    # Panels begin at whole blocks.
    block = max(tile.block, machine.panel) if hiding else tile.block
    return replace(tile, reach=end, masks=hiding, block=block)


def _has_batches(value: Value, how: Contracted) -> bool:
    """True where each of several batches has operands of its own, not weights, which each tile would read
    again."""
    shared = set(how.left) & set(how.right)
    return any(label in shared and size != 1 for label, size in zip(how.out, value.shape, strict=True))


def _inside(arg: Value, batched: bool) -> frozenset[Value] | None:
    """What leads from a contraction to `arg`, itself included, by single elements and folds of the last axis;
    None where nothing does. Without folds rows need not be whole, and tiles serve batches alone."""
    leads: dict[Value, bool] = {}

    def is_inside(v: Value) -> bool:
        if v not in leads:
            leads[v] = _leads(v, arg)
            if leads[v] and not isinstance(v.compute, Contracted):
                leading = [is_inside(a) for a in v.args]  # all of them are looked at
                leads[v] = any(leading)
        return leads[v]

    if not is_inside(arg):
        return None
    inside = {v for v, leading in leads.items() if leading}
    found = [(v, v.compute) for v in inside if isinstance(v.compute, Contracted)]
    folds = any(isinstance(v.compute, Folded) for v in inside)
    return frozenset(inside) if len(found) == 1 and (folds or (batched and _has_batches(*found[0]))) else None


def _outside(
    inside: Collection[Value], product: Value, uses: Mapping[Value, Sequence[Value]]
) -> tuple[tuple[Value, ...], set[Value]] | None:
    """What else reads what is inside, as far as single elements of the product, which alone read that: those,
    and what leads to them by single elements and folds of the last axis; None where others read it."""
    after, beside = [product], set[Value]()
    todo = [u for v in inside for u in uses[v]]
    while todo:
        v = todo.pop()
        if v in inside or v in beside or v in after:
            continue
        if (
            set(uses[after[-1]]) == {v}
            and _is_each(v)
            and v.shape == product.shape
            and (spreads(v) or not hides(product))
        ):
            after.append(v)
        elif _leads(v, product) and not isinstance(v.compute, Contracted) and v.shape[-1] == 1:
            beside.add(v)
            todo += uses[v]
        else:
            return None
    while len(last := uses.get(after[-1], ())) == 1 and _rounds(last[0]):
        after += last
    return tuple(after[1:]), beside


def _rounds(v: Value) -> bool:
    return isinstance(v.compute, Elements) and v.compute.rounds


def _is_each(v: Value) -> bool:
    return isinstance(v.compute, Elements) and v.compute.same


def _leads(v: Value, last: Value) -> bool:
    how, rank = v.compute, len(v.shape)
    if rank != len(last.shape):
        return False
    if isinstance(how, Contracted):
        return all(len(a.shape) <= rank for a in v.args)
    folds = isinstance(how, Folded) and how.axes == (rank - 1,)
    return folds or _is_each(v)


@dataclass(slots=True)
class TileGraph:
    """The graph of one tile, or of the `last` one, where it is known to have fewer rows: `loops` number the
    tiles; `leaves` has what stands for the `stored` values it reads, and `start` is where in the
    whole result the tile begins; `columns` of its rows are computed; `panels`: what stands
    for what is copied for all tiles of a batch, and what that is; `ranges`: of the root's
    axes, where they are not whole."""

    tile: FusedTile
    stored: Container[Value]
    last: bool = False
    loops: tuple[Sym, ...] = ()
    start: tuple[Dim, ...] = ()
    columns: Columns = Columns((0, 0), {})
    leaves: dict[Value, Value] = field(default_factory=dict)
    panels: tuple[Value, Value] | None = None
    ranges: Mapping[int, tuple[Dim, Dim]] = field(default_factory=dict)
    _done: dict[tuple[Value, tuple[tuple[int, Dim, Dim], ...]], Value] = field(default_factory=dict)

    def graph(self) -> Graph:
        """Its inputs are whole tensors, its output is a part of one."""
        s, shape, loops = self.tile, self.tile.root.shape, self.tile.loops
        first = mul(add(loops[s.row].extent or 0, -1) if self.last else loops[s.row].dim, s.size)
        left = add(shape[s.row], mul(first, -1))
        count = self._count(left)
        self.ranges = ranges = {k: (sym.dim, 1) for k, sym in loops.items()} | {s.row: (first, count)}
        self.loops = tuple(loops.values())
        self.columns = s.columns(first)
        self.start = tuple(ranges[k][0] if k in ranges else 0 for k in range(len(shape)))
        made = self._cut(s.root, {k: (start, size) for k, (start, size) in ranges.items()})
        own = () if self.panels is None else (("panels", self.panels[0]),)
        return Graph((*self._inputs, *own), (("tile", made),))

    @property
    def _inputs(self) -> tuple[tuple[str, Value], ...]:
        return tuple((f"leaf{n}", p) for n, p in enumerate(self.leaves.values()))

    @property
    def wide(self) -> list[Value]:
        """What holds a row's columns: all that leads to the factor, but what is folded from columns."""
        later = {self.tile.product, *self.tile.after}
        inside = {v for v in self.tile.inside - later if v.shape[-1] != 1}
        return [made for (v, _), made in self._done.items() if v in inside]

    def copying(self) -> tuple[Graph, Layout, Value] | None:
        """What makes the panels, how they lie, and what stands for them in the tiles."""
        if self.panels is None or self.tile.across is None:
            return None
        panels, whole = self.panels
        layout = replace(row_major(whole.shape), block=Block(self.tile.across.axis, self.tile.across.panel))
        return Graph(self._inputs, (("panels", build.identity(whole)),)), layout, panels

    def looking(self) -> Graph | None:
        """What finds out whether masks show anything of a block of columns."""
        if not self.tile.masks:
            return None
        columns, at = self.tile.factor.shape[-1], mul(self.tile.block, self.tile.at_block.dim)
        ranges = {k: self.ranges[n] for k, n in enumerate(self.tile.places) if n in self.ranges}
        ranges[len(self.tile.places)] = at, minimum(self.tile.block, add(columns, mul(at, -1)))
        shown: list[Value] = []
        for mask in self.tile.masks:
            v = self._cut(mask.value, ranges)
            shown.append(v if mask.hiding is False else build.map_("ne", v, build.scalar(mask.hiding, v)))
        seen = build.cast(reduce(partial(build.map_, "and"), shown), DataType.INT32)
        return Graph(self._inputs, ((ANY.name, build.reduce_("max", seen, tuple(range(len(seen.shape))))),))

    def usual(self, sizes: Sizes) -> dict[str, int]:
        """The numbers of a tile in the middle, where masks hide nothing."""
        found = {v.name: sizes.of(x) for v, x in self.tile.lets.items()}
        sizes = Sizes({**sizes.values, **found})
        found |= {v.name: (sizes.of(v.extent or 0) - 1) // 2 for v in self.loops}
        row, (low, high) = self.loops[-1], SHOWN
        found[self.tile.at_block.name] = 0
        at = {row: found[row.name], low: 0, high: sizes.of(self.tile.at_block.extent or 0)}
        for v, x in self.columns.lets.items():
            at[v] = found[v.name] = sizes.of(substitute(x, at))
        return found

    def most(self, size: Dim) -> Dim:
        """What is so large for a tile, for the one that takes the most: the first one, or where columns are
        left out of the first ones, any."""
        first: dict[Sym, Dim] = dict.fromkeys((*self.loops, self.tile.at_block), 0)
        first |= {v: add(v.extent or 0, -1) for v in self.columns.lets}
        row, found = self.loops[-1], substitute(size, first)
        if isinstance(row.extent, int) and depends(size, row):
            for n in range(1, row.extent):
                found = maximum(found, substitute(size, {**first, row: n}))
        return substitute(found, self.tile.lets)

    def _count(self, left: Dim) -> Dim:
        """The rows of the tile."""
        if self.tile.is_even or (isinstance(left, int) and self.last):
            return left if self.last else self.tile.size
        known = isinstance(self.tile.root.shape[self.tile.row], int)
        return self.tile.size if known else minimum(self.tile.size, left)

    def _cut(self, v: Value, ranges: Mapping[int, tuple[Dim, Dim]]) -> Value:
        """These ranges of a value's axes; axes of size 1 stay."""
        here = {k: r for k, r in ranges.items() if v.shape[k] != 1}
        key = (v, tuple((k, *r) for k, r in sorted(here.items())))
        if key not in self._done:
            self._done[key] = self._made(v, here)
        return self._done[key]

    def _made(self, v: Value, here: Mapping[int, tuple[Dim, Dim]]) -> Value:
        how = v.compute
        if v not in self.tile.inside:
            whole = self._whole(v)
            start, size = ([here.get(k, (0, d))[n] for k, d in enumerate(v.shape)] for n in (0, 1))
            return build.slice_(whole, start, size, (1,) * len(v.shape)) if here else whole
        if not isinstance(how, Contracted):
            if self.tile.is_partial and v not in self.tile.after:  # folds have no axis of them
                here = {**here, len(v.shape) - 1: self.columns.range}
            return apply(v.op, *(self._cut(a, here) for a in v.args))
        args: list[Value] = []
        for arg, labels in zip(v.args, (how.left, how.right), strict=True):
            of = {k: how.out.index(label) for k, label in enumerate(labels) if label in how.out}
            ranges = {k: here[n] for k, n in of.items() if n in here}
            if v is self.tile.product and self.tile.is_partial:
                ranges |= {k: self.columns.range for k, label in enumerate(labels) if label not in how.out}
            across = self.tile.across
            shared = across is not None and v is across.reader and arg is across.operand
            args.append(
                self._panels(arg, ranges, across.axis) if across and shared else self._cut(arg, ranges)
            )
        return apply(v.op, *args)

    def _panels(self, v: Value, ranges: Mapping[int, tuple[Dim, Dim]], axis: int) -> Value:
        """What is copied for all tiles of a batch, and of that what one reads."""
        whole = self._cut(v, {k: r for k, r in ranges.items() if k != axis})
        self.panels = build.param("panels", whole.shape, whole.dtype), whole
        start, size = (
            [ranges.get(axis, (0, d))[n] if k == axis else (0, d)[n] for k, d in enumerate(whole.shape)]
            for n in (0, 1)
        )
        return build.slice_(self.panels[0], start, size, (1,) * len(start))

    def _whole(self, v: Value) -> Value:
        """What is read from memory, or moved from there, for the tile."""
        if v in self.stored:
            if v not in self.leaves:
                self.leaves[v] = build.param(f"leaf{len(self.leaves)}", v.shape, v.dtype)
            return self.leaves[v]
        if not v.args:
            return v
        if not isinstance(v.compute, Elements):
            raise FusionFailure(v, "tiles of what reads it would each make the whole of it")
        return with_args(v, [self._whole(a) for a in v.args])
