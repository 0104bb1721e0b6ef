"""compute_at: one kernel that computes several contractions, per item of the last one.

The graph of one item is an ordinary graph, with slices of the operands. Its kernels are created like all
others, and run one after the other within the item, with intermediate values in a thread's scratch. Two
analyses select such contractions: scores, which are far larger than their operands and the results computed
from them (score_tiles.py), and stages, of which each item needs a different part (stages.py).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from anyrt.core.dims import Dim, Sym, add, ceildiv, depends, maximum, minimum, mod, mul
from anyrt.core.dimvalues import substitute
from anyrt.core.enums import DataType
from anyrt.ir.compute import Elements
from anyrt.ir.graph import Graph, Value
from anyrt.ir.rewrite import with_args
from anyrt.prims import build
from anyrt.schedule.cost import Sizes
from anyrt.schedule.cut import Range, operands, part
from anyrt.schedule.elements import FusionFailure
from anyrt.schedule.layout import Block, Layout, row_major
from anyrt.schedule.scores import ANY, NO_COLUMNS, SHOWN, Columns, Scores


@dataclass(frozen=True, slots=True)
class FusedTile:
    """`root`: the value computed in tiles, a contraction or an elementwise function of it; `inside`: all
    values that are computed for a tile. A tile has one element along `batches`, `size` elements along `row`,
    and all elements along the other axes. `scores`: of a tile that computes its root from scores, not from
    stages. `lets`: symbols that stand for `size`."""

    root: Value
    inside: frozenset[Value]
    batches: tuple[int, ...]
    row: int
    size: Dim
    scores: Scores | None = None
    lets: Mapping[Sym, Dim] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The prefix of symbols and buffers in its kernel; a tile of scores may be inside one of stages."""
        return "stage" if self.scores is None else "tile"

    @property
    def shape(self) -> tuple[object, ...]:
        """The properties of the tile that its kernel depends on."""
        size = substitute(self.size, self.lets)
        return self.batches, self.row, size, self.scores and self.scores.shape

    @property
    def loops(self) -> dict[int, Sym]:
        """The counters of the tiles, by axis, that of the rows last."""
        counters = {k: Sym(f"{self.name}.{k}", extent=self.root.shape[k]) for k in self.batches}
        count = ceildiv(self.root.shape[self.row], self.size)
        return {**counters, self.row: Sym(f"{self.name}.row", extent=count)}

    @property
    def is_even(self) -> bool:
        """True if all tiles have the same number of rows for certain."""
        return mod(self.root.shape[self.row], self.size) == 0


