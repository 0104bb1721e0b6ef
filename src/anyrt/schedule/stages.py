"""Stages: contractions that are computed per item of a later one, which reads only their rows.

    y = x ∗ d;  z = y · p     ->     for each tile of rows of z:   y' = x' ∗ d;  z' = y' · p

A contraction is a stage if each item needs a part of it that no other item needs: the axes along which items
divide the root are followed to axes of its operands (cut.py). A depthwise convolution is therefore a stage of
the pointwise one behind it, and an attention with all its heads a stage of its projection. Values that all
items need, such as weights, keys and values, are computed before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import gcd, prod
from typing import Final

from anyrt.core.dims import Dim, as_symbol, bounds, depends, linear
from anyrt.core.dtype import bits
from anyrt.core.machine import Machine
from anyrt.ir.compute import Contracted, Elements, is_each, only_moves
from anyrt.ir.graph import Graph, Value, users, walk
from anyrt.schedule.compute_at import FusedTile
from anyrt.schedule.cost import Sizes
from anyrt.schedule.cut import operands
from anyrt.schedule.hidden import hides
from anyrt.schedule.positions import own, read
from anyrt.schedule.scores import FLOAT
from anyrt.schedule.step import AtItems, Shared

ITEMS: Final = 2  # items per core, so that none waits long for the last one
Cut = Mapping[int, int]  # axes along which an item has a part of a value, with the root's axes
Gain = Callable[[AtItems, Machine], int]  # instructions that are saved


def staged(
    graph: Graph, stored: Set[Value], kept: Set[Value], sizes: Sizes, machine: Machine, gain: Gain
) -> Iterator[FusedTile]:
    """The contractions whose items should compute others first, by the price `gain`. `stored`: the values in
    memory; `kept` values have other readers."""
    order = graph.values
    whole = {v for x in order if isinstance(x.compute, Elements) and x.compute.instead for v in _mended(x)}
    places = {v: n for n, v in enumerate(order)}
    search = _Search(places, users(graph), stored, kept | whole, sizes, machine, gain)
    for value in order:
        if value not in whole and isinstance(how := value.compute, Contracted):
            tiles = (search.tile(value, how, labels) for labels in (how.left, how.right))
            yield from filter(None, tiles)


@dataclass(frozen=True, slots=True)
class _Search:
    """The properties of a graph that the search uses."""

    places: Mapping[Value, int]  # in the graph
    uses: Mapping[Value, Sequence[Value]]
    stored: Set[Value]
    kept: Set[Value]
    sizes: Sizes
    machine: Machine
    gain: Gain
    # Each contraction is followed to the start of the graph; results are cached.
    known: dict[tuple[Value, frozenset[tuple[int, int]]], Sequence[Cut]] = field(default_factory=dict)

    def _operands(self, value: Value, cut: Cut) -> Sequence[Cut]:
        """The cut axes of each operand, none if a part needs other parts."""
        key = value, frozenset(cut.items())
        if key not in self.known:
            self.known[key] = operands(value, cut) or ()
        return self.known[key]

    def tile(self, value: Value, how: Contracted, labels: Sequence[int]) -> FusedTile | None:
        """The contraction in tiles with all stages of the factor that has these labels, if that pays. Items
        are cut along its first axes, so that all threads have some and the second cache holds one item's
        values."""
        after = self._after(value)
        axes = [n for n, x in enumerate(how.out) if x in labels and value.shape[n] != 1]
        gain, best = 0, None
        for count in range(1, len(axes) + 1):
            parts = self._parts(value, {n: n for n in axes[:count]}, after)
            *batches, row = axes[:count]
            tile = FusedTile((value, *after)[-1], frozenset((*parts, *after)), tuple(batches), row, 1)
            if not self._stages(tile, value) or not self.sizes.volume(tile.root):
                break  # no value is computed at items, or there are none
            size, is_enough = self._size(tile, value)
            saved = self.gain(self._asked(tile := replace(tile, size=size), parts), self.machine)
            gain, best = (saved, tile) if saved > gain else (gain, best)
            if is_enough:
                break
        return best

    def _after(self, value: Value) -> tuple[Value, ...]:
        """The elementwise functions of a value, in order, up to the last one that all others lead to, such as
        the end of a clamp, and at most up to one that is stored."""
        inside, count, last, todo = [value], 1, 0, dict[int, Value]()
        while inside[-1] not in self.stored and inside[-1] not in self.kept:
            readers = {self.places[u]: u for u in self.uses[inside[-1]]}
            if not (todo := todo | readers):
                break
            user = todo.pop(place := min(todo))
            if not is_each(user.compute) or hides(user) or user.shape != value.shape:
                break
            inside.append(user)
            last = max([last, *readers])  # reader of those before the user
            count = len(inside) if last <= place else count
        return tuple(inside[1:count])

    def _parts(self, value: Value, cut: Cut, after: Sequence[Value]) -> Mapping[Value, Cut]:
        """The contraction, its stages, and the values between, which nothing else reads, each with the axes
        along which an item has a part; a stage has a part along each axis of the contraction."""
        cuts, readers, stages = {value: cut}, dict[Value, list[Value]](), dict[Value, None]()
        inside, todo = {*after}, [(0, value)]
        while todo:  # readers first
            _, v = heappop(todo)
            is_sum = isinstance(v.compute, Contracted) and v is not value
            if v is not value and (v in self.kept or not inside.issuperset(self.uses[v])):
                continue
            if is_sum and {*cuts[v].values()} != {*cut.values()}:
                continue
            inside.add(v)
            stages |= {v: None} if is_sum else {}
            for arg, here in zip(v.args, self._operands(v, cuts[v]), strict=False):
                if arg not in cuts:
                    heappush(todo, (-self.places[arg], arg))
                readers.setdefault(arg, []).append(v)
                if cuts.setdefault(arg, here) != here:  # parts of two kinds
                    return {value: cut}
        rest = [*stages]
        for v in rest:  # which grows
            new = [u for u in readers[v] if u is not value and u not in stages]
            stages |= dict.fromkeys(new)
            rest += dict.fromkeys(new)
        return {v: cuts[v] for v in (*stages, value)}

    def _stages(self, tile: FusedTile, value: Value) -> list[Value]:
        """The values of a tile. Separate kernels read in place the matrices that data select for products,
        such as those of experts; an item would copy each."""
        if any(_is_chosen(a) for v in tile.inside for a in v.args):
            return []
        return [v for v in tile.inside if v is not value and isinstance(v.compute, Contracted)]

    def _taken(self, tile: FusedTile, value: Value) -> int:
        """Elements of all stages for one row."""
        rows = self._count(tile, (*tile.batches, tile.row))
        return sum(map(self.sizes.volume, self._stages(tile, value))) // rows

    def _size(self, tile: FusedTile, value: Value) -> tuple[int, bool]:
        """Rows of a tile, and whether all threads have enough of these, and a cache holds one. Their number
        lets all cores finish together."""
        rows, items = self.sizes.of(tile.root.shape[tile.row]), ITEMS * self.machine.cores
        batches = self._count(tile, tile.batches)
        held = self.machine.l2_bytes // 2 // FLOAT // max(1, self._taken(tile, value))
        most = max(1, min(held, -(-rows * batches // items)))
        whole = self.machine.cores // gcd(self.machine.cores, batches)
        count = -(-rows // most // whole) * whole
        return -(-rows // count), held > 0 and rows * batches >= items

    def _asked(self, tile: FusedTile, parts: Mapping[Value, Cut]) -> AtItems:
        """The quantities that the price of a tile depends on."""
        volume, nbytes, items = self.sizes.volume, self._nbytes, self._items(tile)
        sums = [(v, cut, how) for v, cut in parts.items() if isinstance(how := v.compute, Contracted)]
        shared, repeated = dict[Value, Shared](), 0
        for v, cut, how in sums:
            terms = prod(
                self.sizes.of(v.args[0].shape[k]) for k, x in enumerate(how.left) if x not in how.out
            )
            for arg, here in zip(v.args, operands(v, cut) or (), strict=False):
                if tile.row in here.values():
                    repeated += self._overlap(tile, arg, here) * items
                    continue
                parts_of = self._count(tile, here.values())
                rows = volume(v) * terms // items // max(1, volume(arg) // parts_of)
                shared[arg] = Shared(max(1, nbytes(arg) // parts_of), rows)
        between = tuple(nbytes(v) for v in tile.inside & self.stored if v is not tile.root)
        return AtItems(between, tuple(shared.values()), items, repeated)

    def _overlap(self, tile: FusedTile, value: Value, cut: Cut) -> int:
        """Bytes of the source of a view that two tiles read, such as the border of windows."""
        while only_moves(value.compute) and (cuts := operands(value, cut)):
            (value,), (cut,) = value.args, cuts
        at = own(value.shape)
        row = next((as_symbol(at[k]) for k, axis in cut.items() if axis == tile.row), None)
        if row is None or not only_moves(value.compute):
            return 0
        ((source, where, _),) = read(value, at)
        moved = ((k, linear(start, row)) for k, start in enumerate(where) if depends(start, row))
        lines = (
            _again(*terms) * self._nbytes(source) // max(1, self.sizes.of(source.shape[k]))
            for k, terms in moved
            if terms is not None
        )
        return sum(lines) // self._count(tile, tile.batches)

    def _nbytes(self, value: Value) -> int:
        return self.sizes.volume(value) * bits(value.dtype) // 8

    def _items(self, tile: FusedTile) -> int:
        return max(1, prod(self.sizes.of(v.extent or 0) for v in tile.loops.values()))

    def _count(self, tile: FusedTile, axes: Iterable[int]) -> int:
        """Iterations along some of the root's axes, at least one."""
        return max(1, prod(self.sizes.of(tile.root.shape[k]) for k in axes))


def _mended(value: Value) -> Set[Value]:
    """A Winograd convolution: the mended value, and all that leads only to it. An item has few elements along
    the axes of its transforms: fused with other contractions, it was 0.3 to 0.9 times as fast."""
    first, *others = value.args
    return {value, *walk((first,), walk(others))}


def _is_chosen(value: Value) -> bool:
    while only_moves(value.compute) and value.args:
        (value,) = value.args
    return isinstance(value.compute, Elements) and bool(value.compute.positions)


def _again(step: Dim, rest: Dim) -> int:
    """Positions that a window shares with the next one at this distance."""
    low, high = bounds(rest)
    return max(0, high - low + 1 - step) if isinstance(step, int) else 0
