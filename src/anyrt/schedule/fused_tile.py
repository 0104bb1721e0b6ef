"""Fused tiles: the kernels of one item (compute_at.py), created like those of any graph, and joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.graph import Graph, Value
from anyrt.ir.kernel import Kernel
from anyrt.ir.statements import with_buffers
from anyrt.schedule.compute_at import TileGraph
from anyrt.schedule.cost import Sizes
from anyrt.schedule.elements import FusionFailure
from anyrt.schedule.group import Group, Part, Signature
from anyrt.schedule.kernels import BuiltKernel, Plan
from anyrt.schedule.launch import Launch, Schedule
from anyrt.schedule.layout import Layout
from anyrt.schedule.scores import ANY
from anyrt.schedule.step import Trace
from anyrt.schedule.task import Item, Task
from anyrt.schedule.tile_kernel import TileKernels, joined


def fused_tile(
    schedule: Callable[[Task], Schedule], plan: Plan, group: Group, signature: Signature, name: str
) -> BuiltKernel | FusionFailure:
    """The joined kernels of the graph of one tile, and of a second graph for the remaining rows. `schedule`
    creates the kernels of a graph."""
    tile = group.tile
    assert tile is not None, "the group is computed in tiles"
    known = isinstance(tile.root.shape[tile.row], int)
    both = (False, True) if known and not tile.is_even else (False,)
    cuts = list[tuple[TileGraph, Graph]]()
    for last in both:
        cut = TileGraph(tile, plan.memory.buffers, last)
        graph = cut.graph()
        if isinstance(graph, FusionFailure):
            return graph
        cuts.append((cut, graph))
    parts = [_Tile(schedule, plan, group, cut).kernels(graph) for cut, graph in cuts]
    formal = tuple(map(signature.formal, signature.buffers))
    unmet = dict.fromkeys(why for each in parts for why in each.unmet)
    return BuiltKernel(joined(name, parts, group.buffer), formal, "fused tile", tuple(unmet))


def traced(schedule: Callable[[Task], Schedule], plan: Plan, launch: Launch) -> list[Trace]:
    """A launch's kernel after each step, as it was before stores bypass the caches; of a fused tile each of
    its kernels, and the joined one."""
    group = replace(launch.group, buffer=replace(launch.group.buffer, nontemporal=0))
    if group.tile is None:
        return plan.builder(group, launch.call.name).traced()
    cut = TileGraph(group.tile, plan.memory.buffers)
    tile, graph = _Tile(schedule, plan, group, cut), cut.graph()
    assert isinstance(graph, Graph), "the kernel was created before"
    inside = [x for x in (tile.looking(), tile.copying(), tile.own(graph)) if x is not None]
    steps = ((each.name, t) for inner in inside for each in inner.everywhere for t in inner.trace(each))
    return [*(replace(t, step=f"{name}: {t.step}") for name, t in steps), Trace("compute at", launch.kernel)]


@dataclass(frozen=True, slots=True)
class _Tile:
    """A fused tile while its kernels are created."""

    schedule: Callable[[Task], Schedule]
    plan: Plan
    group: Group
    cut: TileGraph

    def kernels(self, graph: Graph) -> TileKernels:
        """Its kernels, and the values at the memory that they read."""
        cut, inner, looking = self.cut, self.own(graph), self.looking()
        swap, looks = self._leaves(inner), list[Kernel]()
        unmet = tuple(why for x in inner.everywhere for why in x.unmet)
        if looking is not None:
            seen = {looking.buffers[looking.graph.outputs[0][1]]: ANY}
            looks = [with_buffers(k, seen) for k in _kernels(looking)]
            swap |= self._leaves(looking)
        copying, filling = (
            cut.copying(),
            None if cut.last else self.copying(),
        )  # for the last one they are there
        if copying is None:
            return TileKernels(cut, _kernels(inner), swap, looking=looks, unmet=unmet)
        before, layout, panels = copying
        ((_, copied),) = before.outputs
        own = Buffer("tile.panels", copied.dtype, Space.SCRATCH, layout.entries)
        swap |= {inner.buffers[panels]: own}
        if filling is None:
            return TileKernels(cut, _kernels(inner), swap, looking=looks, unmet=unmet)
        swap |= self._leaves(filling) | {filling.buffers[copied]: own}
        return TileKernels(cut, _kernels(inner), swap, _kernels(filling), looks, own, unmet)

    def own(self, graph: Graph) -> Schedule:
        """The schedule of the tile's graph."""
        cut, ((_, tile),) = self.cut, graph.outputs
        layouts, copying = self.plan.layouts, cut.copying()
        chosen = {} if copying is None else {copying[2]: copying[1]}
        if cut.tile.root in layouts:
            chosen[tile] = layouts[cut.tile.root]
        return self._within(graph, chosen, {tile: (Part(cut.tile.root.shape, cut.start), self.group.buffer)})

    def looking(self) -> Schedule | None:
        """The schedule of the test of a block of its columns."""
        graph = self.cut.looking()
        return None if graph is None else self._within(graph, {}, {})

    def copying(self) -> Schedule | None:
        """The schedule of the copies to panels for all tiles of a batch."""
        copying = self.cut.copying()
        return copying and self._within(copying[0], {copying[0].outputs[0][1]: copying[1]}, {})

    def _within(
        self,
        graph: Graph,
        chosen: Mapping[Value, Layout],
        parts: Mapping[Value, tuple[Part, Buffer]],
    ) -> Schedule:
        """The schedule of the graph of an item."""
        task, cut, layouts = self.plan.task, self.cut, self.plan.layouts
        inherited = {p: layouts[leaf] for leaf, p in cut.leaves.items() if leaf in layouts}
        past = {b: self.plan.memory.past[b] for _, b in parts.values() if b in self.plan.memory.past}
        inner = Task(
            graph,
            Sizes({**task.sizes.values, **cut.usual(task.sizes)}),
            replace(task.machine, cores=1),
            task.strategies,
            tables=task.tables,
            item=Item(parts, past, {**inherited, **chosen}, cut.pitch, cut.tile.scores is None),
            is_whole=False,
        )
        return self.schedule(inner)

    def _leaves(self, inner: Schedule) -> dict[Buffer, Buffer]:
        """The operands of an item's kernels, with the buffers of the whole tensors."""
        leaves = {p: leaf for leaf, p in self.cut.leaves.items() if p in inner.buffers}
        return {inner.buffers[p]: self.plan.memory.buffers[leaf] for p, leaf in leaves.items()}


def _kernels(inner: Schedule) -> list[Kernel]:
    return [x.call.bound for x in inner.everywhere]
