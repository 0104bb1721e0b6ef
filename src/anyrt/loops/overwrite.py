"""Whether a kernel may store its results over one of its operands: each element must be read before it is
overwritten.

    for i: 0 … n
      y[i] = max(sum[i] + x[i], 0)      # y may lie where x does

x is read only in stores of y, at the same index, and the number of stores equals the number of elements. Each
element is stored at least once, so none is stored twice, and none is read after that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from anyrt.core.dims import (
    Dim,
    Fn,
    Sym,
    add,
    always_le,
    ceildiv,
    depends,
    linear,
    maximum,
    minimum,
    mul,
    polynomial,
    product,
    symbols,
    total,
)
from anyrt.core.dims import Expr as DimExpr
from anyrt.core.dimvalues import substitute
from anyrt.ir.buffer import Buffer
from anyrt.ir.kernel import (
    Alu,
    Const,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Loop,
    Op,
    Stmt,
    Store,
    free_symbols,
)
from anyrt.ir.statements import roots, stores
from anyrt.ir.visit import loads, statements, written

MANY: Final = 1024  # iterations of a loop that are counted one by one
UNKNOWN: Final = Sym("unknown").dim  # it is only ever added and multiplied, so nothing with it is a number


def reads_what_it_stores(kernel: Kernel, stored: Buffer, read: Buffer) -> bool:
    """True if every load of `read` is part of a store to `stored`, with the same index."""
    for stmt in statements(kernel.body):
        loaded = loads(roots(stmt))
        if any(x.buffer == stored for x in loaded) or read in written(stmt):
            return False
        there = {(stmt.index, False)} if isinstance(stmt, Store) and stmt.buffer == stored else set()
        if not {(x.index, x.word) for x in loaded if x.buffer == read} <= there:
            return False
    return True


def stores_of(kernel: Kernel, buffer: Buffer) -> Dim:
    """How often a kernel stores to a buffer; a symbol that equals no size if unknown."""
    loop = For(kernel.var, Loop.PARALLEL, kernel.body)
    return _Turns(buffer).of((loop,), {})


@dataclass(slots=True)
class _Turns:
    """Counts how often statements store to `buffer`."""

    buffer: Buffer
    known: dict[int, frozenset[Sym]] = field(default_factory=dict)

    def of(self, body: Sequence[Stmt], at: Mapping[Sym, Dim]) -> Dim:
        """The stores of statements at the loop counters `at`."""
        count: Dim = 0
        for stmt in body:
            match stmt:
                case Let(var=var, value=value):
                    at = {**at, var: substitute(value, at)}
                case For():
                    count = add(count, self._loop(stmt, at))
                case If(condition=condition, body=inner):
                    one = self.of(inner, at)
                    count = add(count, mul(_flag(condition, at), one) if one != 0 else 0)
                case Store(buffer=self.buffer):
                    count = add(count, 1)
        return count

    def _loop(self, loop: For, at: Mapping[Sym, Dim]) -> Dim:
        var, extent = loop.var, _turns(substitute(loop.var.extent or 0, at))
        if loop.kind is Loop.TILE:  # it is transposed in registers, with loads of its own
            return mul(UNKNOWN, self.of(loop.body, at))
        if var not in self._steering(loop.body):
            return mul(extent, self.of(loop.body, at))
        if isinstance(extent, int) and extent <= MANY:
            return total(self.of(loop.body, {**at, var: k}) for k in range(extent))
        return _summed(self.of(loop.body, at), var, extent)

    def _steering(self, body: tuple[Stmt, ...]) -> frozenset[Sym]:
        """The properties on which the number of stores depends."""
        if id(body) not in self.known:
            steering = frozenset[Sym]()
            for stmt in reversed(body):
                match stmt:
                    case Let(var=var, value=value) if var in steering:
                        steering |= symbols(value)
                    case For(var=var, body=inner) if self._stores(inner):
                        steering |= symbols(var.extent or 0) | self._steering(inner)
                    case If(condition=condition, body=inner) if self._stores(inner):
                        steering |= free_symbols(condition) | self._steering(inner)
            self.known[id(body)] = steering
        return self.known[id(body)]

    def _stores(self, body: Sequence[Stmt]) -> bool:
        return any(s.buffer == self.buffer for s in stores(body))


def _turns(extent: Dim) -> Dim:
    """The iterations of a loop of this extent: none if it is negative."""
    return extent if always_le(0, extent) else maximum(0, extent)


def _flag(condition: Expr, at: Mapping[Sym, Dim]) -> Dim:
    """1 where a comparison of indices holds, else 0."""
    match condition:
        case Alu(op=Op.NOT, args=(arg,)) if (flag := _flag(arg, at)) != UNKNOWN:
            return add(1, mul(flag, -1))
        case Alu(op=Op.LE | Op.LT as op, args=(Index() | Const() as a, Index() | Const() as b)):
            more = add(_number(b, at), mul(_number(a, at), -1))
            return minimum(1, maximum(0, add(more, int(op is Op.LE))))
    return UNKNOWN


def _number(x: Index | Const, at: Mapping[Sym, Dim]) -> Dim:
    return substitute(x.dim, at) if isinstance(x, Index) else int(x.value)


def _summed(count: Dim, var: Sym, extent: Dim) -> Dim:
    """The sum of multiples of the size of a piece over a loop of pieces, the last one shorter."""
    total: Dim = 0
    for factors, number in count.terms if isinstance(count, DimExpr) else (((), count),):
        moving = [f for f in factors if depends(f, var)]
        rest = product((number, *(polynomial({(f,): 1}) for f in factors if f not in moving)))
        total = add(total, mul(rest, _whole(moving, var, extent)))
    return total


def _whole(moving: Sequence[Sym | Fn], var: Sym, extent: Dim) -> Dim:
    """The sum of min(size, whole - size * var)."""
    match moving:
        case []:
            return extent
        case [Fn(op="min", args=(a, b))]:
            for size, left in ((a, b), (b, a)):
                split = linear(left, var)
                if split is not None and split[0] == mul(size, -1) and ceildiv(split[1], size) == extent:
                    return split[1]
    return UNKNOWN
