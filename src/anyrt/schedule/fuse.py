"""From a graph to kernels, in four steps, each of them a function:

store    which values lie in memory, and why (store.py)
group    what each kernel computes, all that it needs inlined (groups.py)
layouts  in which order the axes of what is stored lie (layouts.py)
build    the kernels (kernels.py)

A kernel may fail to compute a value inside it. Then that value is stored, too, and everything is decided
again; existing kernels are reused. The reason why each value is stored is kept, and answers "why was this not
fused?". Regions are scheduled before the graph around them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from functools import partial

from anyrt.core.errors import CompileError
from anyrt.ir.buffer import Buffer
from anyrt.ir.compute import Given, Nested
from anyrt.ir.graph import Graph, Node, Type, Value
from anyrt.schedule.elements import FusionFailure
from anyrt.schedule.fused_tile import fused_tile, traced
from anyrt.schedule.group import Group
from anyrt.schedule.groups import groups
from anyrt.schedule.kernels import BuiltKernel, Failed, Plan, build
from anyrt.schedule.launch import ExternalStep, Launch, RegionStep, Schedule, marked
from anyrt.schedule.layouts import layouts
from anyrt.schedule.nest import Around, external_step, region_step
from anyrt.schedule.partition import Stored
from anyrt.schedule.ports import port_names
from anyrt.schedule.scales import loading
from anyrt.schedule.store import Memory, arena, store, storing_shared
from anyrt.schedule.task import Task

Regions = dict[Graph, list[Schedule]]


def schedule(task: Task) -> Schedule:
    """The schedules of all regions, each after those inside it, since nesting is deeper than Python recurses,
    and that of the graph around them."""
    tasks, around, inside = [task], [0], [Regions()]
    for n, each in enumerate(tasks):  # which grows
        for region in _regions(each.graph):
            tasks.append(each.inner(region))
            around.append(n)
            inside.append({})
    for n in reversed(range(1, len(tasks))):
        inner = _schedule(tasks[n], inside[n])
        inside[around[n]].setdefault(tasks[n].graph, []).append(inner)
    result = _schedule(task, inside[0])
    if inside[0]:
        result = result.settled({})
    marks = marked(result.everywhere)
    return result.settled(marks) if marks else result


def _regions(graph: Graph) -> Iterator[Graph]:
    nodes = dict.fromkeys(v.node for v in graph.values)
    return (region for node in nodes for region in node.op.regions)


def _schedule(task: Task, regions: Regions) -> Schedule:
    """The four steps, until no kernel fails."""
    memory, unhosted = store(task), frozenset[Value]()
    created: dict[Hashable, BuiltKernel | Failed] = {}
    while True:
        memory = storing_shared(memory, task)
        plan = Plan(task, memory, layouts(task, memory))
        items = groups(task, memory, plan.layouts, unhosted)
        memory = loading(memory, items, plan.layouts, task)
        plan = replace(plan, memory=memory)
        steps, failures = _built(plan, items, created)
        if not failures:
            break
        for failure, group in failures.values():
            memory, unhosted = _after_failure(failure, group, task, memory, unhosted)
    everything = tuple(_step(x, plan, regions) for x in steps)
    kept, reasons, trace = plan.memory.buffers, plan.memory.reasons, partial(traced, schedule, plan)
    return Schedule(task.graph, everything, task.tables, kept, plan.layouts, reasons, len(created), trace)


Failures = dict[Value, tuple[FusionFailure, Group]]


def _built(
    plan: Plan, items: tuple[Group | Node, ...], created: dict[Hashable, BuiltKernel | Failed]
) -> tuple[list[Launch | Node], Failures]:
    """The kernels of groups, nodes as they are, and the first failure for each value."""
    progress, steps, failures = plan.task.progress, list[Launch | Node](), Failures()
    if not created:
        progress(0, len(items))
    for number, group in enumerate(items):
        if isinstance(group, Node):
            steps.append(group)
        elif isinstance(
            step := build(plan, group, f"k{number}", created, partial(fused_tile, schedule)), Launch
        ):
            steps.append(step)
        else:
            failures.setdefault(step.value, (step, group))
        progress(number + 1, len(items))
    return steps, failures


def _after_failure(
    failure: FusionFailure, group: Group, task: Task, memory: Memory, unhosted: frozenset[Value]
) -> tuple[Memory, frozenset[Value]]:
    """The stored values, and the reductions that no other kernel folds, after a failure. First the failed
    value gets a buffer. If the kernel that was to fold it in addition fails, it gets its own kernel. If a
    kernel fails for its own root, its additional folds get kernels, and then all values that it computes get
    buffers: each time less can fail."""
    value, reason = failure.value, failure.reason
    guests = frozenset(v for v, _ in group.also)
    inside = [v for v in memory.reads(group.root) if v not in memory.buffers and v.compute != Given()]
    if value not in memory.buffers:
        return memory.storing([Stored(value, reason)], task), unhosted
    if guests:
        return memory, unhosted | ({value} if value in guests else guests)
    if inside:
        why = f"the kernel of {task.graph.name(value)} fails: {reason}"
        return memory.storing((Stored(v, why) for v in inside), task), unhosted
    raise CompileError("AR807", task.graph.name(value), got=reason, do="report this as a bug")


def _step(step: Launch | Node, plan: Plan, regions: Regions) -> Launch | RegionStep | ExternalStep:
    """A launch, or the steps of a node on the memory around it."""
    if isinstance(step, Launch):
        return step
    task = plan.task

    def fresh(of: Type) -> Buffer:
        return arena(of.dtype, of.shape, task.numbers)

    def copies(graph: Graph) -> Schedule:
        return _schedule(task.inner(graph), {})

    around = Around(lambda graph: regions[graph].pop(), copies, port_names, fresh, plan.memory.buffers)
    make = region_step if isinstance(Value(step).compute, Nested) else external_step
    return make(step, around)
