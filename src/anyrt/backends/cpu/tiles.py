"""Tiles: a store for each of a few iterations inside a vector loop, which are contiguous although the lanes
are not.

Expressions that are contiguous along the tile are computed with the tile's iterations as lanes, once for each
lane of the vector loop, and transposed; in a masked step they are gathered.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyrt.backends.cpu.stores import prefetch, store_run
from anyrt.backends.cpu.transpose import columns, fit, interleave, transpose
from anyrt.backends.cpu.vectors import Lanes, Vectors
from anyrt.codegen import llvmtext as ll
from anyrt.codegen.emit import Emitter
from anyrt.codegen.scope import Scope
from anyrt.core.dims import Dim, Sym, bounds, linear
from anyrt.core.dimvalues import substitute
from anyrt.ir.kernel import For, Load, Store
from anyrt.ir.statements import changes_of, walks
from anyrt.ir.visit import parts

LIGHT = 6  # expressions of an element that are written once for each row


def write_tile(to: Emitter, v: Vectors, loop: For, lanes: Lanes) -> None:
    """A `For(TILE)` that holds a store, inside the vector loop of `lanes`."""
    tile, store = loop.var, loop.body[0]
    assert isinstance(store, Store), f"tile {tile} holds more than a store"
    moved, along = linear(store.index, lanes.var), linear(store.index, tile)
    if moved is not None and moved[0] == tile.extent and along is not None and along[0] == 1:
        Tile(to, v, tile, store, lanes).interleaved(moved[1])
    elif moved is None or moved[0] != 1 or not walks(store.value, tile) or bounds(tile.extent or 0)[1] < 2:
        # Contiguous stores are apart, or there are no two of them to load at once.
        if isinstance(tile.extent, int):
            to.unrolled(tile, loop.body)
        else:
            to.counted(tile, "0", v.values.dim(tile.extent or 0), loop.body)
    else:
        Tile(to, v, tile, store, lanes).transposed(moved[1])


@dataclass(slots=True)
class Tile:
    """One tile while it is written."""

    emitter: Emitter
    vectors: Vectors
    tile: Sym
    store: Store
    lanes: Lanes

    def transposed(self, rest: Dim) -> None:
        """Rows whose lanes are the tile's iterations become columns, which are stored."""
        v, values, tile, store = self.vectors, self.vectors.values, self.tile, self.store
        turns, outer = tile.extent or 0, v.out.scopes.inner
        size = 1 << (bounds(turns)[1] - 1).bit_length()
        count = values.dim(turns)
        mask = None if turns == size else v.out.below(outer, size, count)
        columns = self._columns(Lanes(tile, size, "0", mask))
        for i, column in enumerate(columns[:turns] if isinstance(turns, int) else columns):
            inner = v.out.scopes.open(Scope(syms={tile: str(i)}, changes=changes_of((store,))))
            first = v.lane_zero(inner, 1, rest, self.lanes)
            where = v.run(inner, store.buffer, first, self.lanes, writes=True)
            store_run(v, store.buffer, column, where, self.lanes)
            v.out.scopes.stack.pop()
            if isinstance(turns, int):
                outer.lines += inner.lines
            else:
                flag = v.out.put(outer, f"icmp slt i64 {i}, {count}")
                v.out.guarded(outer, flag, inner.lines)

    def _columns(self, across: Lanes) -> list[str]:
        """The tile's columns. Rows that are expensive are computed in a loop through memory, and so are more
        rows than the registers hold."""
        out, outer, width = self.vectors.out, self.vectors.out.scopes.inner, self.lanes.width
        name, size = ll.NAMES[self.store.buffer.stored], ll.BYTES[self.store.buffer.stored]
        most = fit(self.vectors.machine)
        if len(parts([self.store.value])) <= LIGHT and width <= most:
            rows = [self._row(str(lane), across) for lane in range(width)]
            return transpose(out, outer, rows, name, across.width)
        kind = f"<{across.width} x {name}>"
        space, i = f"%{out.scopes.name('tile')}", f"%{out.scopes.name('i')}"
        self.vectors.values.allocas.append(f"  {space} = alloca [{width} x {kind}], align 64")

        def place(row: int | str, column: int = 0) -> str:
            return out.put(out.scopes.inner, f"getelementptr {kind}, ptr {space}, i64 {row}, i64 {column}")

        def write() -> None:
            value = self._row(i, across)
            out.scopes.inner.lines.append(f"  store {kind} {value}, ptr {place(i)}")

        self.emitter.turns(i, "0", str(width), Scope(), write)
        if width <= most:
            rows = [out.put(outer, f"load {kind}, ptr {place(lane)}") for lane in range(width)]
            return transpose(out, outer, rows, name, across.width)
        return list(columns(out, outer, place, (name, size), width, across.width))

    def _row(self, lane: str, across: Lanes) -> str:
        """The stores of one lane of the vector loop in all iterations of the tile; masked lanes repeat the
        last one."""
        v, values, lanes, stored = self.vectors, self.vectors.values, self.lanes, self.store.value
        outer = v.out.scopes.inner
        at = v.out.put(outer, f"add i64 {lanes.first}, {lane}")
        if lanes.mask is not None:
            last = v.out.put(outer, f"sub i64 {values.dim(lanes.var.extent or 0)}, 1")
            at = v.out.call(outer, "i64", "llvm.smin.i64", [("i64", at), ("i64", last)])
        inner = v.open(across, Scope(syms={lanes.var: at, across.var: "0"}))
        value = v.value(stored)
        if isinstance(stored, Load):  # more rows far apart than a hardware prefetcher tracks
            first = values.dim(substitute(stored.index, {across.var: 0}))
            behind = across.width * ll.BYTES[stored.type]
            prefetch(v.out, inner, values.address(inner, stored.buffer, first), behind)
        v.out.scopes.stack.pop()
        outer.lines += inner.lines
        return value

    def interleaved(self, rest: Dim) -> None:
        """Lanes stored `tile.extent` elements apart, with the tile's iterations between them: contiguous
        memory."""
        v, values, tile, lanes = self.vectors, self.vectors.values, self.tile, self.lanes
        buffer, size, outer = self.store.buffer, tile.extent, v.out.scopes.inner
        assert isinstance(size, int), f"tile {tile} needs a fixed extent"
        rows = []
        for i in range(size):
            inner = v.out.scopes.open(Scope(syms={tile: str(i)}))
            rows.append(v.value(self.store.value))
            v.out.scopes.stack.pop()
            outer.lines += inner.lines
        mask = lanes.mask
        if mask is not None:
            mask = interleave(v.out, outer, [mask] * size, "i1", lanes.width)
        run = Lanes(lanes.var, lanes.width * size, lanes.first, mask)
        value = interleave(v.out, outer, rows, ll.NAMES[buffer.stored], lanes.width)
        inner = v.out.scopes.open(Scope(syms={tile: "0"}))
        first = v.out.put(inner, f"mul i64 {lanes.first}, {size}")
        start = v.out.put(inner, f"add i64 {values.dim(substitute(rest, {tile: 0}))}, {first}")
        store_run(v, buffer, value, v.run(inner, buffer, start, run, writes=True), run)
        v.out.scopes.stack.pop()
        outer.lines += inner.lines
