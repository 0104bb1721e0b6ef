"""The schedule of a graph: launches of kernels in order, those of regions, repeated or conditional, and calls
of foreign code."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import TypeAlias

from anyrt.core.dims import Dim, maximum, product
from anyrt.ir.buffer import Buffer
from anyrt.ir.graph import Graph, Node, Value
from anyrt.ir.kernel import Kernel
from anyrt.ir.program import Call
from anyrt.ir.statements import buffers_in_order
from anyrt.loops.overwrite import reads_what_it_stores, stores_of
from anyrt.schedule.group import Group
from anyrt.schedule.layout import Layout
from anyrt.schedule.partition import Stored
from anyrt.schedule.step import Trace
from anyrt.schedule.tables import Tables
from anyrt.schedule.tuning import Tuning

Memory: TypeAlias = frozenset[Buffer]


@dataclass(frozen=True, slots=True)
class Launch:
    """The call of a kernel that computes a group, with the values inlined in it. Its name is a number until
    all layers of an engine are known (labels.py). `kind`: the strategy of the kernel, with the pieces of
    `tuning`. `unmet`: why it does without instructions that a step intended."""

    call: Call
    group: Group
    inlined: tuple[Value, ...]
    kind: str
    tuning: Tuning
    unmet: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in listings."""
        return self.call.name

    @property
    def root(self) -> Value:
        """Its name in tunings."""
        return self.group.root

    @property
    def makes(self) -> tuple[Value, ...]:
        """The values that it writes (a part of)."""
        return self.group.makes

    @property
    def kernel(self) -> Kernel:
        """The kernel on its own buffers."""
        return self.call.bound

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The memory that it writes (a part of)."""
        return (self.group.buffer, *(b for _, b in self.group.also))

    def may_store_over(self, old: Buffer) -> bool:
        """True if it stores each element of its root once, and reads the same element of `old` before that,
        and nothing else of it."""
        kernel, call = self.call.kernel, self.call
        own = {call.binds.get(b, b): b for b in buffers_in_order(kernel)}
        new, read = own[self.group.buffer], own[old]
        if call.first.get(new, 0) != call.first.get(read, 0) or not reads_what_it_stores(kernel, new, read):
            return False
        return stores_of(kernel, new) == product(self.root.shape)

    def on(self, swap: Mapping[Buffer, Buffer]) -> Launch:
        """The same on other memory."""
        call, group = self.call, self.group
        bound = {b: call.binds.get(b, b) for b in buffers_in_order(call.kernel)}
        binds = {b: new for b, old in bound.items() if (new := swap.get(old, old)) != b}
        finds = call.finds and replace(call.finds, buffer=swap.get(call.finds.buffer, call.finds.buffer))
        tells = tuple((size, swap.get(b, b)) for size, b in call.tells)
        also = tuple((v, swap.get(b, b)) for v, b in group.also)
        return replace(
            self,
            call=replace(call, binds=binds, finds=finds, tells=tells),
            group=replace(group, buffer=swap.get(group.buffer, group.buffer), also=also),
        )


@dataclass(frozen=True, slots=True)
class RegionStep:
    """The regions of a node, on the memory of the values around them, and a bool in `flag`: with `turns`,
    `bodies` are executed in order repeatedly while it is true; otherwise it selects one of two. `before`:
    copies of the initial states. `ends`: for each body the buffers of the tensors that it names differently,
    () if all bodies use the names of the graph around (`Schedule.settled`)."""

    node: Node
    flag: Buffer
    turns: bool
    before: Schedule
    bodies: tuple[Schedule, ...]
    name: str
    ends: tuple[Mapping[Buffer, Buffer], ...] = ()
    kept: list[tuple[Memory, Memory]] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def parts(self) -> tuple[Schedule, ...]:
        """All schedules in order."""
        return (self.before, *self.bodies)

    @property
    def touched(self) -> Memory:
        """All memory that is read or written."""
        todo: list[RegionStep] = [self]  # deeper than Python recurses
        while todo:
            step = todo[-1]
            steps = (x for body in step.bodies for x in body.steps)
            inner = [x for x in steps if isinstance(x, RegionStep) and not x.kept]
            if inner:
                todo += inner
                continue
            step.kept[:] = [step._touches()]
            todo.pop()
        return frozenset().union(*self.kept[0])

    def _touches(self) -> tuple[Memory, Memory]:
        """The memory that is read or written, by the names of the graph around and by names that nobody
        replaces; inner steps include those around them."""
        called, fixed = {self.flag, *mentioned(self.before)}, set[Buffer]()
        for body, ends in zip_longest(self.bodies, self.ends):
            inner = [x.kept[0] for x in body.steps if isinstance(x, RegionStep)]
            used = [touched(x) for x in body.steps if not isinstance(x, RegionStep)]
            own = frozenset[Buffer]().union(*used, *(names for names, _ in inner))
            fixed = fixed.union(*(names for _, names in inner), () if ends is None else own - ends.keys())
            called |= own if ends is None else {ends[b] for b in own & ends.keys()}
        return frozenset(called), frozenset(fixed)

    def on(self, swap: Mapping[Buffer, Buffer]) -> RegionStep:
        """The same on other memory; the inside keeps its names."""
        ends = tuple(names for _, names in self._named(swap))
        flag = swap.get(self.flag, self.flag)
        return replace(self, flag=flag, before=self.before.on(swap), ends=ends)

    def _named(self, swap: Mapping[Buffer, Buffer]) -> Iterator[tuple[Schedule, Mapping[Buffer, Buffer]]]:
        """Each body with the buffers of the tensors that it names differently, after `swap` on the graph
        around."""
        for body, ends in zip_longest(self.bodies, self.ends):
            yield body, swap if ends is None else {b: swap.get(to, to) for b, to in ends.items()}


@dataclass(frozen=True, slots=True)
class ExternalStep:
    """A call of foreign code, on the memory of the values around it: what it `reads` and `writes`, after
    copies `before`."""

    node: Node
    before: Schedule
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    name: str

    @property
    def parts(self) -> tuple[Schedule, ...]:
        """All schedules in order."""
        return (self.before,)

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The memory that it writes."""
        return self.writes

    @property
    def touched(self) -> frozenset[Buffer]:
        """All memory that is read or written."""
        copied = (b for launch in self.before.everywhere for b in launch.call.buffers)
        return frozenset((*self.reads, *self.writes, *copied))

    def on(self, swap: Mapping[Buffer, Buffer]) -> ExternalStep:
        """The same on other memory."""
        reads, writes = (tuple(swap.get(b, b) for b in side) for side in (self.reads, self.writes))
        return replace(self, before=self.before.on(swap), reads=reads, writes=writes)


