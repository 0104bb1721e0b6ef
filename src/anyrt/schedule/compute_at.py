"""compute_at: what one kernel makes of several contractions, at an item of the last one.

The graph of one item is an ordinary one, with slices of what is read; its kernels are made as all others, and
run one after the other within the item. What they leave for one another lies in a thread's scratch. Which
contractions are made so is found in two ways: scores, far larger than what they are made of and what is made
of them (score_tiles.py), and stages, of which each item needs a part of its own (stages.py).
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
    """`root`: what is made in tiles, a contraction, or what single elements make of it; `inside`: all that is
    computed for a tile. Along `batches` a tile has one element, along `row` so many as `size` says, along the
    rest all. `scores`: of a tile that makes its root of scores, not of stages. `lets`: what stands for
    `size`."""

    root: Value
    inside: frozenset[Value]
    batches: tuple[int, ...]
    row: int
    size: Dim
    scores: Scores | None = None
    lets: Mapping[Sym, Dim] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What symbols and buffers of its kernel are called by; a tile of scores may lie in one of stages."""
        return "stage" if self.scores is None else "tile"

    @property
    def shape(self) -> tuple[object, ...]:
        """What of it a kernel depends on."""
        size = substitute(self.size, self.lets)
        return self.batches, self.row, size, self.scores and self.scores.shape

    @property
    def loops(self) -> dict[int, Sym]:
        """What numbers the tiles, by axes, that along the rows last."""
        found = {k: Sym(f"{self.name}.{k}", extent=self.root.shape[k]) for k in self.batches}
        count = ceildiv(self.root.shape[self.row], self.size)
        return {**found, self.row: Sym(f"{self.name}.row", extent=count)}

    @property
    def is_even(self) -> bool:
        """True where all tiles surely have as many rows."""
        return mod(self.root.shape[self.row], self.size) == 0


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
    columns: Columns = NO_COLUMNS
    leaves: dict[Value, Value] = field(default_factory=dict)
    panels: tuple[Value, Value] | None = None
    ranges: Mapping[int, Range] = field(default_factory=dict)
    failure: FusionFailure | None = None
    _done: dict[tuple[Value, tuple[tuple[int, Dim, Dim], ...]], Value] = field(default_factory=dict)

    def graph(self) -> Graph | FusionFailure:
        """Its inputs are whole tensors, its output is a part of one. Or what cannot be computed in it."""
        s, shape, loops = self.tile, self.tile.root.shape, self.tile.loops
        first = mul(add(loops[s.row].extent or 0, -1) if self.last else loops[s.row].dim, s.size)
        left = add(shape[s.row], mul(first, -1))
        count = self._count(left)
        self.ranges = ranges = {k: (sym.dim, 1) for k, sym in loops.items()} | {s.row: (first, count)}
        self.loops = tuple(loops.values())
        if s.scores is not None:
            self.columns = s.scores.columns(first, s.size, isinstance(loops[s.row].extent, int))
        self.start = tuple(ranges[k][0] if k in ranges else 0 for k in range(len(shape)))
        made = self._cut(s.root, ranges)
        if self.failure is not None:
            return self.failure
        own = () if self.panels is None else (("panels", self.panels[0]),)
        return Graph((*self._inputs, *own), (("tile", made),))

    @property
    def _inputs(self) -> tuple[tuple[str, Value], ...]:
        return tuple((f"leaf{n}", p) for n, p in enumerate(self.leaves.values()))

    @property
    def pitch(self) -> dict[Value, Dim]:
        """How far rows lie apart of what holds a row's columns: of all that leads to the factor, but what is
        folded from columns."""
        scores = self.tile.scores
        if scores is None:
            return {}
        inside = {v for v in self.tile.inside - {scores.product, *scores.after} if v.shape[-1] != 1}
        return {made: scores.pitch for (v, _), made in self._done.items() if v in inside}

    def copying(self) -> tuple[Graph, Layout, Value] | None:
        """What makes the panels, how they lie, and what stands for them in the tiles."""
        scores = self.tile.scores
        if self.panels is None or scores is None or scores.across is None:
            return None
        across = scores.across
        panels, whole = self.panels
        layout = replace(row_major(whole.shape), block=Block(across.axis, across.panel))
        return Graph(self._inputs, (("panels", build.identity(whole)),)), layout, panels

    def looking(self) -> Graph | None:
        """What finds out whether masks show anything of a block of columns."""
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
        """The numbers of a tile in the middle, where masks hide nothing."""
        found = {v.name: sizes.of(x) for v, x in self.tile.lets.items()}
        sizes = Sizes({**sizes.values, **found})
        found |= {v.name: (sizes.of(v.extent or 0) - 1) // 2 for v in self.loops}
        scores, row, (low, high) = self.tile.scores, self.loops[-1], SHOWN
        if scores is None:
            return found
        found[scores.at_block.name] = 0
        at = {row: found[row.name], low: 0, high: sizes.of(scores.at_block.extent or 0)}
        for v, x in self.columns.lets.items():
            at[v] = found[v.name] = sizes.of(substitute(x, at))
        return found

    def most(self, size: Dim) -> Dim:
        """What is so large for a tile, for the one that takes the most: the first one, or where columns are
        left out of the first ones, any."""
        blocks = () if self.tile.scores is None else (self.tile.scores.at_block,)
        first: dict[Sym, Dim] = dict.fromkeys((*self.loops, *blocks), 0)
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

    def _cut(self, v: Value, ranges: Mapping[int, Range]) -> Value:
        """These ranges of a value's axes; axes of size 1 stay."""
        here = {k: r for k, r in ranges.items() if v.shape[k] != 1}
        key = (v, tuple((k, *r) for k, r in sorted(here.items())))
        if key not in self._done:
            self._done[key] = self._made(v, here)
        return self._done[key]

    def _made(self, v: Value, here: Mapping[int, Range]) -> Value:
        if v not in self.tile.inside:
            whole = self._whole(v)
            start, size = ([here.get(k, (0, d))[n] for k, d in enumerate(v.shape)] for n in (0, 1))
            return build.slice_(whole, start, size, (1,) * len(v.shape)) if here else whole
        cuts = operands(v, here)
        assert cuts is not None, f"{v.op} is inside the tile"
        args = [self._operand(v, number, cut) for number, cut in enumerate(cuts)]
        return part(v, args, here)

    def _operand(self, v: Value, number: int, ranges: dict[int, Range]) -> Value:
        """What a part of a value inside reads of an operand."""
        scores, arg = self.tile.scores, v.args[number]
        if scores is None:
            return self._cut(arg, ranges)
        ranges |= dict.fromkeys(scores.columns_of(v, number), self.columns.range)
        across = scores.across
        if across is not None and v is across.reader and arg is across.operand:
            return self._panels(arg, ranges, across.axis)
        return self._cut(arg, ranges)

    def _panels(self, v: Value, ranges: Mapping[int, Range], axis: int) -> Value:
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
            why = "tiles of what reads it would each make the whole of it"
            self.failure = self.failure or FusionFailure(v, why)
            return build.param("failed", v.shape, v.dtype)
        return with_args(v, [self._whole(a) for a in v.args])
