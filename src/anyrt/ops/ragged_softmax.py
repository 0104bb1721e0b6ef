"""RaggedSoftMax: softmax of rows of different lengths, left-aligned in one tensor.

add_ragged_softmax(x, bounds)    # x: (4, 10); bounds: (4, 1), the length of each row
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ShapeError
from anyrt.ir.graph import Value
from anyrt.ops._math import softmax
from anyrt.ops._record import Array, Attrs, Case, Input, Layer, Method, Mistake, Op
from anyrt.prims.build import iota, map_, scalar

ROWS = {2: "rows", 3: "batch rows"}  # names of the axes before the columns, by the rank of the input


@dataclass(frozen=True, slots=True)
class RaggedSoftMaxAttrs(Attrs):
    """RaggedSoftMax has no attributes."""


def expand(layer: Layer[RaggedSoftMaxAttrs]) -> tuple[Value, ...]:
    """Softmax with -inf in place of the elements beyond the bound, whose result is replaced by 0."""
    x, bounds = layer.input(0), layer.input(1)
    if x.type.rank not in ROWS:
        do = "reshape to (rows, columns) or (batch, rows, columns)"
        code = "AR101" if x.type.rank < min(ROWS) else "AR124"
        raise ShapeError(code, layer.name, f"rank {x.type.rank}", "rank 2 or 3", do)
    axis = x.type.rank - 1
    columns = iota((*(1 for _ in x.shape[:-1]), x.shape[-1]), axis, DataType.INT32)
    inside = map_("lt", columns, bounds)
    rows = map_("select", inside, x, scalar(-np.inf, x))
    return (map_("select", inside, softmax(rows, axis), scalar(0.0, x)),)


def _axes(last: str, layer: Layer[RaggedSoftMaxAttrs]) -> str | None:
    """The axes of an operand whose last axis is `last`; None for an unsupported rank."""
    rows = ROWS.get(layer.input(0).type.rank)
    return rows and f"{rows} {last}"


def ref(attrs: RaggedSoftMaxAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The formula for each row, truncated at its bound."""
    x, bounds = arrays[0].astype(np.float64), arrays[1]
    y = np.zeros_like(x)
    with np.errstate(all="ignore"):
        for at in np.ndindex(x.shape[:-1]):
            row = x[at][: max(int(bounds[at].item()), 0)]
            if row.size:
                powers = np.exp(row - np.max(row))
                y[at][: row.size] = powers / np.sum(powers)
    return (y,)


def cases() -> tuple[Case[RaggedSoftMaxAttrs], ...]:
    """Both ranks, bounds from below 0 to beyond the row, rows of -inf, empty tensors."""
    a, types = RaggedSoftMaxAttrs(), (DataType.FLOAT, DataType.INT32)
    bounds = np.array([-1, 0, 1, 5, 17, 99])
    special = np.array([[-np.inf, -np.inf, 7.0], [1.0, np.nan, np.inf], [np.inf, 1.0, 0.0]])
    return (
        Case(a, ((6, 17), (6, 1)), types, (None, bounds), rtol=4e-6),
        Case(a, ((2, 3, 17), (2, 3, 1)), types, (None, bounds), rtol=4e-6),
        Case(a, ((3, 3), (3, 1)), types, (special, np.array([2, 1, 2]))),
        Case(a, ((3, 0), (3, 1)), types),
        Case(a, ((0, 3), (0, 1)), types),
    )


def mistakes() -> tuple[Mistake[RaggedSoftMaxAttrs], ...]:
    """Wrong ranks, sizes and types."""
    a, types, good = RaggedSoftMaxAttrs(), (DataType.FLOAT, DataType.INT32), ((3, 5), (3, 1))
    return (
        Mistake("AR101", "an input of fewer than 2 dimensions", a, ((5,), (1,)), types),
        Mistake("AR124", "an input of more than 3 dimensions", a, ((2, 2, 3, 5), (2, 2, 3, 1)), types),
        Mistake("AR123", "bounds of a wrong rank", a, ((3, 5), (3,)), types),
        Mistake("AR123", "a wrong number of bounds", a, ((3, 5), (4, 1)), types),
        Mistake("AR123", "more than one bound per row", a, ((3, 5), (3, 5)), types),
        Mistake("AR202", "an input that is not float32", a, good, (DataType.HALF, DataType.INT32)),
        Mistake("AR202", "bounds that are not int32", a, good, (DataType.FLOAT, DataType.INT64)),
        Mistake("AR123", "a wrong number of bounds at run time", a, ((3, 5), (4, 1)), types, dynamic=True),
    )


OPS = (
    Op(
        layer=LayerType.RAGGED_SOFTMAX,
        cls="IRaggedSoftMaxLayer",
        methods=(
            Method(
                "add_ragged_softmax",
                ("input", "bounds"),
                example="layer = network.add_ragged_softmax(rows, bounds)",
            ),
        ),
        inputs=(
            Input("input", frozenset({DataType.FLOAT}), axes=partial(_axes, "columns")),
            Input("bounds", frozenset({DataType.INT32}), axes=partial(_axes, "1")),
        ),
        attrs=RaggedSoftMaxAttrs,
        expand=expand,
        ref=ref,
        doc="Computes the softmax of the first elements of each row, up to its bound; the others are 0. The "
        "input is (rows, columns) or (batch, rows, columns); the bounds have one column. A negative bound is "
        "treated as 0, and a bound greater than the number of columns as that number.",
        cases=cases,
        mistakes=mistakes,
        source="operator page RaggedSoftMax",
    ),
)
