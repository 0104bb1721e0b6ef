"""What sums of products read as codes: weights that lie in words, and rows of bytes that these multiply.

Kernels take weights out of words themselves (loops/codes.py), a panel at a time, so that nothing they stand
for is stored. Rows that are codes of bytes, too, are summed as such: stored are these codes and their scales.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from anyrt.core.dtype import bits, is_float
from anyrt.core.enums import DataType
from anyrt.ir.compute import Contracted, Elements, Given, only_moves
from anyrt.ir.graph import Value
from anyrt.schedule.cost import Sizes
from anyrt.schedule.storage import PACKED

BYTES: Final = frozenset({DataType.INT8, DataType.UINT8})


@dataclass(slots=True)
class Coded:
    """What is asked of codes in one graph. `given`: what lies in memory; `rows`: the codes and scales of rows
    of bytes; `decoded`: what these stand for."""

    given: Collection[Value]
    sizes: Sizes
    rows: set[Value] = field(default_factory=set)
    decoded: set[Value] = field(default_factory=set)
    _words: dict[Value, bool] = field(default_factory=dict)

    def is_in_words(self, value: Value) -> bool:
        """True for what is made of codes that fill words, or of bytes (passes/pack_constants.py)."""
        if value not in self._words:
            self._words[value] = self._fills_words(value)
        return self._words[value]

    def is_made_of(self, value: Value, types: Collection[DataType] = PACKED) -> bool:
        """True for what is made of as many elements of these types."""
        most = self.sizes.volume(value)
        return any(v.dtype in types and 2 * self.sizes.volume(v) > most for v in self._leaves(value))

    def find_rows(self, values: Iterable[Value]) -> None:
        """Those among the operands of these values."""
        for user in (v for v in values if isinstance(v.compute, Contracted)):
            rows = [a for a in user.args if not self.is_in_words(a)]
            factors = _unmoved(rows[0]).args if len(rows) == 1 < len(user.args) else ()
            codes = [f for f in factors if _uncast(f).dtype is DataType.INT8]
            if codes:
                self.decoded |= {rows[0], _unmoved(rows[0])}
                self.rows |= {*map(_uncast, codes), *(_unmoved(f) for f in factors if f not in codes)}

    def _fills_words(self, value: Value) -> bool:
        leaves = [*self._leaves(value)]
        codes = [v for v in leaves if v.dtype in PACKED]
        if codes:
            return all(v.shape[-2:] == (4, 8 // bits(v.dtype)) for v in codes)
        known = all(isinstance(v.compute, Given) and v.compute.constant for v in leaves)
        return known and value.dtype is DataType.FLOAT and self.is_made_of(value, BYTES)

    def _leaves(self, value: Value) -> Iterator[Value]:
        """What lies in memory, or is summed first, that a value is made of element by element."""
        seen, todo = set[Value](), [value]
        while todo:
            v = todo.pop()
            inside = isinstance(v.compute, Elements) and v not in self.given
            if not inside and v not in seen:
                yield v
            todo += v.args if inside and v not in seen else ()
            seen.add(v)


def _unmoved(value: Value) -> Value:
    """What is moved."""
    while only_moves(value.compute):
        (value,) = value.args
    return value


def _uncast(value: Value) -> Value:
    """Integers that are made numbers, wherever they are moved then."""
    found = _unmoved(value)
    return _unmoved(found.args[0]) if len(found.args) == 1 and not is_float(found.args[0].dtype) else found
