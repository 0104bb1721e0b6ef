"""Sums of products that hide something, and what is mended: which they are, and whether what comes of them
shows NaN.

Kernels sum them as all others, where 0 · NaN is NaN, and a second kernel makes the rows again that hold NaN
(`Group.mends`, strategies/mend.py). So nothing that is stored of them may hide NaN itself.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from anyrt.core.dims import Dim, product
from anyrt.core.dtype import is_float
from anyrt.core.enums import DataType
from anyrt.ir.compute import Compute, Concatenated, Contracted, Elements, Seen, is_each
from anyrt.ir.graph import Value
from anyrt.schedule.partition import Stored

# Types whose NaN is in memory what it is in registers.
NONES: Final = frozenset({DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.DOUBLE})


def hides(value: Value) -> bool:
    """True for sums of products that hide what weighs 0, of numbers of which some may be none, and for what
    is NaN where the sums that it stands for are not."""
    how = value.compute
    if isinstance(how, Elements):
        return how.instead is not None
    return isinstance(how, Contracted) and how.hides and is_float(value.dtype)


def operands(value: Value, mends: bool = True) -> Sequence[Value]:
    """What is read for an element, where something is mended or not."""
    how = value.compute
    without = isinstance(how, Elements) and how.instead is not None and not mends
    return value.args[:1] if without else value.args


def seen(value: Value, known: Mapping[Value, Seen]) -> Seen:
    """What a value is, where that is `known` of some of its operands."""
    how = value.compute
    if not isinstance(how, Elements):
        return Seen.ANY
    operands = [known.get(a, Seen.ANY) for a in value.args]
    found = operands[0] if how.moves else how.of_nan(operands)
    fits = value.dtype in NONES if found is Seen.NAN else value.dtype is DataType.BOOL
    return found if fits else Seen.ANY


def shows(value: Value, known: Iterable[Value]) -> bool:
    """True for what is NaN where the elements at its own index are."""
    return seen(value, dict.fromkeys(known, Seen.NAN)) is Seen.NAN


def searched(root: Value, stored: Container[Value]) -> frozenset[int] | None:
    """The axes of what a kernel makes along which the first element tells what is to be mended; None where
    nothing is."""
    todo, seen, found = [(root, True)], set[tuple[Value, bool]](), list[frozenset[int]]()
    while todo:
        v, straight = todo.pop()
        if (v, straight) in seen:
            continue
        seen.add((v, straight))
        straight = straight and is_each(v.compute) and v.shape == root.shape
        if hides(v):
            found.append(_repeated(v.compute) if straight else frozenset())
        else:
            todo += ((a, straight) for a in v.args if a not in stored)
    return frozenset.intersection(*found) if found else None


def read_again(root: Value, stored: Container[Value]) -> Dim:
    """Of how many elements a second kernel reads what the one before has made of such sums."""
    repeated = searched(root, stored)
    if repeated is None:
        return 0
    return product(d for k, d in enumerate(root.shape) if k not in repeated)


def _repeated(how: Compute) -> frozenset[int]:
    """The axes along which the windows that are summed instead do not change."""
    sums = how.instead if isinstance(how, Elements) else None
    return frozenset() if sums is None else frozenset(k for k, x in enumerate(sums.out) if x not in sums.left)


def copies(root: Value, stored: Container[Value]) -> dict[Value, Value]:
    """Of what lies in memory and a kernel for the root reads, what is nothing but a copy, its border perhaps
    around it, and of what."""
    todo, seen, found = [*root.args], set[Value](), dict[Value, Value]()
    while todo:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        if v not in stored:
            todo += v.args
        elif (source := _copied(v, stored)) is not None:
            found[v] = source
    return found


def _copied(value: Value, stored: Container[Value]) -> Value | None:
    """What lies in memory, and has the elements of a value that is nothing but a copy."""
    while isinstance(how := value.compute, Elements) and _copies(how) and len(value.args) == 1:
        (value,) = value.args
        if value in stored:
            return value
    return None


def stored_to_show(
    order: Mapping[Value, int], readers: Mapping[Value, Sequence[Value]], stored: Container[Value]
) -> Iterator[Stored]:
    """Those sums that are to be stored, as what is stored of them might not show that they are NaN."""
    for value in order:
        if hides(value) and value not in stored and not _Traced(value).is_shown(order, readers, stored):
            yield Stored(value, "what is computed of it might not show that it is no number")


@dataclass(slots=True)
class _Traced:
    """What becomes of sums that are NaN: `known` of what is computed of them at their own index; what is NaN
    where `moved` elements are, wherever these were; and all else, which is `lost`."""

    sums: Value
    known: dict[Value, Seen] = field(default_factory=dict)
    moved: set[Value] = field(default_factory=set)
    lost: set[Value] = field(default_factory=set)

    def is_shown(
        self, order: Mapping[Value, int], readers: Mapping[Value, Sequence[Value]], stored: Container[Value]
    ) -> bool:
        """True where all that is stored of the sums is NaN where they are."""
        todo, reached = [self.sums], set[Value]()
        while todo:
            new = {*readers[todo.pop()]} - reached
            reached |= new
            todo += (v for v in new if v not in stored)
        self.known[self.sums] = Seen.NAN
        for value in sorted(reached, key=order.__getitem__):
            self._add(value)
        ends = (v for v in reached if v in stored)
        return all(v in self.moved or self.known.get(v) is Seen.NAN for v in ends)

    def _add(self, value: Value) -> None:
        operands = {*value.args}
        if operands & self.lost:
            self.lost.add(value)
        elif is_each(value.compute) and not operands & self.moved:
            self.known[value] = seen(value, self.known)
        else:
            shown = self._is_shown_by_each(value) if is_each(value.compute) else self._is_copy_of_none(value)
            (self.moved if shown else self.lost).add(value)

    def _is_copy_of_none(self, value: Value) -> bool:
        how = value.compute
        copied = isinstance(how, Concatenated) or (isinstance(how, Elements) and _copies(how))
        return (
            copied
            and value.dtype in NONES
            and all(self.known.get(v, Seen.NAN) is Seen.NAN for v in value.args)
        )

    def _is_shown_by_each(self, value: Value) -> bool:
        """True where each operand that is NaN somewhere makes it NaN by itself."""
        moved = [v for v in value.args if v in self.moved]
        known = any(v in self.known for v in value.args)
        return all(shows(value, (v,)) for v in moved) and (not known or seen(value, self.known) is Seen.NAN)


def _copies(how: Elements) -> bool:
    """True for what has elements of one operand, and a border perhaps."""
    return how.moves or how.border is not None
