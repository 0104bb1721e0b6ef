"""Sizes at which kernels are tested, including data-dependent ones without an upper bound (core/counts.py).

Random data rarely determine sizes at which a network can run, so these are selected: a few of all values, and
those that conditions require.

>>> from anyrt.core.counts import open_count
>>> from anyrt.core.requirement import Relation
>>> size = open_count("size")
>>> fits = Requirement(size.dim, Relation.EQ, 7, "AR112", "sum", "give 7")
>>> corner([fits], {}, [size])
{'size': 7}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from anyrt.core.counts import is_open
from anyrt.core.dims import Sym, as_symbol
from anyrt.core.dimvalues import evaluate
from anyrt.core.requirement import Requirement

TRIED: Final = (3, 2, 1, 0)
ROUNDS: Final = 4  # one size may depend on another


def corner(
    needs: Sequence[Requirement], sizes: Mapping[str, int], symbols: Iterable[Sym]
) -> dict[str, int] | None:
    """`sizes`, with open ones replaced so that all conditions hold; None if no such sizes are found."""
    opens = frozenset(s for s in symbols if is_open(s))
    for tried in TRIED if opens else (0,):
        candidate = {**sizes, **{s.name: tried for s in opens}}
        for _ in range(ROUNDS):
            wrong = [need for need in needs if not need.holds(candidate)]
            if not wrong:
                return candidate
            for need in wrong:
                candidate |= _mended(need, candidate, opens)
    return None


def _mended(need: Requirement, sizes: Mapping[str, int], opens: frozenset[Sym]) -> dict[str, int]:
    """The sizes with which a condition holds, if one side of it is an open size."""
    for side, other in ((need.left, need.right), (need.right, need.left)):
        sym = as_symbol(side)
        if sym is not None and sym in opens:
            return {sym.name: evaluate(other, sizes)}
    return {}
