"""The order of axes of stored tensors, selected over the whole graph.

A sum of products over windows is fastest if the channels of a position are contiguous: they share a cache
line, and the lanes of the results are contiguous, too. A tensor that is read in windows therefore has the
axis innermost that is summed and belongs to no window, or that all operands share (depthwise); the result of
such a sum has the axis of its lanes innermost. Tensors between them follow their operands. Inputs, outputs
and constants keep the order of the network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from anyrt.core.dims import Dim, Sym, linear, symbols
from anyrt.ir.buffer import Space
from anyrt.ir.compute import Contracted, Elements, Folded, Given, HostStep
from anyrt.ir.graph import Graph, Shape, Value, walk
from anyrt.ir.windows import together
from anyrt.schedule.cost import Sizes
from anyrt.schedule.layout import Layout, row_major
from anyrt.schedule.positions import Position, own, read
from anyrt.schedule.store import Memory
from anyrt.schedule.task import Task

LEAST = 3  # axes: with fewer, the last one is innermost for every reader


def layouts(task: Task, memory: Memory) -> dict[Value, Layout]:
    """The layouts of stored values that are not row-major; the third of four steps (fuse.py)."""
    nested = {x for v in memory.order if isinstance(v.compute, HostStep) for x in (v, *v.args)}
    stored = [v for v, b in memory.buffers.items() if b.space is Space.ARENA and v not in nested]
    wide = {v: row_major(task.shape(v)) for v in stored if v in task.item.pitch and v not in task.item.parts}
    few = task.machine.panel // 2  # results of a window: fewer are too few lanes
    return {**orders(task.graph, stored, task.sizes, few), **wide, **task.item.layouts}


def orders(graph: Graph, stored: Collection[Value], sizes: Sizes, few: int) -> dict[Value, Layout]:
    """The tensors among `stored` whose axes have another order than row-major. Fewer than `few` results of a
    window are too few lanes."""
    ends = [v for _, v in graph.outputs]
    leaves = {*stored, *ends, *(v for v in walk(ends) if isinstance(v.compute, Given))}
    votes: dict[Value, Counter[int]] = {v: Counter() for v in stored if len(v.shape) >= LEAST}
    sums = (v for v in walk(ends) if isinstance(v.compute, Contracted))
    for leaf, axis in (pair for value in sums for pair in _windows(value, leaves, few)):
        if leaf in votes:
            votes[leaf][axis] += sizes.volume(leaf)
    for value, tally in votes.items():
        for axis in _lanes(value, leaves, few):
            tally[axis] += sizes.volume(value)
    _follow(votes, leaves, sizes)
    chosen = {v: tally.most_common(1)[0][0] for v, tally in votes.items() if tally}
    return {v: _with_last(v, axis) for v, axis in chosen.items() if axis != len(v.shape) - 1}


def _with_last(value: Value, axis: int) -> Layout:
    order = (*(k for k in range(len(value.shape)) if k != axis), axis)
    return replace(row_major(value.shape), order=order)


def _windows(value: Value, leaves: Collection[Value], few: int) -> Iterator[tuple[Value, int]]:
    """The operands of a contraction that are read in windows, each with the axis that should be innermost."""
    how, operands = value.compute, value.args[:2]
    assert isinstance(how, Contracted), f"{value} sums products"
    for arg, other, (labels, others) in zip(operands, operands[::-1], how.sides, strict=True):
        leaf, at = _source(arg, own(arg.shape), leaves)
        alone = {k for k, label in enumerate(labels) if label not in others}  # rows
        summed = {k for k, label in enumerate(labels) if label not in how.out}
        if not _slides(arg.shape, at, alone, summed):
            continue
        if _is_small(other):  # its results have the layout of its operand
            yield from ((leaf, k) for k in _unmoved(at, {labels.index(how.out[-1])}, summed))
            continue
        both = {k for k, label in enumerate(labels) if label in how.out} - alone
        wide = {k for k in both if arg.shape[k] != 1}  # lanes as good as results
        few_lanes = not _unmoved(at, wide, alone) and _outputs(other.shape, others, labels, how, few) < few
        if few_lanes and _walks(at[-1], alone):
            continue  # positions are better lanes
        axes = _unmoved(at, summed, alone) or _unmoved(at, () if _is_bordered_input(leaf) else both, alone)
        if axes:
            yield leaf, axes[-1]


def _slides(shape: Shape, at: Position, rows: Collection[int], summed: Collection[int]) -> bool:
    """True if rows and terms move one index."""
    loops = tuple(Sym(f"i{k}", extent=d) for k, d in enumerate(shape))  # as own() names them
    shared = [{*together(d, loops)} for d in at]
    return any(axes.intersection(rows) and axes.intersection(summed) for axes in shared)


def _unmoved(at: Position, axes: Collection[int], rows: Collection[int]) -> list[int]:
    """The indices that some axes move, and rows do not."""
    return [k for k, d in enumerate(at) if _moved(d, axes) and not _moved(d, rows)]


def _outputs(shape: Shape, labels: Sequence[int], others: Sequence[int], how: Contracted, few: int) -> int:
    """The results per element of the other operand; many if this operand has no axis of its own, as in a
    depthwise convolution."""
    alone = [d for d, label in zip(shape, labels, strict=True) if label in how.out and label not in others]
    return prod(d if isinstance(d, int) else few for d in alone) if alone else few


def _walks(at: Dim, axes: Collection[int]) -> bool:
    """True where one of the axes moves an index from one element to the next."""
    moving = (s for s in symbols(at) if _moved(s.dim, axes))
    return any(moved is not None and moved[0] == 1 for moved in (linear(at, s) for s in moving))


def _is_bordered_input(leaf: Value) -> bool:
    """True for a border around an input: its rows are best copied as they are."""
    how = leaf.compute
    return isinstance(how, Elements) and how.border is not None and isinstance(leaf.args[0].compute, Given)


def _lanes(value: Value, leaves: Collection[Value], few: int) -> Iterator[int]:
    """The axes of a value that are lanes of the contractions in its kernel whose operands are windows."""
    for v, at in _inlined(value, leaves):
        how = v.compute
        if not isinstance(how, Contracted):
            continue
        wide = [
            labels for a, (labels, _) in zip(v.args, how.sides, strict=True) if len(a.shape) > len(v.shape)
        ]
        places = [(label, max(_axes(at[n]))) for n, label in enumerate(how.out) if _axes(at[n])]
        alone = [axis for label, axis in places if wide and label not in wide[0]]
        beside = _beside_small(v, how)  # no preference, since it is innermost anyway
        alone += [k for label, k in places if label in beside and k != len(value.shape) - 1]
        shared = [axis for label, axis in places if label in how.left and label in how.right]
        sliding = any(not isinstance(leaf.compute, Given) for leaf, _ in _windows(v, leaves, few))
        yield from alone or (shared[-1:] if sliding else ())


def _beside_small(value: Value, how: Contracted) -> tuple[int, ...]:
    """The innermost label of the operand that a small matrix multiplies."""
    sides = zip(value.args[:2], (how.right, how.left), strict=True)
    return tuple(others[-1] for arg, others in sides if _is_small(arg))


def _is_small(value: Value) -> bool:
    """True for a constant that kernels may contain as numbers."""
    return isinstance(value.compute, Given) and value.compute.numbers is not None


def _follow(votes: Mapping[Value, Counter[int]], leaves: Collection[Value], sizes: Sizes) -> None:
    """Tensors without a preference take that of a tensor of the same rank that their kernels read."""
    for value, tally in votes.items():
        reads = () if tally else (r for v, at in _inlined(value, leaves) for r in read(v, at))
        for arg, where, _ in reads:
            if votes.get(arg) and len(arg.shape) == len(value.shape):
                innermost = where[votes[arg].most_common(1)[0][0]]
                tally.update(dict.fromkeys(_axes(innermost), sizes.volume(arg)))


def _inlined(value: Value, leaves: Collection[Value]) -> Iterator[tuple[Value, Position]]:
    """The values that a kernel computes for a value, and the index of each; once each."""
    todo, seen = [(value, own(value.shape))], set[Value]()
    while todo:
        v, at = todo.pop()
        if v not in seen:
            seen.add(v)
            yield v, at
            if isinstance(v.compute, Elements | Folded):
                todo += [(arg, where) for arg, where, _ in read(v, at) if arg not in leaves]


def _source(value: Value, at: Position, leaves: Collection[Value]) -> tuple[Value, Position]:
    """The value that a value is moved from, and the index of an element there."""
    while value not in leaves and isinstance(value.compute, Elements) and len(value.args) == 1:
        reads = list(read(value, at))
        if not reads:  # nothing but a border is read
            break
        ((value, at, _),) = reads
    return value, at


def _axes(at: object) -> list[int]:
    """The axes of the requested value that move an index."""
    names = (s.name for s in symbols(at) if s.source is None) if not isinstance(at, int) else ()  # type: ignore[arg-type]
    return sorted(int(name[1:]) for name in names if name[1:].isdigit())


def _moved(at: object, axes: Collection[int]) -> bool:
    return any(k in axes for k in _axes(at))
