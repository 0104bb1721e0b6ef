"""Fold along memory: a sum over a strided row, such as a group of channels with channels innermost, is
computed in memory order.

                                                  for b: 0 … 8
                                                    vector c: 0 … 16
                                                      part = 0
    acc = 0                                           for q: 0 … 512
    for r: 0 … 65536                        ->          part += x[c + 128·(512b + q)]
      acc += x[r // 4096 + 128·(r mod 4096)]          sums[16b + c] = part
                                                  acc = 0
                                                  for k: 0 … 128
                                                    acc += sums[k]

Several blocks are summed side by side, so that additions hide each other's latencies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from anyrt.core.dims import FLOORDIV, Dim, Expr, Fn, Sym, add, as_symbol, mul
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import Alloc, Fold, For, Kernel, Loop, Op, Stmt, Store, const, load
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import substituted
from anyrt.loops.nest import Names, changed, changed_in, loads_of, reserve, serial, turn, unit_loads
from anyrt.loops.split import pieces

BESIDE = (4, 2, 1)  # blocks


def fold_along(kernel: Kernel, names: Names, lanes: int, terms: int) -> Kernel | Fail:
    """Every sum of float32 over a strided row with at least `lanes` contiguous neighbours, by blocks of at
    most `terms` terms."""
    order = _Order(kernel, names, lanes, terms)
    body = changed_in(kernel.body, order.at)
    return changed(order.kernel, body, "no row lies in memory in another order")


class _Order:
    """Changes the order of the sums of one kernel; `kernel` has the scratch for their blocks."""

    def __init__(self, kernel: Kernel, names: Names, lanes: int, terms: int) -> None:
        self.kernel, self._names, self._lanes, self._terms = kernel, names, lanes, terms

    def at(self, stmt: Stmt) -> tuple[Stmt, ...] | None:
        """A loop that contains only a sum, in another order; None if it stays."""
        match stmt:
            case For(var=var, kind=Loop.SERIAL, body=(Fold(op=Op.ADD, index=0) as fold,)):
                length = self._length(var, fold) if fold.buffer.type is Scalar.F32 else None
                return None if length is None else self._sum(var, fold, length)
        return None

    def _length(self, var: Sym, fold: Fold) -> int | None:
        """The iterations after which the sum reaches the next contiguous neighbours."""
        total = var.extent
        if not isinstance(total, int):
            return None
        own, lengths = unit_loads([fold], var), dict.fromkeys(_periods(fold, var))
        for length in (p for p in lengths if total % p == 0 and total // p >= self._lanes):
            lane, place = Sym("lane", extent=total // length), Sym("place", extent=length)
            moved = substituted([fold], {var: add(mul(lane.dim, length), place.dim)})
            if unit_loads(moved, lane) > own:
                return length
        return None

    def _sum(self, var: Sym, fold: Fold, length: int) -> tuple[Stmt, ...]:
        names, total = self._names, var.extent
        assert isinstance(total, int), "what has an order has a length"
        beside = next(n for n in BESIDE if length % n == 0)
        lane = names.var(total // length, "c")
        block, within, at = pieces(names, length // beside, self._terms, "q", "b")
        blocks = beside * (block.extent if isinstance(block.extent, int) else 1)
        each = names.var(blocks * (total // length), "k")
        self.kernel, sums = reserve(self.kernel, names.name("sums"), Scalar.F32, each.extent or 0)
        parts = [Buffer(names.name("part"), Scalar.F32, Space.REGISTER) for _ in range(beside)]
        terms, stores = list[Stmt](), list[Stmt]()
        for k, part in enumerate(parts):
            place = add(mul(lane.dim, length), add(k * (length // beside), at))
            terms += substituted([replace(fold, buffer=part)], {var: place})
            row = add(mul(turn(block), beside), k)
            stores.append(Store(sums, add(mul(row, total // length), lane.dim), load(part, 0)))
        begin = (Alloc(part, const(0.0, Scalar.F32)) for part in parts)
        inside = For(lane, Loop.VECTOR, (*begin, *serial([within], terms), *stores))
        whole = For(each, Loop.SERIAL, (replace(fold, value=load(sums, each.dim)),))
        return (*serial([block] if block.extent != 1 else [], [inside]), whole)


def _periods(fold: Fold, var: Sym) -> Iterator[int]:
    """The divisors of a loop's counter in indices."""
    todo: list[Dim] = [x.index for x in loads_of([fold])]
    while todo:
        dim = todo.pop()
        for atom in (a for m, _ in (dim.terms if isinstance(dim, Expr) else ()) for a in m):
            if isinstance(atom, Fn):
                todo += atom.args
                turns = _divided(atom, var)
                yield from [turns] if turns else []


def _divided(atom: Fn, var: Sym) -> int:
    """The iterations of a loop that share a quotient of its counter alone; 0 for all others."""
    by, inner = atom.args[-1], atom.args[0]
    if atom.op != FLOORDIV or not isinstance(by, int) or not isinstance(inner, Expr):
        return 0
    if as_symbol(inner) == var:
        return by
    match inner:
        case Expr(terms=(((Fn() as quotient,), 1),)):
            return by * _divided(quotient, var)
    return 0
