"""A large batch, computed by a loop over its images whose tensors fit the caches.

    y = f(x), of 8 images              ->        again: y[t] = f(x[t]), of one image

Kernels compute a layer for the whole batch before the next layer reads it. If the tensors of a batch exceed
the last cache, each layer reads its input from memory and writes its result there. A loop over parts of the
batch reads the weights again in every iteration, which takes less as long as these are smaller. Each image is
computed independently, so its results are those of a batch of the loop's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from anyrt.core.dims import Dim
from anyrt.core.dtype import bits
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE, Machine
from anyrt.ir.graph import Graph, Value, apply_all
from anyrt.ir.rewrite import Fail
from anyrt.passes.facts import volume
from anyrt.prims import build
from anyrt.prims.concat import Concat
from anyrt.prims.const import Const
from anyrt.prims.contract import Contract
from anyrt.prims.map import Map
from anyrt.prims.pad import Pad
from anyrt.prims.reduce import Reduce
from anyrt.prims.repeated import Repeated
from anyrt.prims.reshape import Reshape
from anyrt.prims.taps import Taps
from anyrt.prims.view import Axis, View

WAKES: Final = 4  # times the cost of waking the other cores: the work of a product per core and iteration
ROWS: Final = 16  # rows of an iteration, from which multiplying takes longer than reading weights
NAME: Final = "batch"


def loop_batch(graph: Graph, machine: Machine = REFERENCE) -> Graph:
    """The graph with a loop over parts of its batch; the same graph if none is needed, or images depend on
    each other."""
    count = _batch(graph)
    part = None if count is None else _part(graph, count, machine)
    return graph if count is None or part is None else _looped(graph, count // part, part)


def _batch(graph: Graph) -> int | None:
    """The size of the first axis that all inputs and outputs have, if it is a number above 1."""
    ends = [v for _, v in (*graph.inputs, *graph.outputs)]
    first = {v.shape[0] if v.type.rank else None for v in ends}
    (size,) = first if len(first) == 1 else (None,)
    return size if isinstance(size, int) and size > 1 and not (graph.updates or graph.symbols) else None


def _part(graph: Graph, count: int, machine: Machine) -> int | None:
    """The number of images per iteration: the fewest that occupy all cores, if their tensors fit the last
    cache, those of the whole batch do not, and this saves more than reading weights again costs."""
    sums = [v for v in graph.values if isinstance(v.op, Contract)]
    moved = [2 * _stored(v) for v in sums]  # what a layer reads, about, and its result
    saved = sum(n for n in moved if n > machine.last_bytes)
    if not saved:
        return None
    products = max(1, sum(map(_products, sums)) // (count * len(sums)))
    least = WAKES * machine.cores * machine.costs.wake / products
    most = machine.last_bytes // (max(moved) // count)
    fits = (n for n in range(1, count) if count % n == 0 and least <= n <= most)
    return next((n for n in fits if saved > _read_again(sums, count // n)), None)


def _read_again(sums: Sequence[Value], turns: int) -> int:
    """The bytes of weights that the iterations after the first one wait for."""
    return (turns - 1) * sum(_waited(v, turns) for v in sums)


def _stored(value: Value) -> int:
    """The bytes of a sum as the next layer reads it: in the type of the first factor, since sums of codes
    become codes."""
    return volume(value.shape) * bits(value.args[0].dtype) // 8


def _waited(value: Value, turns: int) -> int:
    """The bytes of constants of a product that an iteration waits for, since it has few rows to multiply."""
    constant = [a for a in value.args if _is_constant(a)]
    few = [a for a in constant if _products(value) < turns * ROWS * volume(a.shape)]
    return sum(volume(a.shape) * bits(a.dtype) // 8 for a in few)


def _is_constant(value: Value) -> bool:
    while len(value.args) == 1:
        (value,) = value.args
    return isinstance(value.op, Const)


def _products(value: Value) -> int:
    """The products of a contraction."""
    op, sizes = value.op, dict[int, Dim]()
    assert isinstance(op, Contract)
    for arg, labels in zip(value.args, (op.left, op.right), strict=True):
        sizes.update(zip(labels, arg.shape, strict=True))
    return volume(sizes.values())


def _looped(graph: Graph, turns: int, part: int) -> Graph:
    """The graph whose outputs a loop computes, a part of the batch in each turn."""
    turn = build.param("turn", (), DataType.INT64)
    done = {v: _slice(v, turn, part) for _, v in graph.inputs}
    axes = _of_part(graph, done, turns * part, part)
    if isinstance(axes, Fail) or any(axes.get(v) != 0 for _, v in graph.outputs):
        return graph
    go, then = build.param("go", (), DataType.BOOL), build.map_("add", turn, build.scalar(1, turn))
    parts = {f"{name} of all": done[v] for name, v in graph.outputs}
    states = {name: _state(name, part, turns) for name, part in parts.items()}
    stores = {name: _put(part, turn, states[name]) for name, part in parts.items()}
    names = {done.get(v, v): name for v, name in graph.names.items()}
    names |= {v: f"{NAME}: {name}" for (name, _), v in zip(graph.outputs, stores.values(), strict=True)}
    body = Graph(
        (("go", go), ("turn", turn), *states.items(), *graph.inputs),
        (("go", build.map_("lt", then, build.scalar(turns, then))), ("turn", then), *stores.items()),
        names,
    )
    first = [build.expand(build.scalar(0, v), v.shape) for v in states.values()]
    start = (build.const(True, DataType.BOOL), build.scalar(0, turn), *first)
    _, _, *results = apply_all(Repeated(body, NAME), *start, *(v for _, v in graph.inputs))
    outputs = ((name, build.reshape(x, v.shape)) for (name, v), x in zip(graph.outputs, results, strict=True))
    return replace(graph, outputs=tuple(outputs), names=graph.names | dict.fromkeys(first, f"{NAME}: begin"))


def _state(name: str, part: Value, turns: int) -> Value:
    """Memory for an output of all iterations."""
    count, *rest = part.shape
    return build.param(name, (turns, *rest) if count == 1 else (turns, count, *rest), part.dtype)


def _slice(whole: Value, turn: Value, part: int) -> Value:
    """The part of a turn."""
    ones = (1,) * (whole.type.rank - 1)
    begin = build.reshape(build.map_("mul", turn, build.scalar(part, turn)), (1, *ones))
    index = build.map_("add", begin, build.iota((part, *ones), 0, turn.dtype))
    return build.gather(whole, build.expand(index, (part, *whole.shape[1:])), 0, guarded=True)


def _put(value: Value, turn: Value, state: Value) -> Value:
    """The state with the result of a turn in its place."""
    ones = (1,) * (state.type.rank - 1)
    at = build.iota((state.shape[0], *ones), 0, turn.dtype)
    mine = build.map_("eq", at, build.reshape(turn, (1, *ones)))
    return build.map_("select", mine, build.reshape(value, (1, *state.shape[1:])), state)


def _of_part(graph: Graph, done: dict[Value, Value], count: int, part: int) -> dict[Value, int] | Fail:
    """The batch axis of each value that has one; `done` then holds the values of a part."""
    axes = dict.fromkeys(done, 0)
    for value in graph.values:
        if value in axes or axes.keys().isdisjoint(value.args):
            continue
        axis = _axis(value, [axes.get(a) for a in value.args], count)
        if isinstance(axis, Fail):
            return axis
        axes[value], op = axis, value.op
        if isinstance(op, Reshape | View):
            op = replace(op, shape=(*op.shape[:axis], part, *op.shape[axis + 1 :]))
        done[value] = apply_all(op, *(done.get(a, a) for a in value.args))[value.index]
    return axes


def _axis(value: Value, axes: Sequence[int | None], count: int) -> int | Fail:
    """The batch axis of a result, if each image of it depends only on that image of the operands."""
    axis, *others = dict.fromkeys(a for a in axes if a is not None)
    match value.op:
        case Map() if not others:
            alike = all(x.shape[axis] == 1 for x, at in zip(value.args, axes, strict=True) if at is None)
            return axis if alike else Fail("an operand differs between images")
        case Contract() as op:
            return _of_contract(op, axes)
        case Reduce(_, folded) if axis not in folded:
            return axis
        case Pad(low, high) if low[axis] == high[axis] == 0:
            return axis
        case Taps(along) if along != axis:
            return axis
        case Concat(along) if not others and None not in axes and along != axis:
            return axis
        case Reshape(shape):
            return _of_reshape(value.args[0].shape[:axis], shape, count)
        case View(_, read):
            return _of_view(read, axis)
    return Fail(f"{type(value.op).__name__.lower()} may join images")


def _of_contract(op: Contract, axes: Sequence[int | None]) -> int | Fail:
    """The position of the batch's label, if every factor with a batch axis has it there, and it is not
    summed."""
    sides = [(side, axis) for side, axis in zip((op.left, op.right), axes, strict=True)]
    (label, *others) = {side[axis] for side, axis in sides if axis is not None}
    constant = any(label in side for side, axis in sides if axis is None)
    if others or constant or label not in op.out:
        return Fail("a product joins images")
    return op.out.index(label)


def _of_reshape(before: Sequence[Dim], shape: Sequence[Dim], count: int) -> int | Fail:
    """The axis of this size behind as many elements as stand before the batch."""
    for k, size in enumerate(shape):
        if size == count and volume(shape[:k]) == volume(before):
            return k
    return Fail("a shape joins the batch with another axis")


def _of_view(read: Sequence[Axis], axis: int) -> int | Fail:
    """The axis of the result that follows the batch, if it follows nothing else."""
    out = read[axis].out
    moved = [k for k, other in enumerate(read) for at, _ in other.terms if at == out]
    if out is None or read[axis] != Axis(0, out) or moved != [axis]:
        return Fail("a view joins images")
    return out
