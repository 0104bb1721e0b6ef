"""Sums of products: the loops that move each factor, before they are tiled, and the body of a tile's loops.

Before: loops in any order around one sum and its epilogue. `m` moves the first factor, `n` the second,
*batch* both. After `split` the loop over the rows of a tile and that over its lanes surround each sum:

    for m: 0 … 28                          for i: 0 … 14
      for n: 0 … 64                          for j: 0 … 32
        acc = 0                                acc = 0
        for k: …                     ->        for k: …
          acc += x[m, k] · w[k, n]               acc += x[14t + i, k] · w[k, 32p + j]
        y[m, n] = f(acc)                       y[14t + i, 32p + j] = f(acc)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from anyrt.core.dims import Dim, Sym
from anyrt.ir.kernel import Alloc, Alu, Expr, Fold, For, Kernel, Load, Loop, Op, Stmt, Store, alu
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import dims_of, loops
from anyrt.ir.visit import Rewrite
from anyrt.loops.nest import around, at_loop, moves, nest_of, serial

MOVED = ((True, True), (True, False), (False, True), (False, False))  # which factors, with batch, m, n, none


@dataclass(frozen=True, slots=True)
class Product:
    """A sum of products, alone inside loops: `m` move the first factor, `n` the second, `batch` both;
    `summed` are the loops of the sum, and `stores` the epilogue."""

    batch: tuple[Sym, ...]
    m: tuple[Sym, ...]
    n: tuple[Sym, ...]
    summed: tuple[Sym, ...]
    first: Expr
    second: Expr
    sum: Alloc
    stores: tuple[Store, ...]

    @property
    def turned(self) -> Product:
        """The same with the factors exchanged."""
        return replace(self, m=self.n, n=self.m, first=self.second, second=self.first)

    def at(self, values: dict[Sym, Dim]) -> Product:
        """The same at these values of loops."""
        moved = Rewrite(values)
        stores = tuple(s for s in moved.body(self.stores) if isinstance(s, Store))
        return replace(self, first=moved.expr(self.first), second=moved.expr(self.second), stores=stores)


def product_of(kernel: Kernel) -> Product | Fail:
    """The sum of products that a kernel of serial loops computes."""
    vars, (begin, *then) = around(kernel)
    nest = nest_of(then[0]) if then else None
    if not isinstance(begin, Alloc) or nest is None:
        return Fail("it is not a sum within loops")
    stores = tuple(s for s in then[1:] if isinstance(s, Store))
    if len(stores) < len(then) - 1:
        return Fail("it is not a sum followed by stores of its result")
    match nest.body:
        case (Fold(op=Op.ADD, value=Alu(op=Op.MUL, args=(first, second))),):
            pass
        case _:
            return Fail("it is not a sum of products")
    batch, m, n, neither = _by_factor(vars, first, second)
    if neither:
        return Fail("a loop moves neither factor")
    return Product(batch, m, n, nest.vars, first, second, begin, stores)


def _by_factor(vars: Sequence[Sym], first: Expr, second: Expr) -> list[tuple[Sym, ...]]:
    """The loops that move both factors, the first one, the second one, and none."""
    by = {v: (moves(dims_of(first), v), moves(dims_of(second), v)) for v in vars}
    return [tuple(v for v in vars if by[v] == moved) for moved in MOVED]


def summed_in(kernel: Kernel, order: tuple[Sym, ...]) -> Kernel | Fail:
    """The kernel with the loops of its sum in another order."""
    vars, (begin, *rest) = around(kernel)
    nest = nest_of(rest[0])
    if nest is None or nest.vars == order:
        return Fail("its loops are in the best order already")
    return replace(kernel, body=serial(vars, (begin, *serial(order, nest.body), *rest[1:])))


def factors_in(kernel: Kernel, first: Expr, second: Expr) -> Kernel | Fail:
    """The kernel with the factors of its sum in this order."""
    vars, (begin, *rest) = around(kernel)
    nest = nest_of(rest[0])
    assert nest is not None, "sums have terms"
    (fold,) = nest.body
    assert isinstance(fold, Fold), "sums have terms"
    ordered = multiplying(fold, first, second)
    if ordered == fold:
        return Fail("its first factor is that of m already")
    return replace(kernel, body=serial(vars, (begin, *serial(nest.vars, (ordered,)), *rest[1:])))


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of a tile: loops over its `row` and its `lane`, in these a sum of `folds` over the loops
    `summed`, and the epilogue."""

    row: Sym
    lane: Sym
    begin: Alloc
    summed: tuple[Sym, ...]
    folds: tuple[Fold, ...]
    then: tuple[Stmt, ...]

    @property
    def statement(self) -> For:
        """Serial loops."""
        body = (self.begin, *serial(self.summed, self.folds), *self.then)
        return For(self.row, Loop.SERIAL, (For(self.lane, Loop.SERIAL, body),))

    @property
    def factors(self) -> tuple[tuple[Expr, Expr], ...]:
        """Of each fold: that of the row, and that of the lane."""
        return tuple(_factors(s.value) for s in self.folds)

    def sum(self, then: Sequence[Stmt], values: dict[Sym, Dim], total: Expr) -> tuple[Stmt, ...]:
        """Statements behind a sum at other rows and lanes, with `total` substituted for the sum."""
        register = self.begin.buffer

        def replacement(x: Expr) -> Expr | None:
            return total if isinstance(x, Load) and x.buffer == register else None

        return Rewrite(dict(values), rule=replacement).body(then)


def _factors(x: Expr) -> tuple[Expr, Expr]:
    assert isinstance(x, Alu), "what is summed has two factors"
    first, second = x.args
    return first, second


def multiplying(fold: Fold, first: Expr, second: Expr) -> Fold:
    """The same fold of other factors."""
    assert isinstance(fold.value, Alu), "what is summed has two factors"
    return replace(fold, value=alu(fold.value.op, first, second))


def sums_of(loop: For) -> Sums:
    """The body of a loop over the rows of a tile."""
    (inner,) = loop.body
    assert isinstance(inner, For), "rows hold lanes"
    begin, summing, *then = inner.body
    nest = nest_of(summing)
    assert isinstance(begin, Alloc), "lanes hold sums"
    assert nest is not None, "sums have terms"
    folds = tuple(s for s in nest.body if isinstance(s, Fold))
    return Sums(loop.var, inner.var, begin, nest.vars, folds, tuple(then))


def at_sums(
    kernel: Kernel, row: Sym, change: Callable[[Sums], Sequence[Stmt]], branches: bool = True
) -> Kernel:
    """The kernel with the sums of all tiles with this name of rows changed."""
    body = at_loop(kernel.body, row, lambda loop: change(sums_of(loop)), branches)
    return replace(kernel, body=body)


def is_around(kernel: Kernel, row: Sym, lane: Sym) -> bool:
    """Whether there is a loop over rows that contains only one over lanes."""
    bodies = (s.body[0] for s in loops(kernel.body) if s.var.name == row.name and len(s.body) == 1)
    return any(isinstance(s, For) and s.var.name == lane.name for s in bodies)


def tile_sums(kernel: Kernel, row: Sym) -> Sums:
    """The sums of the one tile with this name of rows."""
    (loop,) = (s for s in loops(kernel.body) if s.var.name == row.name)
    return sums_of(loop)


def before_loop(kernel: Kernel, var: Sym, before: Sequence[Stmt]) -> Kernel:
    """The kernel with statements before the loop called `var`."""
    return replace(kernel, body=at_loop(kernel.body, var, lambda loop: (*before, loop)))
