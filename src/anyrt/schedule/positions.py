"""The positions at which an element reads its operands, and how often these are computed for it.

A value that two shifted views read is computed once for each; a value that a hundred functions read at the
same position is computed once. Positions are therefore followed through all moves of elements.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeAlias

from anyrt.core.dims import Dim, Expr, Fn, Sym, symbols
from anyrt.core.dimvalues import rebuild
from anyrt.ir import kernel
from anyrt.ir.buffer import COMPUTED
from anyrt.ir.compute import Contracted, Elements, Folded, Given, Resampled
from anyrt.ir.graph import Shape, Type, Value
from anyrt.ir.prim import Prim, Read

MOST: Final = 1000  # elements that are followed; more reads are expensive in any case
LONG: Final = 400  # characters of a position: about sixteen divisions
FAR: Final = "far"

Position: TypeAlias = tuple[Dim, ...]
Reads: TypeAlias = tuple[tuple[Value, Position, int], ...]


@lru_cache(maxsize=1 << 12)
def own(shape: Shape) -> Position:
    """Any position of a value of this shape."""
    return tuple(0 if d == 1 else Sym(f"i{k}", extent=d).dim for k, d in enumerate(shape))


def read(user: Value, at: Position) -> Iterator[tuple[Value, Position, int]]:
    """The reads of one element of `user`: the operand, the position, and how many taps read it there."""
    how = user.compute
    for number, arg in enumerate(user.args):
        match how:
            case Elements(instead=Contracted()) if number:
                return  # read if the first is NaN
            case Elements(same=True):
                yield arg, at if arg.shape == user.shape else _aligned(arg.shape, at), 1
            case Resampled(axis=axis, size=size, rule=rule):
                tap = Sym("tap", extent=arg.shape[axis], source=(rule, size, at[axis])).dim
                yield arg, _within(arg.shape, (*at[:axis], tap, *at[axis + 1 :])), rule.count
            case Elements():
                for place in _moved(user.op, user.type, tuple(a.type for a in user.args), at)[number]:
                    yield arg, _within(arg.shape, _identified(user, how, place, at)), 1
            case _:
                yield arg, own(arg.shape), 1


def positions(value: Value, user: Value, at: Position) -> Iterator[Position]:
    """The positions at which an element of `user` reads `value`."""
    return (where for arg, where, _ in read(user, at) if arg == value)


def times(
    value: Value, stored: Container[Value], known: dict[Value, tuple[Position, Reads]]
) -> dict[Position, dict[Value, int]]:
    """The number of times that each value is computed or loaded at each position for an element of `value`,
    if everything in `stored` is loaded and folds are registers. `known`: what values read, kept from call to
    call."""
    start = own(value.shape)
    counts: dict[Position, dict[Value, int]] = {start: {}}
    count, todo = 0, [(value, start, counts[start], 1)]
    while todo and count < MOST:
        v, at, there, n = todo.pop()
        if there.get(v, 0) >= n:
            continue
        count += v not in there
        there[v] = n
        if v not in stored and not isinstance(v.compute, Given | Folded | Contracted):
            for arg, where, taps in _read_once(v, at, known):
                # Most values are read in place: long positions are looked up once for all of these.
                todo.append((arg, where, there if where is at else counts.setdefault(where, {}), n * taps))
    return counts


def _read_once(user: Value, at: Position, known: dict[Value, tuple[Position, Reads]]) -> Reads:
    """The result of `read`, cached for the last position at which a value was read."""
    kept = known.get(user)
    if kept is None or kept[0] is not at:
        kept = known[user] = at, tuple(read(user, at))
    return kept[1]


def is_far(at: Position) -> bool:
    """True if a part of a position is too long to be computed for each element."""
    return any(s.name == FAR for d in at for s in symbols(d))


def _aligned(shape: Shape, at: Position) -> Position:
    """The same position where nothing is repeated along an axis."""
    for d, i in zip(shape, at, strict=True):
        if d == 1 and not isinstance(i, int):
            return tuple(0 if d == 1 else i for d, i in zip(shape, at, strict=True))
    return at


def _within(shape: Shape, at: Sequence[Dim]) -> Position:
    return tuple(0 if d == 1 else _short(d, i) for d, i in zip(shape, at, strict=True))


def _short(size: Dim, at: Dim) -> Dim:
    """A placeholder for a position that is too long, so that positions derived from it do not grow."""
    terms = at.terms if isinstance(at, Expr) else ()
    length = sum(a.length for m, _ in terms for a in m if isinstance(a, Fn))
    return Sym(FAR, extent=size, source=at).dim if length > LONG else at


@lru_cache(maxsize=1 << 14)
def _moved(op: Prim, out: Type, args: tuple[Type, ...], at: Position) -> tuple[tuple[Position, ...], ...]:
    """The positions at which an element of `op` reads each operand."""
    reads: list[list[Position]] = [[] for _ in args]
    op.lower(out, tuple(map(_noting, args, reads)), at)
    return tuple(map(tuple, reads))


def _identified(user: Value, how: Elements, place: Position, at: Position) -> Position:
    """The position, with data-dependent parts identified by the tensor and index that they are read from."""
    if not how.positions:
        return place
    said = tuple(user.args[k] for k in how.positions)

    def named(sym: Sym) -> Dim:
        by_data = isinstance(sym.source, kernel.Alu | kernel.Cast | kernel.Const | kernel.Load)
        return replace(sym, source=(said, at)).dim if by_data else sym.dim

    return tuple(rebuild(d, named) for d in place)


def _noting(operand: Type, record: list[Position]) -> Read:
    """An operand that records its reads."""

    def element(at: Sequence[Dim]) -> kernel.Expr:
        record.append(tuple(at))
        return kernel.const(0, COMPUTED[operand.dtype])

    return Read(operand, element)
