"""Scales and zero points that kernels load, so that kernels that differ only in these are shared.

A single number is a literal in a kernel (`Given.literal`). A quantized network has other scales and zero
points in each layer, so each layer would have its own kernels. Groups that differ only in such numbers load
those that differ, each from a constant of one element; all others stay literals. passes/own_scales.py marks
the numbers for which the graph allows this.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from anyrt.core.dims import Dim, product
from anyrt.core.dtype import bits
from anyrt.core.enums import DataType
from anyrt.ir.buffer import COMPUTED, Buffer, Space
from anyrt.ir.compute import Given, is_each
from anyrt.ir.graph import Graph, Node, Value, users
from anyrt.ir.kernel import Alu, Expr, Op, load
from anyrt.ir.prim import Read
from anyrt.schedule.group import Group, Inside, signed
from anyrt.schedule.layout import Layout
from anyrt.schedule.store import Memory
from anyrt.schedule.task import Task

CODES = 1 << 8  # more than any zero point
BYTE = 8  # bits of a code, at most
TYPES = {DataType.FLOAT: np.float32, DataType.INT32: np.int32}
IsStep = Callable[[float], bool]


def loading(
    memory: Memory, groups: Sequence[Group | Node], layouts: Mapping[Value, Layout], task: Task
) -> Memory:
    """The same with buffers for the scales and zero points in which otherwise equal groups differ."""
    is_step = task.strategies.is_step
    open = {} if is_step is None or not task.is_whole else _open(task.graph, memory.buffers, is_step)
    if not open:
        return memory
    own = [group for group in groups if isinstance(group, Group) and group.border is None]
    new = {v: _buffer(v, task) for v in _loaded(memory, own, layouts, open)}
    return replace(memory, buffers={**memory.buffers, **new}) if new else memory


def _loaded(
    memory: Memory, groups: Sequence[Group], layouts: Mapping[Value, Layout], open: Mapping[Value, float]
) -> dict[Value, None]:
    """The numbers in which otherwise equal groups differ."""
    alike = dict[Hashable, list[tuple[Value, ...]]]()
    for group in groups:
        signature = signed(group, Inside(memory.buffers, group.own), memory.past, layouts, open)
        alike.setdefault(signature.key, []).append(signature.values)
    return dict.fromkeys(v for sort in alike.values() for v in _different(sort, open))


def _buffer(value: Value, task: Task) -> Buffer:
    name, size = f"const{task.numbers.take()}", product(value.shape)
    return Buffer(name, value.dtype, Space.CONST, size, coded=True)


def _different(sort: Sequence[tuple[Value, ...]], open: Mapping[Value, float]) -> Iterator[Value]:
    """Of equal groups, the numbers that are not the same in all of them."""
    for place in zip(*sort, strict=True):
        if place[0] in open and any(open[v] != open[place[0]] for v in place):
            yield from place


def _open(graph: Graph, stored: Container[Value], is_step: IsStep) -> dict[Value, float]:
    """The numbers of a graph that are only scales and zero points."""
    scales = {}
    for value, readers in users(graph).items():
        literal = _literal(value)
        if literal is None or value in stored or not readers:
            continue
        if all(_may_load(value, literal, reader, is_step) for reader in readers):
            scales[value] = literal
    return scales


def _literal(value: Value) -> float | None:
    """A number of this kind that may be loaded."""
    match value.compute:
        case Given(constant=True, literal=bytes() as literal, own=True) if value.dtype in TYPES:
            return float(np.frombuffer(literal, TYPES[value.dtype])[0])
    return None


def _may_load(value: Value, number: float, reader: Value, is_step: IsStep) -> bool:
    """Whether the reader of a number divides or multiplies by it, as a scale, or adds it, as a zero point."""
    if not is_each(reader.compute):
        return False
    marks = [load(Buffer(f"arg{k}", COMPUTED[a.dtype], Space.REGISTER), 0) for k, a in enumerate(reader.args)]
    reads = tuple(Read(a.type, partial(_mark, mark)) for a, mark in zip(reader.args, marks, strict=True))
    expr = reader.op.lower(reader.type, reads, (0,) * reader.type.rank)
    own = [mark for a, mark in zip(reader.args, marks, strict=True) if a is value]
    whole = value.dtype is DataType.INT32
    match expr:
        case Alu(op=Op.DIV, args=(above, _)):
            return not whole and above not in own and is_step(number)
        case Alu(op=Op.MUL | Op.FMA):
            return whole or number > 0
        case Alu(op=Op.ADD | Op.SUB):
            return _may_be_added(number, whole, reader)
    return False


def _may_be_added(number: float, whole: bool, reader: Value) -> bool:
    """Whether a number may be a zero point. The number of bits of a code minus its zero point decides how
    products are summed."""
    return not _is_of_codes(reader) if whole else abs(number) <= CODES and number == int(number)


def _is_of_codes(value: Value) -> bool:
    return any(bits(a.dtype) <= BYTE for operand in value.args for a in operand.args)


def _mark(mark: Expr, at: Sequence[Dim]) -> Expr:
    return mark
