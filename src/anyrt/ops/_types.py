"""Sets of element types that operators take."""

from __future__ import annotations

from anyrt.core.dtype import is_integer, is_packed
from anyrt.core.enums import DataType

FLOATS = frozenset({DataType.FLOAT, DataType.HALF, DataType.BF16})
REALS = FLOATS | {DataType.DOUBLE}  # float64 is computed in float64
INTS = frozenset({DataType.INT32, DataType.INT64})
PACKED = frozenset(t for t in DataType if is_packed(t))
EVERY = frozenset(DataType)
# Types of AnyRT's own, and those of them that have arithmetic.
OWN = frozenset(t for t in DataType if t.is_extension)
OWN_INTS = frozenset(t for t in OWN if is_integer(t))
OWN_NUMBERS = OWN_INTS | {DataType.DOUBLE}
STORAGE = EVERY - {DataType.E8M0}  # what layers that only move elements take
