"""Split by range (index set splitting): vector loops that compare positions, in ranges in which the
comparisons are decided.

    vector i: 0 … n + 2                                    vector i: 0 … 1
      y[i] = select(0 <= i − 1 and i − 1 < n,                y[i] = 0
                    x[min(max(i − 1, 0), n − 1)], 0)  ->   vector i: 0 … n
                                                             y[i + 1] = x[i]
                                                           vector i: 0 … 1
                                                             y[i + n + 1] = 0

A border around a tensor, or tensors moved against each other, begin and end somewhere in a row. Between these
places nothing is left to choose, positions need not be kept inside, and vectors are read whole instead of
gathered.
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

Range: TypeAlias = tuple[Dim, Sym | None, tuple[Stmt, ...]]  # where it begins, its counter, its body
FAR: Final = 1 << 48  # of numbers that positions are compared with
MOST: Final = 3  # more places than these leave the longest range between them, and what is before and after


def split_by_range(kernel: Kernel, names: Names, estimate: Estimate, most: int) -> Kernel | Fail:
    """Every vector loop whose ranges have at most `most` parts of expressions together."""
    split = _Split(names, estimate, most)
    made = changed_in(kernel.body, split.at)
    return changed(kernel, made, "no vector loop compares positions, or its body is long")


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Where `sure` turns: it is at least 0 from `at` on, or before, if it `falls`."""

    at: Dim
    sure: Dim
    falls: bool

    def known(self, after: bool) -> Dim:
        """What is at least 0 after the place, or before it."""
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
        made: list[Stmt] = []
        for _, var, body in self.ranges(loop):
            made += body if var is None else (For(var, loop.kind, body),)
        return tuple(made)

    def ranges(self, loop: For) -> list[Range]:
        """The ranges of a loop; where it is left as it is, one."""
        whole: list[Range] = [(0, loop.var, loop.body)]
        if self._is_long(whole):
            return whole
        extent, turns = loop.var.extent or 0, _breakpoints(loop)
        order = _in_order(dict.fromkeys(t.at for t in turns))
        if not order:
            return whole
        ends = [0, *(clamp(at, 0, extent) for at in order), extent]
        made: list[Range] = []
        for first, last in pairwise(self._few(ends)):
            known = _known(turns, order[:first], order[last - 1 :])
            made += self._range(loop, ends[first], ends[last], known)
        return whole if self._is_long(made) else made

    def _is_long(self, ranges: Sequence[Range]) -> bool:
        return len(parts(expressions([s for _, _, body in ranges for s in body]))) > self.most

    def _few(self, ends: Sequence[Dim]) -> Sequence[int]:
        """Which ends of ranges to take: all, or those of the row and of its longest range."""
        count = len(ends)
        if count <= MOST + 2:
            return range(count)
        lengths = [add(b, mul(a, -1)) for a, b in pairwise(ends)]
        longest = max(range(count - 1), key=lambda k: self.estimate(Sym("range", extent=lengths[k])))
        return list(dict.fromkeys((0, longest, longest + 1, count - 1)))

    def _range(self, loop: For, start: Dim, end: Dim, known: Sequence[Dim]) -> list[Range]:
        """The loop from `start` to `end`, where every one of `known` is at least 0."""
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
    """What is at least 0 between places."""
    after = [t.known(after=True) for t in turns if t.at in before]
    return after + [t.known(after=False) for t in turns if t.at in behind]


def ranges(loop: For, names: Names, estimate: Estimate, most: int) -> list[Range]:
    """A loop in ranges in which its comparisons of positions are decided; in one where its body, or that of
    all ranges, has more than `most` parts of expressions."""
    return _Split(names, estimate, most).ranges(loop)


def first_inside(var: Sym, x: Expr) -> int:
    """Where, along `var`, the first comparison of positions in `x` begins to hold; 0 where that is open."""
    loop = For(var, Loop.SERIAL, (If(x, ()),))
    places = [t.at for t in _breakpoints(loop) if not t.falls]
    return min((at for at in places if isinstance(at, int)), default=0)


def _in_order(places: Iterable[Dim]) -> list[Dim] | None:
    """Places of a row in order; None where that is open."""
    out: list[Dim] = []
    for place in places:
        before = [p for p in out if always_le(p, place)]
        after = out[len(before) :]
        if before != out[: len(before)] or not all(always_le(place, p) for p in after):
            return None
        out = [*before, place, *after]
    return out


def _breakpoints(loop: For) -> list[Breakpoint]:
    """The places at which a comparison turns."""
    inside = {loop.var, *(s.var for s in loops(loop.body))}
    found = (difference(x) for x in parts(expressions(loop.body)))
    turns = (breakpoint_of(d, loop.var) for d in dict.fromkeys(d for d in found if d is not None))
    return [t for t in turns if t is not None and not any(depends(t.at, v) for v in inside)]


def difference(x: Expr) -> Dim | None:
    """What is at least 0 where a comparison of positions holds."""
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
    """A position, or sums and differences of some; sizes are far from where integers wrap."""
    match x:
        case Index(dim=dim):
            return dim
        case Const(value=int() as number, type=Scalar.I64):
            return number if abs(number) <= FAR else None
        case Alu(op=Op.ADD | Op.SUB, args=args) if (found := _positions(*args)) is not None:
            return add(found[0], found[1] if x.op is Op.ADD else mul(found[1], -1))
    return None


def breakpoint_of(sure: Dim, var: Sym) -> Breakpoint | None:
    """Where a difference turns with `var`."""
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
    """True or false for a comparison that what is known decides."""
    sure = difference(x)
    if sure is None:
        return None
    if any(always_le(k, sure) for k in known):
        return const(True, Scalar.BOOL)
    never = add(mul(sure, -1), -1)
    return const(False, Scalar.BOOL) if any(always_le(k, never) for k in known) else None


def _simpler(x: Dim, known: Sequence[Dim]) -> Dim:
    """An index where each of `known` is at least 0: minima and maxima that this decides are gone."""
    return rebuild(x, lambda s: s.dim, lambda a, b: any(always_le(add(a, k), b) for k in known))
