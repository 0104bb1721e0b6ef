"""Factors of products that are read as codes: weights in words, and rows of bytes that these multiply.

Kernels extract weights from words themselves (loops/codes.py), a panel at a time, so decoded weights are not
stored. Rows that are byte codes, too, are summed as codes: the codes and their scales are stored.
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
    """The codes of one graph. `fixed`: in memory; `rows`: the codes and scales of rows of bytes; `decoded`:
    the numbers that these represent."""

    fixed: Collection[Value]
    sizes: Sizes
    rows: set[Value] = field(default_factory=set)
    decoded: set[Value] = field(default_factory=set)
    _words: dict[Value, bool] = field(default_factory=dict)

    def is_in_words(self, value: Value) -> bool:
        """True for values computed from codes that fill words, or from bytes (passes/pack_constants.py)."""
        if value not in self._words:
            self._words[value] = self._fills_words(value)
        return self._words[value]

    def is_computed_from(self, value: Value, types: Collection[DataType] = PACKED) -> bool:
        """True for values computed from as many elements of these types."""
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
        return known and value.dtype is DataType.FLOAT and self.is_computed_from(value, BYTES)

    def _leaves(self, value: Value) -> Iterator[Value]:
        """The stored or summed values from which a value is computed element by element."""
        seen, todo = set[Value](), [value]
        while todo:
            v = todo.pop()
            inside = isinstance(v.compute, Elements) and v not in self.fixed
            if not inside and v not in seen:
                yield v
            todo += v.args if inside and v not in seen else ()
            seen.add(v)


def _unmoved(value: Value) -> Value:
    """The value that is moved."""
    while only_moves(value.compute):
        (value,) = value.args
    return value


def _uncast(value: Value) -> Value:
    """Integers that are converted to floats, and moved afterwards or not."""
    plain = _unmoved(value)
    return _unmoved(plain.args[0]) if len(plain.args) == 1 and not is_float(plain.args[0].dtype) else plain
