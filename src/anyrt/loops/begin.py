"""Begin: an integer accumulator starts with the value that is added to or subtracted from the sum, since that
is exact.

acc = 0                                    acc = 0 − zero[n]
for k: acc += x[m, k] · w[k, n]     ->     for k: acc += x[m, k] · w[k, n]
y[m, n] = f(acc − zero[n])                 y[m, n] = f(acc)
"""

from __future__ import annotations

from dataclasses import replace

from anyrt.core.dims import Sym
from anyrt.ir.buffer import Scalar, Space
from anyrt.ir.kernel import Alu, Expr, Kernel, Load, Op, alu, free_symbols, load, operands
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import expressions
from anyrt.ir.visit import Rewrite, parts
from anyrt.loops.product import Sums, at_sums, tile_sums

EITHER = (Op.ADD, Op.SUB)


def begin(kernel: Kernel, row: Sym) -> Kernel | Fail:
    """The sums of the tiles with these rows, starting with the part that is the same for all rows."""
    sums = tile_sums(kernel, row)
    if sums.begin.value.type is not Scalar.I32:
        return Fail("sums of floats would be rounded differently")
    if _added(sums) is None:
        return Fail("no addend of the sums is the same for all rows")
    return at_sums(kernel, row, lambda sums: (_begun(sums).statement,))


def _begun(sums: Sums) -> Sums:
    while (added := _added(sums)) is not None:
        known: dict[Expr, Expr] = {added: load(sums.begin.buffer, 0)}
        start = alu(added.op, sums.begin.value, added.args[1])
        then = Rewrite(rule=known.get).body(sums.then)
        sums = replace(sums, begin=replace(sums.begin, value=start), then=then)
    return sums


def _added(sums: Sums) -> Alu | None:
    """The one expression of the sum in its readers, with the added value that is the same for all rows."""
    total = load(sums.begin.buffer, 0)
    stored = expressions(sums.then)
    reading = [x for x in parts(stored) if total in operands(x)]
    (reader, *others) = reading or [total]
    if others or total in stored or not isinstance(reader, Alu) or reader.op not in EITHER:
        return None
    return reader if reader.args[0] is total and _is_alike(reader.args[1], sums.row) else None


def _is_alike(x: Expr, row: Sym) -> bool:
    """True for expressions of constants and of the lane."""
    loads = [p for p in parts([x]) if isinstance(p, Load)]
    return row not in free_symbols(x) and all(p.buffer.space is Space.CONST for p in loads)
