"""Cache read: the first of several loops of a row stores the values that all of them compute in the thread's
scratch, and the others load them.

    vector r: acc += f(x[r])           vector r: row[r] = f(x[r]); acc += f(x[r])
    vector r: sq += f(x[r])²    ->     vector r: sq += row[r]²
    vector r: y[r] = f(x[r]) …         vector r: y[r] = row[r] …

Casts are included: rows of half types are kept as float32 if they are read often enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from anyrt.core.dims import Sym, bounds
from anyrt.core.machine import Costs
from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import (
    HALVES,
    Alu,
    Cast,
    Const,
    Expr,
    Fold,
    For,
    Kernel,
    Load,
    Loop,
    Stmt,
    Store,
    free_symbols,
    load,
)
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import Rewrite, loads, parts, statements, written
from anyrt.loops.nest import Names, reserve

COMMON = "row"  # the variable of all loops while they are compared


def cache_read(kernel: Kernel, names: Names, most: int, costs: Costs) -> Kernel | Fail:
    """Stores every row of at most `most` elements that costs less to store once than to compute several
    times, the most expensive first; the operands of a row may become cheap by that."""
    cached = kernel
    while (dearest := _Rows(cached.body, most, costs).dearest()) is not None:
        cached = _with_row(cached, names, *dearest)
    return Fail("its loops repeat no expensive expression") if cached is kernel else cached


def _with_row(kernel: Kernel, names: Names, value: Expr, loops: Sequence[int]) -> Kernel:
    body, (first, *later) = list(kernel.body), loops
    own = _loop(body[first])
    kernel, row = reserve(kernel, names.name("row"), value.type, bounds(own.var.extent or 0)[1])
    store = Store(row, own.var.dim, _at(value, own.var))
    body[first] = replace(own, body=(store, *own.body))
    for n in later:
        var = _loop(body[n]).var
        done = {_at(value, var): load(row, var.dim)}
        body[n] = Rewrite(rule=done.get, bound=False).stmt(body[n])
    return replace(kernel, body=tuple(body))


def _at(x: Expr, var: Sym) -> Expr:
    """The expression in a loop over `var`."""
    return Rewrite({_common(var): var.dim}).expr(x)


def _loop(stmt: Stmt) -> For:
    assert isinstance(stmt, For), "rows are read by loops"
    return stmt


@dataclass(slots=True)
class _Rows:
    """The expressions that the vector loops of a row compute, each with a common variable in place of its
    own."""

    body: Sequence[Stmt]
    most: int
    costs: Costs
    readers: dict[Expr, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for n, stmt in enumerate(self.body):
            if not isinstance(stmt, For) or stmt.kind is not Loop.VECTOR or not self._is_row(stmt):
                continue
            values = [s.value for s in stmt.body if isinstance(s, Fold | Store)]
            moved = Rewrite({stmt.var: _common(stmt.var).dim})
            for x in parts(map(moved.expr, values), bound=False):
                self.readers.setdefault(x, []).append(n)

    def _is_row(self, loop: For) -> bool:
        short = bounds(loop.var.extent or 0)[1] <= self.most
        return short and all(isinstance(s, Fold | Store) for s in loop.body)

    def dearest(self) -> tuple[Expr, list[int]] | None:
        """The expression that gains most by a row, and the loops that compute it."""
        gains = {x: self._gain(x, loops) for x, loops in self.readers.items()}
        candidates = [x for x, gain in gains.items() if gain > 0 and self._stays(x, self.readers[x])]
        best = max(candidates, key=lambda x: gains[x], default=None)
        return None if best is None else (best, self.readers[best])

    def _gain(self, x: Expr, loops: Sequence[int]) -> int:
        """Instructions per element that are saved, without those for the row."""
        if len(loops) < 2 or x.type is Scalar.BOOL or isinstance(x, Load | Const):
            return 0
        return (len(loops) - 1) * (_cost(x, self.costs.convert) - 1) - self.costs.store

    def _stays(self, x: Expr, loops: Sequence[int]) -> bool:
        """True if none of its operands is written between the first loop and the last."""
        reads = {p.buffer for p in loads([x])}
        between = statements(self.body[loops[0] : loops[-1] + 1])
        return reads.isdisjoint(b for s in between for b in written(s))


def _common(var: Sym) -> Sym:
    return Sym(COMMON, extent=var.extent)


def _cost(x: Expr, convert: int) -> int:
    """Instructions per element of a row, each part once, with this cost for a conversion from a half type;
    values that all elements share cost nothing."""
    varying = [p for p in parts([x], bound=False) if any(s.name == COMMON for s in free_symbols(p))]
    casts = sum(isinstance(p, Cast) and p.arg.type in HALVES for p in varying)
    return sum(isinstance(p, Alu | Cast) for p in varying) + (convert - 1) * casts
