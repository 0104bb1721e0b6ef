"""The scalar functions: the definition, the expansion to kernel expressions, and the error of each.

>>> from anyrt.ir.buffer import Scalar
>>> from anyrt.ir.kernel import const
>>> SCALARS["gt"].expand(const(1, Scalar.I32), const(2, Scalar.I32))
lt(2, 1)
"""

from __future__ import annotations

from anyrt.prims.scalar import (
    arithmetic,
    bits,
    compare,
    exponential,
    hyperbolic,
    power,
    rounding,
    special,
    trigonometric,
)
from anyrt.prims.scalar.table import Kind, ResultKind, ScalarFn

__all__ = ["SCALARS", "Kind", "ResultKind", "ScalarFn"]

_FAMILIES = (arithmetic, bits, compare, exponential, power, trigonometric, hyperbolic, rounding, special)
SCALARS: dict[str, ScalarFn] = {f.name: f for family in _FAMILIES for f in family.FUNCTIONS}
