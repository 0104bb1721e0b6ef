"""Identity: a copy.

add_identity(x)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.enums import DataType, LayerType
from anyrt.ir.graph import Value
from anyrt.ops._record import Array, Attrs, Case, Input, Layer, Method, Mistake, Op
from anyrt.ops._types import STORAGE
from anyrt.prims.build import identity


@dataclass(frozen=True, slots=True)
class IdentityAttrs(Attrs):
    """Identity has no attributes."""


def expand(layer: Layer[IdentityAttrs]) -> tuple[Value, ...]:
    """The input, with a name of its own."""
    return (identity(layer.input(0)),)


def ref(attrs: IdentityAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The unchanged array."""
    return (arrays[0],)


def cases() -> tuple[Case[IdentityAttrs], ...]:
    """Every type, ranks 0 to 8, no elements; different scales of input and output."""
    a = IdentityAttrs()
    shapes = ((), (0, 3), (1, 2, 1, 2, 1, 3, 1, 2))
    return (
        *(Case(a, ((3, 17),), (t,)) for t in sorted(STORAGE, key=int)),
        *(Case(a, (s,)) for s in shapes),
        Case(a, ((31,),), (DataType.INT8,), low=-128, high=128, int8=((0.5,), 0.2)),
        *(
            Case(a, ((256,),), (DataType.INT8,), (np.arange(-128, 128),), int8=scales, rtol=0.0, atol=0.0)
            for scales in (((0.1,), 0.2), ((0.3,), 0.1), ((1.7 / 127,), 3.4 / 127))
        ),
    )


def mistakes() -> tuple[Mistake[IdentityAttrs], ...]:
    """Types."""
    why = "a type that Identity does not support"
    return (Mistake("AR202", why, IdentityAttrs(), ((3,),), (DataType.E8M0,)),)


OPS = (
    Op(
        layer=LayerType.IDENTITY,
        cls="IIdentityLayer",
        methods=(Method("add_identity", ("input",), example="layer = network.add_identity(x)"),),
        inputs=(Input("input", STORAGE),),
        attrs=IdentityAttrs,
        expand=expand,
        ref=ref,
        doc="Copies the input. In weakly typed networks, `set_output_type` makes it a conversion, with the "
        "rules of Cast.",
        cases=cases,
        mistakes=mistakes,
        onnx=("Identity", "Dropout"),
        source="operator page Identity; int64 and fp4 are extensions",
    ),
)
