"""Map: a kernel without folds, and without kept rows.

Its loops are collapsed if memory allows. Kernels that read across memory are tiled. Otherwise the innermost
loop is vectorised, in pieces if it is long, and outer loops run in parallel as long as an item has enough
work for a thread.
"""

from __future__ import annotations

from math import prod

from anyrt.backends.cpu.strategies.common import (
    COLLAPSE,
    INTERLEAVE,
    NONTEMPORAL,
    PRECOMPUTE,
    SPLIT_BY_RANGE,
    TILE,
    VECTORISE,
    VERSION,
    parallel,
)
from anyrt.core.dims import Sym
from anyrt.ir.kernel import Kernel, Loop
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import loops
from anyrt.loops.nest import Nest, around, deinterleaves, interleaves
from anyrt.loops.reorder import few_last
from anyrt.loops.share import share
from anyrt.loops.strip_mine import strip_mine
from anyrt.loops.tile import is_tileable
from anyrt.schedule.step import Context, Result, Step, Strategy

PIECE = 64  # elements: pieces are whole numbers of them


def _store_repeated(kernel: Kernel, c: Context) -> Result:
    """Tiles return to the same rows and columns repeatedly: an expression of one of them only (a factor for
    each channel) is better computed once."""
    value = c.repeated() if is_tileable(kernel) else None
    if value is not None:
        return c.stored_first(value, "every tile would compute it again")
    return Fail("no tile repeats an expression")


def _reorder(kernel: Kernel, c: Context) -> Kernel | Fail:
    vars, body = around(kernel)
    if not vars or interleaves(Nest(vars, body)) or _is_tiled(kernel):
        return Fail("its loops are in the best order already")
    return few_last(kernel)


def _is_tiled(kernel: Kernel) -> bool:
    return any(loop.kind is not Loop.SERIAL for loop in loops(kernel.body))


def _inside(kernel: Kernel) -> tuple[Sym, ...]:
    """The loop that will be widened, and those that stay with it."""
    vars, body = around(kernel)
    nest = Nest(vars, body)
    return vars[-2:] if interleaves(nest) or deinterleaves(nest) else vars[-1:]


def _strip_mine(kernel: Kernel, c: Context) -> Kernel | Fail:
    if _is_tiled(kernel) or not around(kernel)[0]:
        return Fail("it has pieces already")
    widened, *beside = _inside(kernel)
    times = prod(map(c.estimate, beside))
    if times * c.estimate(widened) <= 2 * c.pieces.block:
        return Fail("its innermost loop is one piece")
    return strip_mine(kernel, c.names, widened, max(PIECE, c.pieces.block // times // PIECE * PIECE))


def _parallelise(kernel: Kernel, c: Context) -> Kernel | Fail:
    """For tiles: all but the strips in a row. Otherwise outer loops, as long as the inside is at least about
    `item` elements."""
    vars, _ = around(kernel)
    if _is_tiled(kernel):
        return parallel(kernel, c, len(vars) - 1)
    if not vars:
        return parallel(kernel, c, 0)
    inside = _inside(kernel)
    count, work = len(vars) - len(inside), prod(map(c.estimate, inside))
    while count and work * c.estimate(vars[count - 1]) <= c.pieces.item:
        count -= 1
        work *= c.estimate(vars[count])
    return parallel(kernel, c, count)


MAP: Strategy = (
    COLLAPSE,
    INTERLEAVE,
    Step("store repeated", _store_repeated),
    TILE,
    Step("reorder", _reorder),
    Step("share", lambda kernel, c: Fail("it is tiled") if _is_tiled(kernel) else share(kernel)),
    Step("strip-mine", _strip_mine),
    Step("parallelise", _parallelise),
    VECTORISE,
    SPLIT_BY_RANGE,
    VERSION,
    PRECOMPUTE,
    NONTEMPORAL,
)