@dataclass(slots=True)
class TileGraph:
    """The graph of one tile, or of the `last` one if it is known to have fewer rows: `loops` are the counters
    of the tiles; `leaves` replaces the `stored` values that it reads, and `start` is the position of the tile
    in the result; `columns` of its rows are computed; `panels`: the replacements of values that are copied
    once for all tiles of a batch, and these values; `ranges`: of the root's axes that are not whole."""

    tile: FusedTile
    stored: Container[Value]
    last: bool = False
    loops: tuple[Sym, ...] = ()
    start: tuple[Dim, ...] = ()
    columns: Columns = NO_COLUMNS
    leaves: dict[Value, Value] = field(default_factory=dict)
    panels: tuple[Value, Value] | None = None
    ranges: Mapping[int, Range] = field(default_factory=dict)
    failure: FusionFailure | None = None
    _done: dict[tuple[Value, tuple[tuple[int, Dim, Dim], ...]], Value] = field(default_factory=dict)

    def graph(self) -> Graph | FusionFailure:
        """Its inputs are whole tensors, its output is a part of one. Returns the value that cannot be
        computed inside, if any."""
        s, shape, loops = self.tile, self.tile.root.shape, self.tile.loops
        first = mul(add(loops[s.row].extent or 0, -1) if self.last else loops[s.row].dim, s.size)
        left = add(shape[s.row], mul(first, -1))
        count = self._count(left)
        self.ranges = ranges = {k: (sym.dim, 1) for k, sym in loops.items()} | {s.row: (first, count)}
        self.loops = tuple(loops.values())
        if s.scores is not None:
            self.columns = s.scores.columns(first, s.size, isinstance(loops[s.row].extent, int))
        self.start = tuple(ranges[k][0] if k in ranges else 0 for k in range(len(shape)))
        root = self._cut(s.root, ranges)
        if self.failure is not None:
            return self.failure
        own = () if self.panels is None else (("panels", self.panels[0]),)
        return Graph((*self._inputs, *own), (("tile", root),))

    @property
    def _inputs(self) -> tuple[tuple[str, Value], ...]:
        return tuple((f"leaf{n}", p) for n, p in enumerate(self.leaves.values()))

    @property
    def pitch(self) -> dict[Value, Dim]:
        """The distance of rows for values that hold a row's columns: all that lead to the factor, except
        folds over the columns."""
        scores = self.tile.scores
        if scores is None:
            return {}
        inside = {v for v in self.tile.inside - {scores.product, *scores.after} if v.shape[-1] != 1}
        return {inner: scores.pitch for (v, _), inner in self._done.items() if v in inside}

    def copying(self) -> tuple[Graph, Layout, Value] | None:
        """The graph that computes the panels, their layouts, and their replacements in the tiles."""
        scores = self.tile.scores
        if self.panels is None or scores is None or scores.across is None:
            return None
        across = scores.across
        panels, whole = self.panels
        layout = replace(row_major(whole.shape), block=Block(across.axis, across.panel))
        return Graph(self._inputs, (("panels", build.identity(whole)),)), layout, panels

    def looking(self) -> Graph | None:
        """The graph that tests whether masks show any element of a block of columns."""
        scores = self.tile.scores
        if scores is None or not scores.masks:
            return None
        columns, at = scores.factor.shape[-1], mul(scores.block, scores.at_block.dim)
        ranges = {k: self.ranges[n] for k, n in enumerate(scores.places) if n in self.ranges}
        ranges[len(scores.places)] = at, minimum(scores.block, add(columns, mul(at, -1)))
        shown: list[Value] = []
        for mask in scores.masks:
            v = self._cut(mask.value, ranges)
            shown.append(v if mask.hiding is False else build.map_("ne", v, build.scalar(mask.hiding, v)))
        seen = build.cast(reduce(partial(build.map_, "and"), shown), DataType.INT32)
        return Graph(self._inputs, ((ANY.name, build.reduce_("max", seen, tuple(range(len(seen.shape))))),))

    def usual(self, sizes: Sizes) -> dict[str, int]:
        """The counters of a tile in the middle, where masks hide nothing."""
        numbers = {v.name: sizes.of(x) for v, x in self.tile.lets.items()}
        sizes = Sizes({**sizes.values, **numbers})
        numbers |= {v.name: (sizes.of(v.extent or 0) - 1) // 2 for v in self.loops}
        scores, row, (low, high) = self.tile.scores, self.loops[-1], SHOWN
        if scores is None:
            return numbers
        numbers[scores.at_block.name] = 0
        at = {row: numbers[row.name], low: 0, high: sizes.of(scores.at_block.extent or 0)}
        for v, x in self.columns.lets.items():
            at[v] = numbers[v.name] = sizes.of(substitute(x, at))
        return numbers

    def most(self, size: Dim) -> Dim:
        """The size for the tile with the most elements: the first one, or any if columns are left out of the
        first ones."""
        blocks = () if self.tile.scores is None else (self.tile.scores.at_block,)
        first: dict[Sym, Dim] = dict.fromkeys((*self.loops, *blocks), 0)
        first |= {v: add(v.extent or 0, -1) for v in self.columns.lets}
        row, largest = self.loops[-1], substitute(size, first)
        if isinstance(row.extent, int) and depends(size, row):
            for n in range(1, row.extent):
                largest = maximum(largest, substitute(size, {**first, row: n}))
        return substitute(largest, self.tile.lets)

    def _count(self, left: Dim) -> Dim:
        """The rows of the tile."""
        if self.tile.is_even or (isinstance(left, int) and self.last):
            return left if self.last else self.tile.size
        known = isinstance(self.tile.root.shape[self.tile.row], int)
        return self.tile.size if known else minimum(self.tile.size, left)

    def _cut(self, v: Value, ranges: Mapping[int, Range]) -> Value:
        """These ranges of a value's axes; axes of size 1 stay."""
        here = {k: r for k, r in ranges.items() if v.shape[k] != 1}
        key = (v, tuple((k, *r) for k, r in sorted(here.items())))
        if key not in self._done:
            self._done[key] = self._part_inside(v, here)
        return self._done[key]

    def _part_inside(self, v: Value, here: Mapping[int, Range]) -> Value:
        if v not in self.tile.inside:
            whole = self._whole(v)
            start, size = ([here.get(k, (0, d))[n] for k, d in enumerate(v.shape)] for n in (0, 1))
            return build.slice_(whole, start, size, (1,) * len(v.shape)) if here else whole
        cuts = operands(v, here)
        assert cuts is not None, f"{v.op} is inside the tile"
        args = [self._operand(v, number, cut) for number, cut in enumerate(cuts)]
        return part(v, args, here)

    def _operand(self, v: Value, number: int, ranges: dict[int, Range]) -> Value:
        """The part of an operand that a part of a value inside reads."""
        scores, arg = self.tile.scores, v.args[number]
        if scores is None:
            return self._cut(arg, ranges)
        ranges |= dict.fromkeys(scores.columns_of(v, number), self.columns.range)
        across = scores.across
        if across is not None and v is across.reader and arg is across.operand:
            return self._panels(arg, ranges, across.axis)
        return self._cut(arg, ranges)

    def _panels(self, v: Value, ranges: Mapping[int, Range], axis: int) -> Value:
        """The values that are copied for all tiles of a batch, and the part that one tile reads."""
        whole = self._cut(v, {k: r for k, r in ranges.items() if k != axis})
        self.panels = build.param("panels", whole.shape, whole.dtype), whole
        start, size = (
            [ranges.get(axis, (0, d))[n] if k == axis else (0, d)[n] for k, d in enumerate(whole.shape)]
            for n in (0, 1)
        )
        return build.slice_(self.panels[0], start, size, (1,) * len(start))

    def _whole(self, v: Value) -> Value:
        """The values that are read or moved from memory for the tile."""
        if v in self.stored:
            if v not in self.leaves:
                self.leaves[v] = build.param(f"leaf{len(self.leaves)}", v.shape, v.dtype)
            return self.leaves[v]
        if not v.args:
            return v
        if not isinstance(v.compute, Elements):
            why = "tiles of what reads it would each make the whole of it"
            self.failure = self.failure or FusionFailure(v, why)
            return build.param("failed", v.shape, v.dtype)
        return with_args(v, [self._whole(a) for a in v.args])
