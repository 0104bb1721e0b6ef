"""Shape: the dimensions of a tensor, as a tensor.

add_shape(x)      # x: (n, 3, 224, 224) → int64 [n, 3, 224, 224]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.enums import LayerType
from anyrt.ir.graph import Value
from anyrt.ops._record import Array, Attrs, Case, Input, Layer, Method, Op
from anyrt.ops._types import EVERY
from anyrt.prims.build import shape_of


@dataclass(frozen=True, slots=True)
class ShapeAttrs(Attrs):
    """Shape has no attributes."""


def expand(layer: Layer[ShapeAttrs]) -> tuple[Value, ...]:
    """The dimensions; the elements of the tensor are not read."""
    return (shape_of(layer.input(0)),)


def ref(attrs: ShapeAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """NumPy's shape."""
    return (np.array(arrays[0].shape, np.int64),)


def cases() -> tuple[Case[ShapeAttrs], ...]:
    """Every type, ranks 0 to 8, empty tensors."""
    shapes = ((), (7,), (2, 0, 5), (1, 2, 1, 2, 1, 3, 1, 2))
    types = [Case(ShapeAttrs(), ((3, 5),), (t,)) for t in sorted(EVERY, key=int)]
    return (*types, *(Case(ShapeAttrs(), (s,)) for s in shapes))


OPS = (
    Op(
        layer=LayerType.SHAPE,
        cls="IShapeLayer",
        methods=(Method("add_shape", ("input",), example="layer = network.add_shape(x)"),),
        inputs=(Input("input", EVERY),),
        attrs=ShapeAttrs,
        expand=expand,
        ref=ref,
        doc="Returns the dimensions of a tensor of any type as an int64 vector, which is empty for rank 0.",
        cases=cases,
        onnx=("Shape",),
        source="operator page Shape; int64 since 10.0",
    ),
)
