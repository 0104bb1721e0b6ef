"""Select: chooses elements of two tensors by a condition.

add_select(condition, then_input, else_input)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.enums import DataType, LayerType
from anyrt.ir.graph import Value
from anyrt.ops._check import check_same_rank
from anyrt.ops._record import Array, Attrs, Case, Input, Layer, Method, Mistake, Op
from anyrt.ops._types import STORAGE
from anyrt.prims.build import map_

BOOLS = frozenset({DataType.BOOL})


@dataclass(frozen=True, slots=True)
class SelectAttrs(Attrs):
    """Select has no attributes."""


def expand(layer: Layer[SelectAttrs]) -> tuple[Value, ...]:
    """One `Map` with three operands."""
    values = (layer.input(0), layer.input(1), layer.input(2))
    check_same_rank(layer.name, values)
    return (map_("select", *values),)


def ref(attrs: SelectAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """np.where."""
    return (np.where(*arrays),)


def cases() -> tuple[Case[SelectAttrs], ...]:
    """Every type; each operand broadcast."""
    a = SelectAttrs()
    kinds = [(DataType.BOOL, t, t) for t in sorted(STORAGE, key=int)]
    out = [Case(a, ((3, 17), (3, 17), (3, 17)), types) for types in kinds]
    shapes = [
        ((1, 5), (3, 1), (3, 5)),
        ((3, 5), (1, 1), (1, 5)),
        ((), (), ()),
        ((2, 0), (2, 1), (1, 1)),
        ((1, 2, 1, 2, 1, 3, 1, 2), (1,) * 8, (1, 2, 1, 1, 1, 3, 1, 2)),
    ]
    return (*out, *(Case(a, s, kinds[0]) for s in shapes))


def mistakes() -> tuple[Mistake[SelectAttrs], ...]:
    """Wrong ranks, sizes and types."""
    a, f, b = SelectAttrs(), DataType.FLOAT, DataType.BOOL
    return (
        Mistake("AR202", "a condition that is not bool", a, ((3,),) * 3, (f, f, f)),
        Mistake("AR203", "two inputs of different types", a, ((3,),) * 3, (b, f, DataType.HALF)),
        Mistake("AR122", "operands of different ranks", a, ((3,), (1, 3), (3,)), (b, f, f)),
        Mistake("AR112", "different sizes that are not 1", a, ((3,), (4,), (3,)), (b, f, f)),
        Mistake("AR112", "different sizes at run time", a, ((3,), (4,), (3,)), (b, f, f), dynamic=True),
    )


OPS = (
    Op(
        layer=LayerType.SELECT,
        cls="ISelectLayer",
        methods=(
            Method(
                "add_select",
                ("condition", "then_input", "else_input"),
                example="layer = network.add_select(condition, a, b)",
            ),
        ),
        inputs=(
            Input("condition", BOOLS),
            Input("then_input", STORAGE),
            Input("else_input", STORAGE, same_as=1),
        ),
        attrs=SelectAttrs,
        expand=expand,
        ref=ref,
        doc="Returns then_input where the condition is True and else_input elsewhere, with broadcasting. "
        "Types of at most 8 bits are an extension.",
        cases=cases,
        mistakes=mistakes,
        onnx=("Where",),
        source="operator page Select",
    ),
)
