"""The semantics of int8 for an operator, from its record: codes to compute with, or codes to move."""

from __future__ import annotations

from anyrt.core.enums import DataType
from anyrt.ops._cases import AnyCase, case_graph, operands
from anyrt.ops._record import AnyOp

REAL = (
    "int8 stands for real numbers: an element q of a tensor means q · s, where s is the larger "
    "magnitude of its dynamic range divided by 127, or 1 without a range. These numbers are computed "
    "with in float32; a result is divided by the s of the output, rounded half to even and saturated "
    "to −128 … 127, and NaN gives −128."
)
MOVED = (
    "int8 elements are moved as they are, unless an input's dynamic range differs from the output's, "
    "which is that of the first int8 input where none was set: then they are multiplied by the "
    "quotient of both, rounded half to even and saturated to −128 … 127."
)


def int8_text(op: AnyOp) -> str:
    """A paragraph; empty for an operator that accepts no int8, has an output of another type, or has scales
    as operands."""
    if op.coded:
        return ""
    cases = [c for c in op.cases() if DataType.INT8 in c.dtypes]
    computed = any(op.real_int8(c.attrs) for c in cases)
    moved = [c for c in cases if not op.real_int8(c.attrs)]
    if computed and moved:
        return f"Where the layer computes, {REAL} Where it only chooses elements, {MOVED}"
    if computed:
        return REAL
    return MOVED if moved and all(_stays(op, c) for c in moved) else ""


def _stays(op: AnyOp, case: AnyCase) -> bool:
    outputs = case_graph(op, case, False, operands(op, case))[0].outputs
    return all(value.dtype is DataType.INT8 for _, value in outputs)