Step: TypeAlias = Launch | RegionStep | ExternalStep


def touched(step: Step) -> Memory:
    """All memory that a step reads or writes."""
    return frozenset(step.call.buffers) if isinstance(step, Launch) else step.touched


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of a graph in order, the tables they need (shared with other versions), where values are
    stored and in which layouts, what was not fused, and the number of kernels created for it, including
    failed ones. `trace`: a launch's kernel after each step of its strategy, or why the step did not apply."""

    graph: Graph
    steps: tuple[Step, ...]
    tables: Tables
    buffers: Mapping[Value, Buffer]
    layouts: Mapping[Value, Layout]
    refused: tuple[Stored, ...]
    created: int
    trace: Callable[[Launch], list[Trace]]

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Those of the graph itself, not of regions."""
        return tuple(x for x in self.steps if isinstance(x, Launch))

    @property
    def region_steps(self) -> Iterator[RegionStep]:
        """The regions of the graph, and those inside them."""
        return (step for step in self.node_steps if isinstance(step, RegionStep))

    @property
    def external_steps(self) -> Iterator[ExternalStep]:
        """The calls of foreign code, those of regions included."""
        return (step for step in self.node_steps if isinstance(step, ExternalStep))

    @property
    def node_steps(self) -> Iterator[RegionStep | ExternalStep]:
        """All but launches, each before what is inside it."""
        return (step for step in self._every() if not isinstance(step, Launch))

    @property
    def everywhere(self) -> Iterator[Launch]:
        """All launches in order, those of regions at any depth included."""
        return (step for step in self._every() if isinstance(step, Launch))

    @property
    def nested(self) -> Iterator[Schedule]:
        """This one and those of regions at any depth, each once and before those inside it."""
        yield self
        yield from (part for step in self.node_steps for part in step.parts)

    def _every(self) -> Iterator[Step]:
        """All steps in order, each before those inside it; without recursion, so that depth costs nothing."""
        todo = [*reversed(self.steps)]
        while todo:
            step = todo.pop()
            yield step
            if not isinstance(step, Launch):
                todo += reversed([x for part in step.parts for x in part.steps])

    def on(self, swap: Mapping[Buffer, Buffer]) -> Schedule:
        """The same on other memory."""
        buffers = {v: swap.get(b, b) for v, b in self.buffers.items()}
        return replace(self, steps=tuple(x.on(swap) for x in self.steps), buffers=buffers)

    def settled(self, swap: Mapping[Buffer, Buffer]) -> Schedule:
        """The same on other memory, all inner schedules, too, which use the names of this one from then
        on."""
        order = [(self, swap)]
        for schedule, names in order:  # which grows: regions are deeper than Python recurses
            order += (
                x for step in schedule.steps if isinstance(step, RegionStep) for x in step._named(names)
            )
        queue = deque[Schedule]()
        for schedule, names in reversed(order):
            own, steps = schedule.on(names), list[Step]()
            for step in reversed(own.steps):
                if isinstance(step, RegionStep):
                    bodies = [queue.popleft() for _ in step.bodies]
                    steps.append(replace(step, bodies=tuple(reversed(bodies)), ends=()))
                else:
                    steps.append(step)
            queue.append(replace(own, steps=tuple(reversed(steps))))
        return queue.pop()


@dataclass(frozen=True, slots=True)
class Line:
    """All launches of a schedule in one sequence, with the flags of regions around theirs; `turns`: the first
    and the last step of what is repeated."""

    steps: tuple[Launch | ExternalStep | Buffer, ...]
    turns: tuple[tuple[int, int], ...]

    def last_uses(self) -> dict[Buffer, int]:
        """The last step that needs a buffer; a value from before an iteration is needed by the next one."""
        first, last = dict[Buffer, int](), dict[Buffer, int]()
        for n, step in enumerate(self.steps):
            for b in (*written_by(step), *read_by(step)):
                first.setdefault(b, n)
                last[b] = n
        for begin, end in self.turns:
            last |= {b: max(n, end) for b, n in last.items() if first[b] < begin <= n}
        return last


def mentioned(copies: Schedule) -> Iterator[Buffer]:
    """The memory that copies read and write."""
    return (b for launch in copies.everywhere for b in launch.call.buffers)


def marked(launches: Iterable[Launch]) -> dict[Buffer, Buffer]:
    """The outputs that some kernel stores past the caches, each with that mark."""
    marks: dict[Buffer, Dim] = {}
    for formal, actual in chain.from_iterable(x.call.binds.items() for x in launches):
        marks[actual] = maximum(formal.nontemporal, marks.get(actual, 0))
    return {b: replace(b, nontemporal=mark) for b, mark in marks.items() if mark != 0}


def written_by(step: Launch | ExternalStep | Buffer) -> tuple[Buffer, ...]:
    """The memory that a step of the sequence writes."""
    return () if isinstance(step, Buffer) else step.written


def read_by(step: Launch | ExternalStep | Buffer) -> tuple[Buffer, ...]:
    """The memory that a step of the sequence requests."""
    match step:
        case Buffer():
            return (step,)
        case ExternalStep(reads=reads, writes=writes):
            return (*reads, *writes)
        case Launch(call=call):
            return call.buffers


def in_line(schedule: Schedule) -> Line:
    """All launches in order; inner loops stand before those around them."""
    steps, turns = list[Launch | ExternalStep | Buffer](), list[tuple[int, int]]()

    def put(schedule: Schedule) -> None:
        for step in schedule.steps:
            if isinstance(step, Launch):
                steps.append(step)
                continue
            put(step.before)
            if isinstance(step, ExternalStep):
                steps.append(step)
                continue
            begin = len(steps)
            steps.append(step.flag)
            for body in step.bodies:
                put(body)
            if step.turns:
                turns.append((begin, len(steps)))
                steps.append(step.flag)

    put(schedule)
    return Line(tuple(steps), tuple(turns))
