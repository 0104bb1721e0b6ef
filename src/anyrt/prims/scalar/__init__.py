"""The scalar functions: what each computes, how it expands into kernel expressions, and how exact that is.

>>> from anyrt.ir.kernel import Scalar, const
>>> SCALARS["gt"].expand(const(1, Scalar.I32), const(2, Scalar.I32))
lt(2, 1)
"""

from __future__ import annotations

import math

from anyrt.prims.scalar import (
    arithmetic,
    compare,
    exponential,
    hyperbolic,
    power,
    rounding,
    special,
    trigonometric,
)
from anyrt.prims.scalar.table import Kind, ResultKind, ScalarFn

__all__ = ["SCALARS", "Kind", "ResultKind", "ScalarFn", "ulp_table"]

_FAMILIES = (arithmetic, compare, exponential, power, trigonometric, hyperbolic, rounding, special)
SCALARS: dict[str, ScalarFn] = {f.name: f for family in _FAMILIES for f in family.FUNCTIONS}


def ulp_table() -> str:
    """The error bounds of the float32 expansions as a Markdown table."""
    rows = [_row(f) for f in SCALARS.values() if Kind.FLOAT in f.kinds and f.result is ResultKind.SAME]
    return "\n".join(["| function | ulp | operands | note |", "|---|---|---|---|", *rows]) + "\n"


def _row(f: ScalarFn) -> str:
    operands = "all" if math.isinf(f.domain[1]) else f"{f.domain[0]:.0f} … {f.domain[1]:.0f}"
    note = f.note.replace("|", r"\|")
    return f"| {f.name} | {f.ulp:g} | {operands} | {note} |"
