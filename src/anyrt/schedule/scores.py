"""Scores: what one contraction makes for the rows of another one, of which some columns may be left out.

Columns behind the last one that a row of a tile counts (reach.py), as those that no query may look at, are
left out; so are those before the first one and behind the last one that a mask shows to any row, which a
kernel in front of the others looks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from anyrt.core.dims import Dim, Sym, add, always_le, ceildiv, linear, maximum, minimum, mul, symbols
from anyrt.core.dimvalues import substitute
from anyrt.core.enums import DataType
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.compute import Contracted
from anyrt.ir.graph import Value
from anyrt.ir.kernel import bound, cast, load
from anyrt.schedule.reach import Mask

LINE = 64  # bytes
FLOAT = 4  # bytes
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


NO_COLUMNS: Final = Columns((0, 0), {})


@dataclass(frozen=True, slots=True)
class Scores:
    """What the `product` of a tile reads as its rows' `factor`, and what single elements `after` it make of
    the product and of folds of the factor. `reach`: of the factor, how many columns count in row `AT`;
    `masks`: what hides its elements, with their axes along `places` of the root. A tile computes whole
    `block`s of columns. `across`: which operand the factor's contraction reads across its rows; then the
    tiles of a batch are one item, which begins with copying that to panels."""

    product: Value
    after: tuple[Value, ...]
    factor: Value
    block: int
    places: tuple[int, ...]
    reach: Dim | None = None
    masks: tuple[Mask, ...] = ()
    across: Across | None = None

    @property
    def shape(self) -> tuple[object, ...]:
        """What of them a kernel depends on."""
        return self.block, self.reach, len(self.masks), self.across is None

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

    def columns_of(self, v: Value, number: int) -> tuple[int, ...]:
        """The axes of an operand along which nothing but columns that count is read."""
        how, arg = v.compute, v.args[number]
        if not self.is_partial or v in self.after:
            return ()
        if not isinstance(how, Contracted):
            return (len(arg.shape) - 1,)
        labels = (how.left, how.right)[number]
        return tuple(k for k, x in enumerate(labels) if x not in how.out) if v is self.product else ()

    def columns(self, row: Dim, size: Dim, is_known: bool) -> Columns:
        """Which columns of the factor the tile of so many rows computes, from a row on. Where sizes are open,
        and it is not known how many tiles there are, or masks tell, a symbol stands for their number, so that
        it is known what the longest rows take."""
        whole = self.factor.shape[-1]
        if not self.is_partial:
            return Columns((0, whole), {})
        behind = None if self.reach is None else self._reached(self.reach, row, size)
        if self.masks:
            return self._shown(behind)
        assert behind is not None, "it has a reach"
        if isinstance(whole, int) and whole % self.block == 0:
            found = mul(self.block, minimum(whole // self.block, behind))
        else:
            found = minimum(whole, mul(self.block, behind))
        if isinstance(whole, int) and is_known:
            return Columns((0, found), {})
        seen = Sym("tile.columns", extent=add(whole, 1))
        return Columns((0, seen.dim), {seen: found})

    def _reached(self, reach: Dim, row: Dim, size: Dim) -> Dim:
        """The blocks that the tile reaches."""
        slope = linear(reach, AT)
        assert slope is not None, "a reach grows with rows, or falls"
        grows = isinstance(slope[0], int) and slope[0] > 0
        last = substitute(reach, {AT: add(row, add(size, -1)) if grows else row})
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
