"""Split by range (index set splitting): vector loops that compare positions become ranges in which the
comparisons are constant.

    vector i: 0 … n + 2                                    vector i: 0 … 1
      y[i] = select(0 <= i − 1 and i − 1 < n,                y[i] = 0
                    x[min(max(i − 1, 0), n − 1)], 0)  ->   vector i: 0 … n
                                                             y[i + 1] = x[i]
                                                           vector i: 0 … 1
                                                             y[i + n + 1] = 0

A border around a tensor, or tensors shifted against each other, begin and end at some position of a row.
Between these positions no selection is left, positions need not be clamped, and vectors are loaded whole
instead of gathered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from anyrt.core.dims import Dim, Sym, add, always_le, depends, floordiv, linear, mul, symbols
from anyrt.core.dimvalues import rebuild
from anyrt.core.sizes import clamp
from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Alu, Const, Expr, For, If, Index, Kernel, Loop, Op, Stmt, const
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import expressions, loops
from anyrt.ir.visit import Rewrite, parts
from anyrt.loops.nest import Estimate, Names, changed, changed_in

Range: TypeAlias = tuple[Dim, Sym | None, tuple[Stmt, ...]]  # its start, its counter, its body
FAR: Final = 1 << 48  # of numbers that positions are compared with
MOST: Final = 3  # with more places than these, only the longest range between them is split off


def split_by_range(kernel: Kernel, names: Names, estimate: Estimate, most: int) -> Kernel | Fail:
    """Every vector loop whose ranges have at most `most` parts of expressions together."""
    split = _Split(names, estimate, most)
    body = changed_in(kernel.body, split.at)
    return changed(kernel, body, "no vector loop compares positions, or its body is long")


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """The place where `sure` changes sign: it is at least 0 from `at` on, or before, if it `falls`."""

    at: Dim
    sure: Dim
    falls: bool

    def known(self, after: bool) -> Dim:
        """The expression that is at least 0 after the place, or before it."""
        return self.sure if after != self.falls else add(mul(self.sure, -1), -1)


@dataclass(slots=True)
class _Split:
    names: Names
    estimate: Estimate
    most: int

    def at(self, loop: Stmt) -> tuple[Stmt, ...] | None:
        """A vector loop in ranges."""
        if not isinstance(loop, For) or loop.kind is not Loop.VECTOR:
            return None
        statements: list[Stmt] = []
        for _, var, body in self.ranges(loop):
            statements += body if var is None else (For(var, loop.kind, body),)
        return tuple(statements)

    def ranges(self, loop: For) -> list[Range]:
        """The ranges of a loop; one if it stays as it is."""
        whole: list[Range] = [(0, loop.var, loop.body)]
        if self._is_long(whole):
            return whole
        extent, turns = loop.var.extent or 0, _breakpoints(loop)
        order = _in_order(dict.fromkeys(t.at for t in turns))
        if not order:
            return whole
        ends = [0, *(clamp(at, 0, extent) for at in order), extent]
        split: list[Range] = []
        for first, last in pairwise(self._few(ends)):
            known = _known(turns, order[:first], order[last - 1 :])
            split += self._range(loop, ends[first], ends[last], known)
        return whole if self._is_long(split) else split

    def _is_long(self, ranges: Sequence[Range]) -> bool:
        return len(parts(expressions([s for _, _, body in ranges for s in body]))) > self.most

    def _few(self, ends: Sequence[Dim]) -> Sequence[int]:
        """The ends of ranges to use: all, or those of the row and of its longest range."""
        count = len(ends)
        if count <= MOST + 2:
            return range(count)
        lengths = [add(b, mul(a, -1)) for a, b in pairwise(ends)]
        longest = max(range(count - 1), key=lambda k: self.estimate(Sym("range", extent=lengths[k])))
        return list(dict.fromkeys((0, longest, longest + 1, count - 1)))

    def _range(self, loop: For, start: Dim, end: Dim, known: Sequence[Dim]) -> list[Range]:
        """The loop from `start` to `end`, where all of `known` are at least 0."""
        length = add(end, mul(start, -1))
        if length == 0:
            return []
        var = None if length == 1 else self.names.var(length)
        at = start if var is None else add(start, var.dim)
        body = Rewrite(
            {loop.var: at}, rule=lambda x: decided(x, known), simpler=lambda x: _simpler(x, known)
        ).body(loop.body)
        return [(start, var, body)]


def _known(turns: Sequence[Breakpoint], before: Sequence[Dim], behind: Sequence[Dim]) -> list[Dim]:
    """The expressions that are at least 0 between places."""
    after = [t.known(after=True) for t in turns if t.at in before]
    return after + [t.known(after=False) for t in turns if t.at in behind]


def ranges(loop: For, names: Names, estimate: Estimate, most: int) -> list[Range]:
    """A loop in ranges in which its comparisons of positions are constant; unsplit if its body, or that of
    all ranges, has more than `most` parts of expressions."""
    return _Split(names, estimate, most).ranges(loop)


def first_inside(var: Sym, x: Expr) -> int:
    """The position along `var` from which the first comparison of positions in `x` holds; 0 if unknown."""
    loop = For(var, Loop.SERIAL, (If(x, ()),))
    places = [t.at for t in _breakpoints(loop) if not t.falls]
    return min((at for at in places if isinstance(at, int)), default=0)


def _in_order(places: Iterable[Dim]) -> list[Dim] | None:
    """Places of a row in order; None if the order is unknown."""
    out: list[Dim] = []
    for place in places:
        before = [p for p in out if always_le(p, place)]
        after = out[len(before) :]
        if before != out[: len(before)] or not all(always_le(place, p) for p in after):
            return None
        out = [*before, place, *after]
    return out


def _breakpoints(loop: For) -> list[Breakpoint]:
    """The places at which a comparison changes."""
    inside = {loop.var, *(s.var for s in loops(loop.body))}
    differences = (difference(x) for x in parts(expressions(loop.body)))
    turns = (breakpoint_of(d, loop.var) for d in dict.fromkeys(d for d in differences if d is not None))
    return [t for t in turns if t is not None and not any(depends(t.at, v) for v in inside)]


def difference(x: Expr) -> Dim | None:
    """The expression that is at least 0 if a comparison of positions holds."""
    match x:
        case Alu(op=Op.LE, args=(a, b)) if (sides := _positions(a, b)) is not None:
            return add(sides[1], mul(sides[0], -1))
        case Alu(op=Op.LT, args=(a, b)) if (sides := _positions(a, b)) is not None:
            return add(add(sides[1], mul(sides[0], -1)), -1)
    return None


def _positions(*sides: Expr) -> tuple[Dim, ...] | None:
    """Positions as indices."""
    out = [_position(side) for side in sides]
    return None if None in out else tuple(x for x in out if x is not None)


def _position(x: Expr) -> Dim | None:
    """A position, or sums and differences of some; sizes are far from the limits of integers."""
    match x:
        case Index(dim=dim):
            return dim
        case Const(value=int() as number, type=Scalar.I64):
            return number if abs(number) <= FAR else None
        case Alu(op=Op.ADD | Op.SUB, args=args) if (positions := _positions(*args)) is not None:
            return add(positions[0], positions[1] if x.op is Op.ADD else mul(positions[1], -1))
    return None


def breakpoint_of(sure: Dim, var: Sym) -> Breakpoint | None:
    """The place where a difference changes sign along `var`."""
    moved = linear(sure, var)
    if moved is None or any(s.source for s in symbols(moved[1])):
        return None
    slope, rest = moved
    if not isinstance(slope, int):
        return None
    if slope > 0:
        return Breakpoint(mul(floordiv(rest, slope), -1), sure, falls=False)
    return Breakpoint(add(floordiv(rest, -slope), 1), sure, falls=True) if slope < 0 else None


def decided(x: Expr, known: Sequence[Dim]) -> Expr | None:
    """True or false for a comparison that known facts decide."""
    sure = difference(x)
    if sure is None:
        return None
    if any(always_le(k, sure) for k in known):
        return const(True, Scalar.BOOL)
    never = add(mul(sure, -1), -1)
    return const(False, Scalar.BOOL) if any(always_le(k, never) for k in known) else None


def _simpler(x: Dim, known: Sequence[Dim]) -> Dim:
    """An index where each of `known` is at least 0, without the minima and maxima that this decides."""
    return rebuild(x, lambda s: s.dim, lambda a, b: any(always_le(add(a, k), b) for k in known))
