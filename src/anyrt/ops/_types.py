"""Sets of element types that operators take."""

from __future__ import annotations

from anyrt.core.enums import DataType

FLOATS = frozenset({DataType.FLOAT, DataType.HALF, DataType.BF16})
INTS = frozenset({DataType.INT32, DataType.INT64})
PACKED = frozenset({DataType.INT4, DataType.FP4})
EVERY = frozenset(DataType)
STORAGE = EVERY - {DataType.E8M0}  # what layers that only move elements take
