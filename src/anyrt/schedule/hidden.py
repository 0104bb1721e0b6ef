"""Sums of products that hide something: which they are, and whether what comes of them shows NaN.

Kernels sum them as all others, where 0 · NaN is NaN, and a second kernel makes the rows again that hold NaN
(`Group.mends`, strategies/mend.py). So nothing that is stored of them may hide NaN itself.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from anyrt.core.dtype import is_float
from anyrt.core.enums import DataType
from anyrt.ir.compute import Contracted, Elements
from anyrt.ir.graph import Value
from anyrt.schedule.partition import Stored

# Types whose NaN is in memory what it is in registers.
NONES: Final = frozenset({DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.DOUBLE})


def hides(value: Value) -> bool:
    """True for sums of products that hide what weighs 0, of numbers of which some may be none."""
    how = value.compute
    return isinstance(how, Contracted) and how.hides and is_float(value.dtype)


def spreads(value: Value) -> bool:
    """True for what is NaN where what it is computed of is."""
    how = value.compute
    return isinstance(how, Elements) and (how.moves or how.spreads) and value.dtype in NONES


def is_searched(value: Value) -> bool:
    """True where a second kernel reads what the one before has made of such sums."""
    todo, seen = [value], set[Value]()
    while todo:
        v = todo.pop()
        if hides(v):
            return True
        todo += (a for a in v.args if spreads(v) and a not in seen)
        seen |= {*v.args}
    return False


def stored_apart(
    values: Iterable[Value], readers: Mapping[Value, Sequence[Value]], stored: Container[Value]
) -> Iterator[Stored]:
    """Those sums that are to be stored, as what is stored of them might not show that they are NaN."""

    def shows(value: Value) -> bool:
        return value in stored or all(spreads(u) and shows(u) for u in readers[value])

    for value in values:
        if hides(value) and not shows(value):
            yield Stored(value, "what is computed of it might not show that it is no number")
