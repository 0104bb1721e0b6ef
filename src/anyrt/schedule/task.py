"""The input of scheduling: a graph, and all settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from anyrt.core.dims import Dim
from anyrt.core.machine import Machine
from anyrt.ir.buffer import Buffer
from anyrt.ir.graph import Graph, Shape, Value
from anyrt.schedule.cost import Sizes
from anyrt.schedule.group import Part
from anyrt.schedule.layout import Layout
from anyrt.schedule.nest import Numbers
from anyrt.schedule.nontemporal import Past
from anyrt.schedule.step import Strategies
from anyrt.schedule.tables import Tables
from anyrt.schedule.tuning import Tuning

ReportProgress = Callable[[int, int], None]  # (finished kernels, all kernels)


@dataclass(frozen=True, slots=True)
class Item:
    """An item of another graph's kernel. `parts`: values that are parts of tensors in that graph's memory;
    `past`: those of them that bypass the caches; `layouts`: those of its operands; `pitch`: the distance of
    the rows of its own tensors, if greater than their length; `may_tile`: tiles of scores may be created in
    it, one by one."""

    parts: Mapping[Value, tuple[Part, Buffer]] = field(default_factory=dict)
    past: Mapping[Buffer, Past] = field(default_factory=dict)
    layouts: Mapping[Value, Layout] = field(default_factory=dict)
    pitch: Mapping[Value, Dim] = field(default_factory=dict)
    may_tile: bool = True


@dataclass(frozen=True, slots=True)
class Task:
    """A graph to schedule for these sizes and this machine. `alone`: values that nothing is fused with;
    `tunings`: those of kernels with these roots; `item`: for an item of a kernel; `is_whole`: it is no
    part, region or copy of another graph. `tables` and `numbers` are shared by all graphs of a program,
    and grow."""

    graph: Graph
    sizes: Sizes
    machine: Machine
    strategies: Strategies
    alone: frozenset[Value] = frozenset()
    tunings: Mapping[Value, Tuning] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)
    progress: ReportProgress = lambda done, total: None
    numbers: Numbers = field(default_factory=Numbers)
    item: Item = Item()
    is_whole: bool = True

    def shape(self, value: Value) -> Shape:
        """The sizes of a stored value with the gaps between its rows."""
        return (*value.shape[:-1], self.item.pitch[value]) if value in self.item.pitch else value.shape

    def inner(self, graph: Graph) -> Task:
        """The task of a region, or of copies for one."""
        return replace(
            self, graph=graph, tunings={}, progress=lambda done, total: None, item=Item(), is_whole=False
        )
