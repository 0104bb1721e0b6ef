"""Store in place: the scratch row for the loop that writes its results is replaced by the memory of the
results.

    vector r: row[r] = f(x[64i + r]); acc += f(…)      vector r: y[64i + r] = f(x[64i + r]); acc += f(…)
    vector r: y[64i + r] = row[r] * acc            ->  vector r: y[64i + r] = y[64i + r] * acc

The cache lines of the results are fetched while the row is computed, and the first cache has room for one
more row. Only if a row is computed once: a repeated row, as the last ones of items, would be finished twice.
"""

from __future__ import annotations

from dataclasses import replace

from anyrt.core.dims import Dim, symbols
from anyrt.core.dimvalues import substitute
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.kernel import For, Kernel, Loop, Store
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import expressions, stores
from anyrt.ir.visit import Rewrite, loads
from anyrt.loops.nest import lets_of, stride


def store_in_place(kernel: Kernel) -> Kernel | Fail:
    """The memory of the results in place of the row that the last loop reads."""
    last = kernel.body[-1]
    match last:
        case For(kind=Loop.VECTOR, body=(Store(buffer=result) as store,)):
            row = _row(last, store)
        case _:
            return Fail("its last loop writes no row")
    known = {kernel.var, last.var, *(s.var for s in lets_of(kernel)[0])}
    if row is None or not symbols(store.index) <= known or stride(store.index, last.var) != 1:
        return Fail("its last loop reads no row of scratch as it writes one")
    if result in {x.buffer for x in loads(expressions(kernel.body))}:
        return Fail("it reads the buffer that it writes")
    if sum(s.buffer == result for s in stores(kernel.body)) > 1:
        return Fail("several loops write its results")

    def place(buffer: Buffer, at: Dim) -> tuple[Buffer, Dim]:
        return (result, substitute(store.index, {last.var: at})) if buffer == row else (buffer, at)

    return replace(kernel, body=tuple(Rewrite(access=place, bound=False).body(kernel.body)))


def _row(loop: For, store: Store) -> Buffer | None:
    """A scratch row with the type and order of the results."""
    for x in loads([store.value]):
        if x.buffer.space is Space.SCRATCH and x.index == loop.var.dim:
            return x.buffer if x.buffer.stored is store.buffer.stored else None
    return None
