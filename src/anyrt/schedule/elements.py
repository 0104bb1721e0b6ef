"""One element of a value as an expression: producers are inlined by requesting the element that the consumer
reads.

Three things stop inlining. A value in a buffer is loaded. A reduction becomes a loop before the consumer's
inner loops, and its accumulator is read. The operand of taps is kept in a scratch row if computing it again
for every tap would cost more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from anyrt.core.dims import Dim, Sym, add, mul
from anyrt.core.dtype import is_integer
from anyrt.core.enums import DataType
from anyrt.ir.buffer import COMPUTED, Buffer, Space
from anyrt.ir.compute import Contracted, Extern, Folded, Resampled
from anyrt.ir.compute import Elements as Each
from anyrt.ir.graph import Value
from anyrt.ir.kernel import Expr, Op, alu, const, load, select
from anyrt.ir.prim import Read
from anyrt.ir.visit import loads
from anyrt.loops.nest import Names
from anyrt.prims._check import not_empty
from anyrt.prims._convert import wrap
from anyrt.prims.taprules import TapRule
from anyrt.prims.taps import weighed
from anyrt.schedule import storage
from anyrt.schedule.layout import Layout, row_major
from anyrt.schedule.tables import Tables

AGAIN: Final = "it would be folded again for every row that taps read again"
MOVES: Final = 32  # with so many as weights, an int64 stays in the range of float32


@dataclass(frozen=True, slots=True)
class FusionFailure:
    """`value` cannot be computed inside this kernel, because of `reason`. It gets a buffer, and the build
    report states the reason."""

    value: Value
    reason: str


@dataclass(frozen=True, slots=True)
class Reduction:
    """A fused reduction: fold `body` over `vars` into `register`; `needs` are the loop variables around
    it."""

    value: Value
    index: tuple[Dim, ...]
    register: Buffer
    op: Op
    start: Expr
    vars: tuple[Sym, ...]
    body: Expr


Access = Callable[[Value, tuple[Dim, ...]], Expr]


@dataclass(slots=True)
class Elements:
    """Inlines within one kernel; `tapped` decides about taps, `buffers` are the values in memory, `first` the
    element at which each buffer starts, `layouts` their layouts if not row-major.

    `failures`: all other reasons to stop inlining, the first one first. A placeholder element is returned
    there, since the caller combines it with others, and the kernel is discarded.

    `careful`: masked sums of products are computed term by term, and values to be mended are summed.
    `folding`: the number of reductions around the requested element."""

    buffers: Mapping[Value, Buffer]
    tables: Tables
    names: Names
    first: Mapping[Value, Dim] = field(default_factory=dict)
    layouts: Mapping[Value, Layout] = field(default_factory=dict)
    reductions: dict[tuple[Value, tuple[Dim, ...]], Reduction] = field(default_factory=dict)
    overrides: Mapping[Value, Access] = field(default_factory=dict)
    tapped: Access | None = None
    memo: dict[tuple[Value, tuple[Dim, ...]], Expr] = field(default_factory=dict)
    allow_reductions: bool = True
    careful: bool = False
    folding: int = 0
    failures: list[FusionFailure] = field(default_factory=list)

    def fail(self, value: Value, reason: str, asked: Value | None = None) -> Expr:
        """A placeholder for the `asked` element, since the kernel cannot compute `value`."""
        self.failures.append(FusionFailure(value, reason))
        return load(Buffer("failed", COMPUTED[(asked or value).dtype], Space.REGISTER), 0)

    def at(self, value: Value, index: Sequence[Dim]) -> Expr:
        """The element of `value` at `index`, as its computed type."""
        key = (value, tuple(index))
        if key not in self.memo:
            self.memo[key] = self._make(value, key[1])
        return self.memo[key]

    def _make(self, value: Value, index: tuple[Dim, ...]) -> Expr:
        if value in self.overrides:
            return self.overrides[value](value, index)
        if value in self.buffers:
            place = (self.layouts.get(value) or row_major(value.shape)).place(index)
            at = add(place, mul(self.first.get(value, 0), -1))
            return storage.read(self.buffers[value], value.dtype, at)
        match value.compute:
            case Folded() as fold:
                return self._folded(value, fold, index)
            case Contracted() as how:
                return self._contracted(value, how, index)
            case Resampled():
                return (self.tapped or self.taps)(value, index)
            case Extern():
                return self.fail(value, "its own statements make the whole of it")
            case Each(instead=Contracted() as how) if self.careful:
                return self._contracted(value, how, index)
            case Each(positions=operands):
                for k in operands:
                    self._check_position(value.args[k], index)
        reads = tuple(Read(a.type, partial(self.at, a)) for a in value.args)
        return value.op.lower(value.type, reads, index)

    def _check_position(self, value: Value, index: tuple[Dim, ...]) -> None:
        """Indices are computed before the folds of a kernel are known, unless another kernel computes
        these."""
        read = {x.buffer for x in loads([self.at(value, index)])}
        for reduction in self.reductions.values():
            if reduction.register in read:
                self.failures.append(FusionFailure(reduction.value, "it says where something is read"))

    def _folded(self, value: Value, fold: Folded, index: tuple[Dim, ...]) -> Expr:
        """A fold over no elements is its initial value."""
        total = const(fold.start(value.dtype), COMPUTED[value.dtype])
        if 0 not in value.args[0].shape:
            if not self.allow_reductions:
                return self.fail(value, AGAIN)
            total = load(self._reduction(value, fold, index).register, 0)
        return wrap(total, fold.op.value, value.dtype)

    def _reduction(self, value: Value, fold: Folded, index: tuple[Dim, ...]) -> Reduction:
        key = (value, index)
        if key not in self.reductions:
            arg = value.args[0]
            inner = {axis: self.names.var(arg.shape[axis], "r") for axis in fold.axes if arg.shape[axis] != 1}
            where = [inner[k].dim if k in inner else i for k, i in enumerate(index)]
            self.folding += 1
            body = self.at(arg, where)
            self.folding -= 1
            kind = COMPUTED[value.dtype]
            start = const(fold.start(value.dtype), kind)
            register = Buffer(self.names.name("acc"), kind, Space.REGISTER)
            self.reductions[key] = Reduction(
                value, index, register, fold.op, start, tuple(inner.values()), body
            )
        return self.reductions[key]

    def _contracted(self, value: Value, how: Contracted, index: tuple[Dim, ...]) -> Expr:
        """The sum over the labels that the result lacks, in a register."""
        kind, key = COMPUTED[value.dtype], (value, index)
        factors, at = value.args[-2:], dict(zip(how.out, index, strict=True))
        shapes = zip((*how.left, *how.right), (*factors[0].shape, *factors[1].shape), strict=True)
        summed = {k: n for k, n in shapes if k not in at}
        if 0 in summed.values():
            return const(0, kind)
        if self.folding or not self.allow_reductions:
            return self.fail(value, "a contraction has loops of its own")
        if any(isinstance(r.value.compute, Contracted) for k, r in self.reductions.items() if k != key):
            return self.fail(value, "the kernel contracts something else")
        if key not in self.reductions:
            inner = {k: self.names.var(n, "k") for k, n in summed.items() if n != 1}
            at |= {k: inner[k].dim if k in inner else 0 for k in summed}
            self.folding += 1
            left, right = self._factor(factors[0], how.left, at), self._factor(factors[1], how.right, at)
            self.folding -= 1
            register, start = Buffer(self.names.name("acc"), kind, Space.REGISTER), const(0, kind)
            if self.careful and how.hides:  # of a product, which is summed in one step
                right = select(alu(Op.EQ, left, const(0, left.type)), 0, right)
            self.reductions[key] = Reduction(
                value, index, register, Op.ADD, start, tuple(inner.values()), left * right
            )
        return load(self.reductions[key].register, 0)

    def _factor(self, arg: Value, labels: Sequence[int], at: Mapping[int, Dim]) -> Expr:
        return self.at(arg, [at[k] if d != 1 else 0 for k, d in zip(labels, arg.shape, strict=True)])

    def taps(
        self, value: Value, index: tuple[Dim, ...], source: Callable[[int, Dim], Expr] | None = None
    ) -> Expr:
        """Taps from the table of their rule; `source(t, position)` returns the operand's element if it is
        kept elsewhere."""
        op, rule = tapped(value)
        (arg,) = value.args
        table = self.tables.table(rule, arg.shape[op.axis], op.size)

        def element(t: int, position: Dim) -> Expr:
            if source is not None:
                return source(t, position)
            # If the operand is empty, element 0 may be read beside a condition, and no other one.
            place = mul(position, not_empty(arg.shape))
            return self.at(arg, (*index[: op.axis], place, *index[op.axis + 1 :]))

        read = (table.tap(t, index[op.axis]) for t in range(rule.count))
        taps = [(weight, element(t, position)) for t, (position, weight) in enumerate(read)]
        silence = (None,) * rule.count if is_finite(arg) else rule.silence(table.n_in, table.n_out)
        return weighed(taps, rule.order, silence)


def is_finite(value: Value) -> bool:
    """True for integers as float32, moved and weighted: 0 times one of them is 0."""
    for _ in range(MOVES):
        match value.compute:
            case Each(moves=True):
                (value,) = value.args
            case Resampled(rule=TapRule() as rule) if rule.is_moderate:
                (value,) = value.args
            case Each(same=True) if _is_float_cast(value):
                (value,) = value.args
            case _:
                break
    return is_integer(value.dtype) or value.dtype is DataType.BOOL


def _is_float_cast(value: Value) -> bool:
    """A function of one operand changes its type only if that is its purpose."""
    return value.dtype is DataType.FLOAT and len(value.args) == 1 and value.args[0].dtype is not value.dtype


def tapped(value: Value) -> tuple[Resampled, TapRule]:
    """How taps compute a value, and the rule of its tables."""
    how = value.compute
    assert isinstance(how, Resampled), f"{value} is not made by taps"
    assert isinstance(how.rule, TapRule), f"{value} has taps without a table"
    return how, how.rule
