"""Scores: the results of one contraction for the rows of another one, of which some columns may be skipped.

Columns behind the last one that a row of a tile uses (reach.py), as in causal attention, are skipped, and so
are those before the first and behind the last one that a mask shows to any row, which a kernel in front of
the others finds.
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
# Whether masks show any element of a block to a row, the first such block, and the one behind the last.
ANY, FIRST, BEHIND = (Buffer(n, DataType.INT32, Space.ARENA, 1) for n in ("any", "first", "behind"))
SHOWN: Final = tuple(
    next(iter(symbols(bound(cast(load(b, 0), Scalar.I64), 0, MANY, b.name)))) for b in (FIRST, BEHIND)
)


@dataclass(frozen=True, slots=True)
class Across:
    """The operand of a contraction whose `axis` becomes lanes, in panels of so many, although another axis is
    innermost."""

    reader: Value
    operand: Value
    axis: int
    panel: int


@dataclass(frozen=True, slots=True)
class Columns:
    """The start and number of columns, and the symbols for them."""

    range: tuple[Dim, Dim]
    lets: Mapping[Sym, Dim]


NO_COLUMNS: Final = Columns((0, 0), {})


@dataclass(frozen=True, slots=True)
class Scores:
    """The `factor` that the `product` of a tile reads as its rows, and the elementwise functions `after` it
    of the product and of folds of the factor. `reach`: the number of columns of the factor that count in row
    `AT`; `masks`: the tensors that hide its elements, with their axes along `places` of the root. A tile
    computes whole `block`s of columns. `across`: the operand that the factor's contraction reads across its
    rows; the tiles of a batch are then one item, which first copies it to panels."""

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
        """The properties that a kernel depends on."""
        return self.block, self.reach, len(self.masks), self.across is None

    @property
    def pitch(self) -> Dim:
        """Elements from one row of the factor to the next, an odd number of lines, so that rows map to
        different sets of the nearest cache."""
        line = LINE // FLOAT
        return mul(add(mul(ceildiv(self.factor.shape[-1], 2 * line), 2), 1), line)

    @property
    def at_block(self) -> Sym:
        """The counter of the blocks of columns."""
        return Sym("tile.block", extent=ceildiv(self.factor.shape[-1], self.block))

    @property
    def is_partial(self) -> bool:
        """True if columns may be skipped."""
        return self.reach is not None or bool(self.masks)

    def columns_of(self, v: Value, number: int) -> tuple[int, ...]:
        """The axes of an operand along which only columns that count are read."""
        how, arg = v.compute, v.args[number]
        if not self.is_partial or v in self.after:
            return ()
        if not isinstance(how, Contracted):
            return (len(arg.shape) - 1,)
        labels = (how.left, how.right)[number]
        return tuple(k for k, x in enumerate(labels) if x not in how.out) if v is self.product else ()

    def columns(self, row: Dim, size: Dim, is_known: bool) -> Columns:
        """The columns of the factor that a tile of so many rows computes, from a row on. If sizes are dynamic
        and the number of tiles is unknown, or masks decide, a symbol represents the number, so that the
        memory for the longest rows is known."""
        whole = self.factor.shape[-1]
        if not self.is_partial:
            return Columns((0, whole), {})
        behind = None if self.reach is None else self._reached(self.reach, row, size)
        if self.masks:
            return self._shown(behind)
        assert behind is not None, "it has a reach"
        if isinstance(whole, int) and whole % self.block == 0:
            width = mul(self.block, minimum(whole // self.block, behind))
        else:
            width = minimum(whole, mul(self.block, behind))
        if isinstance(whole, int) and is_known:
            return Columns((0, width), {})
        seen = Sym("tile.columns", extent=add(whole, 1))
        return Columns((0, seen.dim), {seen: width})

    def _reached(self, reach: Dim, row: Dim, size: Dim) -> Dim:
        """The blocks that the tile reaches."""
        slope = linear(reach, AT)
        assert slope is not None, "a reach grows with rows, or falls"
        grows = isinstance(slope[0], int) and slope[0] > 0
        last = substitute(reach, {AT: add(row, add(size, -1)) if grows else row})
        return ceildiv(last if always_le(1, last) else maximum(1, last), self.block)

    def _shown(self, behind: Dim | None) -> Columns:
        """The visibility of a block by the masks, before the block `behind`; one block if nothing is
        visible."""
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
        width = minimum(add(whole, mul(start, -1)), mul(self.block, count))
        return Columns((start, seen.dim), {first: begin, seen: width})
