"""Stages: contractions that are computed at an item of a later one, which reads their rows and no others.

    y = x ∗ d;  z = y · p     ->     for each tile of rows of z:   y' = x' ∗ d;  z' = y' · p

A contraction is a stage where each item needs a part of it that no other one needs: the axes along which
items divide the root are followed to axes of what it is made of (cut.py). So a depthwise convolution is a
stage of the pointwise one behind it, and all of an attention, for all heads, of the projection behind it.
What all items need, as weights, keys and values, is made before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from anyrt.core.machine import Machine
from anyrt.ir.compute import Contracted, is_each
from anyrt.ir.graph import Graph, Value, users, walk
from anyrt.schedule.compute_at import FusedTile
from anyrt.schedule.cost import Sizes
from anyrt.schedule.cut import operands
from anyrt.schedule.scores import FLOAT

ITEMS: Final = 2  # for each core, so that none waits long for the last one
Cut = Mapping[int, int]  # axes along which an item has a part of a value, with the root's axes


def staged(
    graph: Graph, stored: Set[Value], kept: Set[Value], sizes: Sizes, machine: Machine
) -> Iterator[FusedTile]:
    """The contractions whose items had better compute others first. `stored`: what would lie in memory;
    what is `kept` is wanted by others."""
    search = _Search(users(graph), stored, kept, sizes, machine)
    for value in walk(v for _, v in graph.outputs):
        if isinstance(how := value.compute, Contracted):
            found = (search.tile(value, how, labels) for labels in (how.left, how.right))
            yield from (tile for tile in found if tile is not None)


@dataclass(frozen=True, slots=True)
class _Search:
    """What is asked of a graph."""

    uses: Mapping[Value, Sequence[Value]]
    stored: Set[Value]
    kept: Set[Value]
    sizes: Sizes
    machine: Machine

    def tile(self, value: Value, how: Contracted, labels: Sequence[int]) -> FusedTile | None:
        """The contraction in tiles with all stages of the factor that has these labels, where that is worth
        it. Items are cut along its first axes, so many that all threads have some, and that the second cache
        holds what one computes."""
        after = self._after(value)
        axes = [n for n, x in enumerate(how.out) if x in labels and value.shape[n] != 1]
        gain, best = 0, None
        for count in range(1, len(axes) + 1):
            parts = self._parts(value, {n: n for n in axes[:count]}, after)
            *batches, row = axes[:count]
            tile = FusedTile((value, *after)[-1], frozenset((*parts, *after)), tuple(batches), row, 1)
            if not self._stages(tile, value):
                break
            size, is_enough = self._size(tile, value)
            found = self._gain(tile := replace(tile, size=size), value, parts)
            gain, best = (found, tile) if found > 0 and found >= gain else (gain, best)
            if is_enough:
                break
        return best

    def _after(self, value: Value) -> tuple[Value, ...]:
        """What single elements make of a value alone, until that is stored."""
        found = [value]
        while found[-1] not in self.stored | self.kept and len(self.uses[found[-1]]) == 1:
            (user,) = self.uses[found[-1]]
            if not is_each(user.compute) or user.shape != value.shape:
                break
            found.append(user)
        return tuple(found[1:])

    def _parts(self, value: Value, cut: Cut, after: Sequence[Value]) -> Mapping[Value, Cut]:
        """The contraction, and all that leads to it from stages and is read by nothing else."""
        barred = set(self.kept - {value})
        while True:
            parts = _leading(value, cut, barred)
            inside = {*parts, *after}
            others = {v for v in parts if v is not value and not inside.issuperset(self.uses[v])}
            if not others:
                return parts
            barred |= others

    def _stages(self, tile: FusedTile, value: Value) -> list[Value]:
        return [v for v in tile.inside if v is not value and isinstance(v.compute, Contracted)]

    def _taken(self, tile: FusedTile, value: Value) -> int:
        """Elements of all stages for one row."""
        rows = prod(self.sizes.of(tile.root.shape[k]) for k in (*tile.batches, tile.row))
        return sum(map(self.sizes.volume, self._stages(tile, value))) // max(1, rows)

    def _size(self, tile: FusedTile, value: Value) -> tuple[int, bool]:
        """Rows of a tile, and whether all threads have enough of these, and a cache holds one."""
        rows, items = self.sizes.of(tile.root.shape[tile.row]), ITEMS * self.machine.cores
        batches = prod(self.sizes.of(tile.root.shape[k]) for k in tile.batches)
        held = self.machine.l2_bytes // 2 // FLOAT // max(1, self._taken(tile, value))
        most = max(1, min(held, -(-rows * batches // items)))
        return -(-rows // -(-rows // most)), held > 0 and rows * batches >= items

    def _gain(self, tile: FusedTile, value: Value, parts: Mapping[Value, Cut]) -> int:
        """Instructions that are saved where what lies in scratch is not stored far away and loaded again,
        less those that loads of what all items need take, where the second cache does not hold both."""
        volume, far = self.sizes.volume, self.machine.l2_bytes // FLOAT
        saved = sum(n for v in tile.inside & self.stored if v is not tile.root and (n := volume(v)) > far)
        shared = sum(map(volume, _shared(parts)))
        items = prod(self.sizes.of(v.extent or 0) for v in tile.loops.values())
        near = shared + self._taken(tile, value) * self.sizes.of(tile.size) <= far
        again = 0 if near else shared * items // 2
        return (saved - again) * self.machine.costs.move // self.machine.lanes


def _leading(value: Value, cut: Cut, barred: Set[Value]) -> dict[Value, Cut]:
    """A contraction, the stages from which something leads to it, and what that is, each with the axes of
    which an item has a part; a stage has one of all that the contraction has."""
    cuts, readers, stages = {value: cut}, dict[Value, list[Value]](), [value]
    todo = [value]
    while todo:
        v = todo.pop()
        for arg, here in zip(v.args, operands(v, cuts[v]) or (), strict=False):
            readers.setdefault(arg, []).append(v)
            if cuts.setdefault(arg, here) != here:  # parts of two kinds
                return {value: cut}
            is_sum = isinstance(arg.compute, Contracted)
            if len(readers[arg]) > 1 or arg in barred or (is_sum and {*here.values()} != {*cut.values()}):
                continue
            todo.append(arg)
            stages += [arg] if is_sum else []
    inside = dict[Value, Cut]()
    for v in stages:  # which grows
        inside[v] = cuts[v]
        stages += (u for u in readers.get(v, ()) if u not in stages)
    return inside


def _shared(parts: Mapping[Value, Cut]) -> set[Value]:
    """What stages read that is the same for all items."""
    sums = ((v, cut) for v, cut in parts.items() if isinstance(v.compute, Contracted))
    return {a for v, cut in sums for a, own in zip(v.args, operands(v, cut) or (), strict=False) if not own}
