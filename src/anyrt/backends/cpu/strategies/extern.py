"""Extern: a kernel of statements that a primitive wrote, inside loops over independent axes.

If the statements only carry an accumulator from one element to the next, which waits for it, several rows are
interleaved.
"""

from __future__ import annotations

from anyrt.backends.cpu.strategies.common import PARALLELISE, VERSION
from anyrt.ir.kernel import Alloc, Fold, For, Kernel, Let, Loop, Stmt, Store
from anyrt.ir.rewrite import Fail
from anyrt.loops.unroll_and_jam import unroll_and_jam
from anyrt.loops.vectorise_independent import vectorise_independent
from anyrt.schedule.step import Context, Step, Strategy

ROWS = 4  # per item: more additions than are in flight at a time
LONG = 256  # elements of a row
ITEMS = 4  # for each thread, even so


def _unroll_and_jam(kernel: Kernel, c: Context) -> Kernel | Fail:
    statements = [s for s in kernel.body if not isinstance(s, Let)]
    if len(statements) == len(kernel.body) or not all(_carries(s, c) for s in statements):
        return Fail("its rows do more than fold, or do not wait for the accumulator")
    if c.estimate(kernel.var) < ROWS * ITEMS * c.machine.cores:
        return Fail("there are few rows")
    return unroll_and_jam(kernel, c.names, ROWS)


def _carries(stmt: Stmt, c: Context) -> bool:
    """Loops that only fold and store, with more iterations than a processor has in flight: it waits for
    floats, while integers are folded as fast as they are stored."""
    if isinstance(stmt, Alloc):
        return True
    if not isinstance(stmt, For) or stmt.kind is not Loop.SERIAL or c.estimate(stmt.var) < LONG:
        return False
    return all(isinstance(s, Store) or (isinstance(s, Fold) and s.value.type.is_float) for s in stmt.body)


EXTERN: Strategy = (
    Step("vectorise independent", lambda kernel, c: vectorise_independent(kernel)),
    PARALLELISE,
    VERSION,
    Step("unroll and jam", _unroll_and_jam),
)
