"""Masked sums of products and mended values: which they are, and whether values computed from them show NaN.

Kernels sum them like all others, where 0 · NaN is NaN, and a second kernel recomputes the rows that contain
NaN (`Group.mends`, strategies/mend.py). Values that are stored from them must therefore preserve NaN.
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

# Types whose NaN is the same in memory and in registers.
NONES: Final = frozenset({DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.DOUBLE})


def hides(value: Value) -> bool:
    """True for sums of products that hide terms of weight 0 and may read NaN or infinities, and for values
    that are NaN although the sums that they replace are not."""
    how = value.compute
    if isinstance(how, Elements):
        return how.instead is not None
    return isinstance(how, Contracted) and how.hides and is_float(value.dtype)


def operands(value: Value, mends: bool = True) -> Sequence[Value]:
    """The operands read for an element, with or without mending."""
    how = value.compute
    without = isinstance(how, Elements) and how.instead is not None and not mends
    return value.args[:1] if without else value.args


def seen(value: Value, known: Mapping[Value, Seen]) -> Seen:
    """A value, if that is `known` of some of its operands."""
    how = value.compute
    if not isinstance(how, Elements):
        return Seen.ANY
    operands = [known.get(a, Seen.ANY) for a in value.args]
    state = operands[0] if how.moves else how.of_nan(operands)
    fits = value.dtype in NONES if state is Seen.NAN else value.dtype is DataType.BOOL
    return state if fits else Seen.ANY


def shows(value: Value, known: Iterable[Value]) -> bool:
    """True for a value that is NaN wherever its operands' elements at its own index are."""
    return seen(value, dict.fromkeys(known, Seen.NAN)) is Seen.NAN


def searched(root: Value, stored: Container[Value]) -> frozenset[int] | None:
    """The axes of a kernel's result along which the first element shows what to mend; None if nothing has to
    be mended."""
    todo, seen, axes = [(root, True)], set[tuple[Value, bool]](), list[frozenset[int]]()
    while todo:
        v, straight = todo.pop()
        if (v, straight) in seen:
            continue
        seen.add((v, straight))
        straight = straight and is_each(v.compute) and v.shape == root.shape
        if hides(v):
            axes.append(_repeated(v.compute) if straight else frozenset())
        else:
            todo += ((a, straight) for a in v.args if a not in stored)
    return frozenset.intersection(*axes) if axes else None


def read_again(root: Value, stored: Container[Value]) -> Dim:
    """The number of elements that a second kernel reads to find rows to mend."""
    repeated = searched(root, stored)
    if repeated is None:
        return 0
    return product(d for k, d in enumerate(root.shape) if k not in repeated)


def _repeated(how: Compute) -> frozenset[int]:
    """The axes along which the windows that are summed instead do not change."""
    sums = how.instead if isinstance(how, Elements) else None
    return frozenset() if sums is None else frozenset(k for k, x in enumerate(sums.out) if x not in sums.left)


def copies(root: Value, stored: Container[Value]) -> dict[Value, Value]:
    """The stored values that a kernel for the root reads and that are only copies, perhaps with a border, and
    their sources."""
    todo, seen, sources = [*root.args], set[Value](), dict[Value, Value]()
    while todo:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        if v not in stored:
            todo += v.args
        elif (source := _copied(v, stored)) is not None:
            sources[v] = source
    return sources


def _copied(value: Value, stored: Container[Value]) -> Value | None:
    """The stored value with the elements of a value that is only a copy."""
    while isinstance(how := value.compute, Elements) and _copies(how) and len(value.args) == 1:
        (value,) = value.args
        if value in stored:
            return value
    return None


def stored_to_show(
    order: Mapping[Value, int], readers: Mapping[Value, Sequence[Value]], stored: Container[Value]
) -> Iterator[Stored]:
    """The sums that must be stored, since values stored from them might not show that they are NaN."""
    for value in order:
        if hides(value) and value not in stored and not _Traced(value).is_shown(order, readers, stored):
            yield Stored(value, "what is computed of it might not show that it is no number")


@dataclass(slots=True)
class _Traced:
    """The effect of sums that are NaN: `known` of values computed from them at their own index; values that
    are NaN if `moved` elements are, at any position; and all others, which are `lost`."""

    sums: Value
    known: dict[Value, Seen] = field(default_factory=dict)
    moved: set[Value] = field(default_factory=set)
    lost: set[Value] = field(default_factory=set)

    def is_shown(
        self, order: Mapping[Value, int], readers: Mapping[Value, Sequence[Value]], stored: Container[Value]
    ) -> bool:
        """True if every value stored from the sums is NaN where they are."""
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
        """True if each operand that is NaN anywhere makes the value NaN by itself."""
        moved = [v for v in value.args if v in self.moved]
        known = any(v in self.known for v in value.args)
        return all(shows(value, (v,)) for v in moved) and (not known or seen(value, self.known) is Seen.NAN)


def _copies(how: Elements) -> bool:
    """True for values with the elements of one operand, perhaps with a border."""
    return how.moves or how.border is not None
