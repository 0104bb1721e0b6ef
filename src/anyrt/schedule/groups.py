"""Group: the values that each kernel of a graph computes, given the stored ones; the second of four steps
(fuse.py)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from anyrt.core.dims import Dim, add
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.compute import Border, Concatenated, Contracted, Elements, Folded, Given, HostStep
from anyrt.ir.counted import mentioned
from anyrt.ir.graph import Node, Value
from anyrt.schedule.group import Group, Part
from anyrt.schedule.hidden import copies, searched
from anyrt.schedule.layout import Layout
from anyrt.schedule.storage import PACKED
from anyrt.schedule.store import Memory, shared_folds
from anyrt.schedule.task import Task


def groups(
    task: Task, memory: Memory, layouts: Mapping[Value, Layout], unhosted: Container[Value]
) -> tuple[Group | Node, ...]:
    """The kernels in order, with nodes that have steps of their own between them: those with elements, since
    nothing is done for an empty value. `unhosted`: reductions that no other kernel folds."""
    hosts = _hosts(memory, unhosted)
    steps: list[Group | Node] = []
    for value in _stored_results(memory, hosts):
        also = tuple((v, memory.buffers[v]) for v, host in hosts.items() if host == value)
        steps += _groups_of(value, also, task, memory, layouts.get(value))
    for value, buffer in memory.judged.items():
        at = steps.index(value.node) + 1 if isinstance(value.compute, HostStep) else 0
        steps.insert(at, Group(value, buffer, copy=True))
    for name, value in task.graph.outputs:
        if memory.buffers[value] != memory.outputs[name]:
            steps.append(Group(value, memory.outputs[name], copy=True))
    nonempty = [g for g in steps if isinstance(g, Node) or 0 not in g.root.shape]
    return tuple(_copying(nonempty, memory))


def _stored_results(memory: Memory, hosts: Mapping[Value, Value]) -> Iterator[Value]:
    """The results of kernels or steps, one value of each, in order."""
    done: set[Value] = {*hosts, *memory.reshaped}
    for plain in memory.order:
        # A host is created as soon as its additional folds can be computed.
        hosted = plain in hosts and _needs_nothing_after(memory, plain, hosts[plain])
        value = hosts[plain] if hosted else plain
        if value in done or value.compute == Given() or not _has_memory(value, memory):
            continue
        results = len(value.node.types) if isinstance(value.compute, HostStep) else 0  # of one step
        done |= {value, *(Value(value.node, k) for k in range(results))}
        yield value


def _has_memory(value: Value, memory: Memory) -> bool:
    buffer = memory.buffers.get(value)
    return buffer is not None and buffer.space is not Space.CONST


def _groups_of(
    value: Value,
    also: tuple[tuple[Value, Buffer], ...],
    task: Task,
    memory: Memory,
    layout: Layout | None,
) -> Iterator[Group | Node]:
    """The group of one stored value; `also`: reductions that it folds in addition."""
    how, buffer, border = value.compute, memory.buffers[value], _border(value, memory)
    if isinstance(how, HostStep):
        yield value.node
    elif isinstance(how, Concatenated) and value.dtype not in PACKED:
        for group in _parts(value, how, buffer, layout):
            yield from _mended(group, memory)
    elif border is not None:
        part = Part(value.shape, border.lo)
        yield Group(value, buffer, border=border, layout=layout)
        yield from _mended(Group(value.args[0], buffer, part=part, whole=value, layout=layout), memory)
    else:
        group = Group(value, buffer, also, layout=layout, tile=memory.tiles.get(value))
        if value in task.item.parts:
            group = replace(group, part=task.item.parts[value][0], whole=value)
        yield from _mended(group, memory)


def _mended(group: Group, memory: Memory) -> Iterator[Group]:
    """A group, and one that mends its results."""
    yield group
    there = group.root in memory.buffers and group.root not in group.own
    if group.tile is None and not there and searched(group.root, memory.buffers) is not None:
        yield replace(group, also=(), mends=True)


def _copying(steps: Sequence[Group | Node], memory: Memory) -> Iterator[Group | Node]:
    """Groups that mend recompute copies that are in memory: they rarely compute anything, and the memory of
    the copies is free before the kernel that they follow."""
    mending = [isinstance(g, Group) and g.mends for g in steps]
    last = dict[Value, int]()
    if any(mending):
        last = {v: n for n, g in enumerate(steps) if not mending[n] for v in _read(g, memory)}
    for n, group in enumerate(steps):
        if isinstance(group, Group) and mending[n]:
            group = replace(group, anew=_anew(group, n, last, memory))
        yield group


def _anew(group: Group, step: int, last: Mapping[Value, int], memory: Memory) -> frozenset[Value]:
    """The copies that a mending group recomputes; `last`: the last step that reads each value."""
    there = copies(group.root, memory.buffers).items()
    late = ((v, source) for v, source in there if last.get(v, 0) < step - 1)
    return frozenset(v for v, source in late if _stays(source, step, last, memory))


def _read(group: Group | Node, memory: Memory) -> Iterable[Value]:
    """The values that a step reads, or computes inside it."""
    if isinstance(group, Node):
        return group.args
    if group.border is not None:
        return ()
    there = group.root in memory.buffers and group.root not in group.own
    return (group.root,) if there else memory.reads(group.root, group.mends)


def _stays(value: Value, step: int, last: Mapping[Value, int], memory: Memory) -> bool:
    """True for values that no step overwrites before this one, which mends the results of the step before:
    it reads the operands of that step, and the copies."""
    space = memory.buffers[value].space
    if isinstance(value.compute, Given):
        return space is not Space.OUTPUT  # if it is updated in place
    return space is Space.OUTPUT or last.get(value, 0) >= step - 1


def _parts(value: Value, how: Concatenated, buffer: Buffer, layout: Layout | None) -> Iterator[Group]:
    at: Dim = 0
    for arg in value.args:
        start = (*(0,) * how.axis, at, *(0,) * (len(value.shape) - how.axis - 1))
        yield Group(arg, buffer, part=Part(value.shape, start), whole=value, layout=layout)
        at = add(at, arg.shape[how.axis])


def _border(value: Value, memory: Memory) -> Border | None:
    """The border that is better written by separate loops: around a sum of products, and if a sum of products
    reads it. Parts with 4-bit elements may share a byte, so no kernel could write one alone."""
    how = value.compute
    if not isinstance(how, Elements) or how.border is None or value.dtype in PACKED:
        return None
    inside = (v for v in memory.reads(value) if v not in memory.buffers)
    sums = any(isinstance(v.compute, Contracted) for v in inside)
    return how.border if sums or memory.buffers[value].space is Space.ARENA else None


def _hosts(memory: Memory, unhosted: Container[Value]) -> dict[Value, Value]:
    """Reductions that several kernels read are folded by one of them that folds over the same loops and can
    run first."""
    hosted: dict[Value, Value] = {}
    taken = set(memory.alone)  # a host is not hosted: it needs its own kernel
    for v, roots in shared_folds(memory).items():
        if v not in memory.buffers or v in taken or v in unhosted:
            continue
        able = (r for r in roots if r not in hosted)
        host = next((r for r in able if _may_fold(memory, v, r, roots[0])), None)
        if host is not None:
            hosted[v] = host
            taken.add(host)
    return hosted


def _may_fold(memory: Memory, value: Value, host: Value, first: Value) -> bool:
    """True for a kernel that folds over the same loops, and runs first or can do so."""
    alike = isinstance(host.compute, Folded) and value.shape == host.shape
    return alike and (host is first or _needs_nothing_after(memory, value, host))


def _needs_nothing_after(memory: Memory, value: Value, host: Value) -> bool:
    """True if all values that `host` reads from memory are computed before `value`."""
    read = memory.reads(host)
    if mentioned(read) - mentioned(memory.reads(value)):  # sizes that are known later
        return False
    stored = (v for v in read if v in memory.buffers and v is not host)
    return all(memory.order[v] <= memory.order[value] for v in stored)
