"""Constant: weights as a tensor.

add_constant((2, 3), np.float32([1, 2, 3, 4, 5, 6]))
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ShapeError
from anyrt.ir.graph import Value, apply
from anyrt.ops._check import check_dtype, show
from anyrt.ops._record import Array, Attrs, Case, Kind, Layer, Method, Mistake, Op, attr, weights
from anyrt.ops._types import STORAGE
from anyrt.prims.const import Blob, Const

TYPES = STORAGE


@dataclass(frozen=True, slots=True)
class ConstantAttrs(Attrs):
    """Attributes of Constant."""

    shape: tuple[int, ...] = attr(Kind.DIMS, "the shape of the tensor")
    weights: Blob = attr(Kind.WEIGHTS, "its elements, in row-major order")


def expand(layer: Layer[ConstantAttrs]) -> tuple[Value, ...]:
    """One `Const`."""
    shape, blob = layer.attrs.shape, layer.attrs.weights
    check_dtype(layer.name, blob.dtype, TYPES, "weights")
    if any(d < 0 for d in shape):
        raise ShapeError("AR120", layer.name, f"shape {show(shape)}", "sizes of 0 or more", "give every size")
    if prod(shape) != blob.size:
        got, wanted = f"{blob.size} weights", f"{prod(shape)} for shape {show(shape)}"
        raise ShapeError("AR103", layer.name, got, wanted, "change the shape or the weights")
    return (apply(Const(blob, shape)),)


def ref(attrs: ConstantAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The weights."""
    return (attrs.weights.array.reshape(attrs.shape),)


def cases() -> tuple[Case[ConstantAttrs], ...]:
    """Every type, ranks 0 to 8, no elements."""
    six = (1.0, 0.0, 1.5, 2.0, 3.0, 6.0)
    out = [Case(ConstantAttrs((2, 3), weights(*six, dtype=t)), ()) for t in sorted(TYPES, key=int)]
    return (
        *out,
        Case(ConstantAttrs((), weights(7.0)), ()),
        Case(ConstantAttrs((0, 3), weights()), ()),
        Case(ConstantAttrs((1, 2, 1, 1, 1, 3, 1, 1), weights(*six)), ()),
        Case(ConstantAttrs((3,), weights(1, 7, 3, dtype=DataType.INT4)), ()),
    )


def mistakes() -> tuple[Mistake[ConstantAttrs], ...]:
    """Counts, types, ranks and signs."""
    return (
        Mistake("AR103", "a count that differs from the volume", ConstantAttrs((2, 2), weights(1, 2, 3)), ()),
        Mistake("AR202", "e8m0 weights", ConstantAttrs((1,), weights(1, dtype=DataType.E8M0)), ()),
        Mistake("AR120", "a negative size", ConstantAttrs((-1, 2), weights(1, 2)), ()),
        Mistake("AR115", "more than 8 dimensions", ConstantAttrs((1,) * 9, weights(1)), ()),
    )


OPS = (
    Op(
        layer=LayerType.CONSTANT,
        cls="IConstantLayer",
        methods=(
            Method(
                "add_constant",
                ("shape", "weights"),
                example="layer = network.add_constant((2, 3), np.arange(6, dtype=np.float32))",
            ),
        ),
        inputs=(),
        attrs=ConstantAttrs,
        expand=expand,
        ref=ref,
        doc="Makes a tensor of weights, of any type except e8m0. 4-bit types are packed: the low 4 bits of a "
        "byte hold the first of two elements. uint8 is an extension.",
        cases=cases,
        mistakes=mistakes,
        dla=lambda layer: "DLA takes constants only as the slopes of a parametric ReLU",
        onnx=("Constant",),
        source="operator page Constant; fp4 and uint8 are extensions",
    ),
)
