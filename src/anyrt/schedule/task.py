"""What is to be scheduled: a graph, and all that decides how."""

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

Told = Callable[[int, int], None]  # hears how many kernels are made of how many


@dataclass(frozen=True, slots=True)
class Item:
    """Of what one item of another graph's kernel holds: `parts`: which values are parts of what lies in that
    graph's memory; `past`: what of that is written past the caches; `layouts`: how what is read lies there;
    `pitch`: how far the rows of its own tensors lie apart, if farther than they are long; `may_tile`:
    tiles of scores may be made in it, one by one."""

    parts: Mapping[Value, tuple[Part, Buffer]] = field(default_factory=dict)
    past: Mapping[Buffer, Past] = field(default_factory=dict)
    layouts: Mapping[Value, Layout] = field(default_factory=dict)
    pitch: Mapping[Value, Dim] = field(default_factory=dict)
    may_tile: bool = True


@dataclass(frozen=True, slots=True)
class Task:
    """A graph to schedule for these sizes and this machine. `alone`: values that nothing is fused with;
    `tunings`: how to make the kernels with these roots otherwise; `item`: for what an item of a kernel
    holds; `is_whole`: it is no part, region or copy of another graph. `tables` and `numbers` are shared by
    all graphs of a program, and grow."""

    graph: Graph
    sizes: Sizes
    machine: Machine
    strategies: Strategies
    alone: frozenset[Value] = frozenset()
    tunings: Mapping[Value, Tuning] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)
    told: Told = lambda made, of: None
    numbers: Numbers = field(default_factory=Numbers)
    item: Item = Item()
    is_whole: bool = True

    def shape(self, value: Value) -> Shape:
        """The sizes of a stored value with what lies between its rows."""
        return (*value.shape[:-1], self.item.pitch[value]) if value in self.item.pitch else value.shape

    def inner(self, graph: Graph) -> Task:
        """The task of a region, or of copies for one."""
        return replace(self, graph=graph, tunings={}, told=lambda made, of: None, item=Item(), is_whole=False)
