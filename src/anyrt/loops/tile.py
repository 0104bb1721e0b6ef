"""Tile: a nest that reads across memory is processed in strips, each as wide as a cache line, which are
transposed in registers.

    for i: 0 … m                          for s: 0 … (m + 15) // 16
      for j: 0 … n                 ->       vector j: 0 … n
        y[n·i + j] = x[m·j + i]               tile t: 0 … 16
                                                y[n(16s + t) + j] = x[m·j + 16s + t]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from anyrt.core.dims import Dim, Sym, add, ceildiv, floordiv, minimum, mod, mul
from anyrt.ir.buffer import BITS, Space
from anyrt.ir.kernel import For, If, Kernel, Loop, Op, Stmt, Store, alu, index
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import statements
from anyrt.loops.nest import Estimate, Names, Nest, each_nest, interleaves, nest_of, read_across, serial

LEAST_TILE, NARROW = 4, 4  # positions; bytes of an element, below which transposing fewer of them is faster


@dataclass(frozen=True, slots=True)
class Strips:
    """Sizes: `line`: bytes that are read across memory at once; `run`: elements that a strip writes in a row,
    but at least `least_run` bytes; `chunk`: strips in a row, so that reading continues where the last strip
    stopped, limited to leave `items` for the threads; `few`: include nests whose last loop runs over few
    contiguous elements."""

    line: int
    run: int
    least_run: int
    chunk: int
    items: int
    few: bool = False


def tile(kernel: Kernel, names: Names, sizes: Strips, estimate: Estimate) -> Kernel | Fail:
    """Every nest of the kernel that reads across memory, in strips."""
    tiled: list[Nest] = []

    def change(nest: Nest) -> tuple[Stmt, ...]:
        across = _across(nest, sizes.few)
        if across is None:
            return nest.loops
        tiled.append(nest)
        return _Tiling(nest, across, names, sizes, estimate).loops()

    body = each_nest(kernel.body, change)
    return replace(kernel, body=body) if tiled else Fail("nothing is read across memory")


def is_tileable(kernel: Kernel) -> bool:
    """Whether some nest reads across memory."""
    nests = (nest_of(s) for s in statements(kernel.body))
    return any(_across(nest, few=False) is not None for nest in nests if nest is not None)


def _across(nest: Nest, few: bool) -> Sym | None:
    return None if (interleaves(nest) and not few) or _is_kept(nest) else read_across(nest)


def _is_kept(nest: Nest) -> bool:
    """True for stores to scratch, whose lines stay near the core in any order."""
    return any(isinstance(s, Store) and s.buffer.space is Space.SCRATCH for s in nest.body)


@dataclass(frozen=True, slots=True)
class _Tiling:
    nest: Nest
    across: Sym
    names: Names
    sizes: Strips
    estimate: Estimate

    def loops(self) -> tuple[Stmt, ...]:
        """Strips as loops: the rest, pieces of runs and of strips, then strips, each a vector loop around a
        tile; if strips do not fill the last one, in two versions."""
        nest, across, names = self.nest, self.across, self.names
        assert across.extent is not None, f"loop {across} has no extent"
        size, length = self._strip()
        last, rest = nest.vars[-1], [v for v in nest.vars if v not in (across, nest.vars[-1])]
        strips = names.var(floordiv(add(across.extent, size - 1), size), "s")
        items = prod(map(self.estimate, [*rest, strips])) * -(-self.estimate(last) // length)
        side_by_side = min(self.sizes.chunk, max(1, items // self.sizes.items))
        chunk, turn, strip = _pieces(names, strips.extent or 0, side_by_side)
        outer, within = [*rest, chunk], last
        if self.estimate(last) > length:
            block, within, value = _pieces(names, last.extent or 0, length)
            nest = nest.replace({last: value}, nest.vars)
            outer.insert(-1, block)
        full = alu(Op.LT, index(strip), index(floordiv(across.extent, size)))
        inside = names.var(size, "t")
        some = names.var(minimum(size, add(across.extent, mul(strip, -size))), "t")
        whole, part = (
            For(within, Loop.VECTOR, (For(v, Loop.TILE, self._at(nest, add(mul(strip, size), v.dim))),))
            for v in (inside, some)
        )
        both: tuple[Stmt, ...] = (If(full, (whole,)), If(alu(Op.NOT, full), (part,)))
        body = (whole,) if mod(across.extent, size) == 0 else both
        return serial([*outer, turn], body)

    def _strip(self) -> tuple[int, int]:
        """(positions, length) of a strip: as many as the bytes of a cache line (of narrow elements: half of
        one), and of a run, hold."""
        store = self.nest.body[0]
        assert isinstance(store, Store), "what is read across memory is stored"
        width = BITS[store.buffer.stored] // 8
        most = self.sizes.line // width // (1 + (width < NARROW))
        some = min(most, 1 << (self.estimate(self.across) - 1).bit_length())
        return max(LEAST_TILE, some), max(self.sizes.run, self.sizes.least_run // width)

    def _at(self, nest: Nest, position: Dim) -> tuple[Stmt, ...]:
        """The nest's statements at one position across memory."""
        return nest.replace({self.across: position}, nest.vars).body


def _pieces(names: Names, count: Dim, size: int) -> tuple[Sym, Sym, Dim]:
    """As `split.pieces`, but a loop of one iteration remains visible to the inside until loops are
    collapsed."""
    block = names.var(ceildiv(count, size), "b")
    within = names.var(minimum(size, add(count, mul(block.dim, -size))))
    return block, within, add(mul(block.dim, size), within.dim)
