"""The reach of rows: the position behind which no element of a row contributes.

    s = select(column <= row, s, −inf);  p = softmax(s);  y = p · v

Row i of the weights is 0 from column i + 1 on, for any scores, and these columns do not affect the maximum or
the sum of exponentials. This is found by structure: where the comparison of positions changes its value, each
element is followed through the computation. It must become the neutral element of each fold, and 0 in front
of a product that hides its values there (`Contracted.hides`), even if they are infinite or NaN.

    s = select(mask, s, −inf)     or     s = s + mask

The columns that a mask hides are only known at run time. The numbers of the mask that hide for certain, false
or −∞, are found in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from anyrt.core.dims import Dim, Sym
from anyrt.core.enums import DataType
from anyrt.ir.buffer import COMPUTED, Buffer, Space
from anyrt.ir.compute import Contracted, Folded, Given
from anyrt.ir.graph import Value, walk
from anyrt.ir.kernel import Expr, load, neutral
from anyrt.ir.visit import parts
from anyrt.loops.follow import ENDLESS, Follow, literal
from anyrt.loops.nest import Names
from anyrt.loops.split_by_range import Breakpoint, breakpoint_of, difference
from anyrt.schedule.elements import Elements
from anyrt.schedule.tables import Tables


def reach(factor: Value, inside: Collection[Value], at: Sequence[Dim], column: Sym) -> tuple[Dim, ...]:
    """The columns from which all elements of `factor` are 0 and the elements folded along a row are neutral;
    `at`: the index of an element, in which `column` stands for the last axis. `inside`: the values computed
    for it, by elementwise functions and folds of the last axis; all others are unknown."""
    elements = _elements(factor, inside, at, _unknown(factor, inside))
    turns = dict.fromkeys(t for t in _turns(elements, column) if t.falls)
    return tuple(t.at for t in turns if _are(elements, Follow(t)))


def masks(factor: Value, inside: Collection[Value], at: Sequence[Dim]) -> tuple[Mask, ...]:
    """The mask that hides an element: where it has that number, the element of `factor` is 0, and folds do
    not change."""
    unknown = _unknown(factor, inside)
    elements = _elements(factor, inside, at, unknown)
    numbers = ((v, x) for v in unknown if v not in inside for x in _hiding(v.dtype))
    return tuple(
        Mask(v, x)
        for v, x in numbers
        if _are(elements, Follow(None, {load(unknown[v].buffer, 0): literal(x, COMPUTED[v.dtype])}))
    )


@dataclass(frozen=True, slots=True)
class Mask:
    """A tensor, and its number that hides an element."""

    value: Value
    hiding: float | bool


def _hiding(dtype: DataType) -> tuple[float | bool, ...]:
    if dtype is DataType.BOOL:
        return False, True
    return (ENDLESS,) if COMPUTED[dtype].is_float else ()


def _elements(
    factor: Value, inside: Collection[Value], at: Sequence[Dim], unknown: Mapping[Value, _Unknown]
) -> dict[Expr, float]:
    """The elements that count at an index, and the value of each where it does not."""
    elements = Elements({}, Tables(), Names(), overrides=unknown)
    rows = {v.args[0]: neutral(how.op, COMPUTED[v.dtype]) for v, how in _folds(inside)}
    values = {elements.at(v, _at(v, at)): end for v, end in {**rows, factor: 0}.items()}
    assert not elements.failures, f"{elements.failures[0].reason}: {elements.failures[0].value.op}"
    return values


def _at(v: Value, at: Sequence[Dim]) -> list[Dim]:
    return [0 if size == 1 else i for size, i in zip(v.shape, at, strict=True)]


def _folds(inside: Collection[Value]) -> Iterator[tuple[Value, Folded]]:
    for v in inside:
        if isinstance(how := v.compute, Folded):
            yield v, how


def _unknown(factor: Value, inside: Collection[Value]) -> dict[Value, _Unknown]:
    """A placeholder for a number of which nothing is known."""
    known = {v for v in inside if not isinstance(v.compute, Folded | Contracted)} | {factor}
    around = {a for v in known for a in v.args} - known
    unknown = {v for v in around if v in inside or any(_is_loaded(x) for x in walk([v]))}
    return {v: _Unknown(Buffer(f"x{n}", COMPUTED[v.dtype], Space.ARENA)) for n, v in enumerate(unknown)}


def _is_loaded(v: Value) -> bool:
    how = v.compute
    return isinstance(how, Given) and how.literal is None


@dataclass(frozen=True, slots=True)
class _Unknown:
    buffer: Buffer

    def __call__(self, value: Value, at: tuple[Dim, ...]) -> Expr:
        return load(self.buffer, 0)


def _turns(elements: Mapping[Expr, object], column: Sym) -> Iterator[Breakpoint]:
    for x in parts(elements, bound=False):
        sure = difference(x)
        turn = None if sure is None else breakpoint_of(sure, column)
        if turn is not None:
            yield turn


def _are(elements: Mapping[Expr, float], follow: Follow) -> bool:
    """True if all elements have their required values."""
    numbers = ((follow.value(x), end) for x, end in elements.items())
    return all(x is not None and float(x.value) == end for x, end in numbers)
