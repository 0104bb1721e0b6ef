"""NonZero: the indices of nonzero elements; their number is a data-dependent dimension.

add_non_zero(x)                     # (rank, count), int32
add_non_zero(x, DataType.INT64)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import DTypeError
from anyrt.ir.graph import Value
from anyrt.ops._positions import positions
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS, INTS

TYPES = FLOATS | INTS | {DataType.INT8, DataType.UINT8, DataType.BOOL}


@dataclass(frozen=True, slots=True)
class NonZeroAttrs(Attrs):
    """Attributes of NonZero."""

    indices_type: DataType = attr(
        Kind.ENUM, "element type of the indices, int32 or int64", DataType.INT32, enum=DataType
    )


def expand(layer: Layer[NonZeroAttrs]) -> tuple[Value, ...]:
    """A `NonZero` primitive; the number of nonzero elements is counted block by block."""
    x, dtype = layer.input(0), layer.attrs.indices_type
    if dtype not in INTS:
        got, do = f"indices of {dtype.name}", "set indices_type to one of these"
        raise DTypeError("AR202", layer.name, got, "INT32 or INT64", do)
    return positions(f"{layer.name}#count", x, dtype)[:1]


def ref(attrs: NonZeroAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The indices of nonzero elements in row-major order; NaN counts as nonzero."""
    (x,) = arrays
    places = [at for at in np.ndindex(x.shape) if x[at] != 0]
    dtype = np.int64 if attrs.indices_type is DataType.INT64 else np.int32
    return (np.array(places, dtype).reshape(len(places), x.ndim).T,)


def _some(shape: tuple[int, ...], every: int) -> Array:
    """An array with a few nonzero numbers at irregular distances."""
    at = np.arange(int(np.prod(shape))).reshape(shape)
    return np.where(at * at % 7 * (at % every == 0), at % 5 - 2, 0)


def _case(
    data: Array, dtype: DataType = DataType.FLOAT, indices: DataType = DataType.INT32
) -> Case[NonZeroAttrs]:
    return Case(NonZeroAttrs(indices), (data.shape,), (dtype,), (data,))


def cases() -> tuple[Case[NonZeroAttrs], ...]:
    """Every type and rank; no nonzero element, and only nonzero ones; more than one block."""
    special = np.array([[np.nan, 0.0, -0.0, np.inf], [-np.inf, 1e-40, 0.0, -1.0]])
    return (
        *(_case(_some((5, 13), 2), t) for t in sorted(TYPES - {DataType.UINT8}, key=int)),
        _case(np.abs(_some((5, 13), 2)), DataType.UINT8),
        *(_case(_some((5, 13), 2), indices=i) for i in sorted(INTS, key=int)),
        *(_case(_some(s, 1)) for s in ((7,), (2, 3, 4), (2, 1, 3, 2, 1, 2), (3, 1000), (4097,), (2, 3, 700))),
        *(_case(np.full(s, x)) for x in (0, 1) for s in ((3, 5), (4100,))),
        *(_case(np.array(x)) for x in (0, 2)),
        *(_case(np.zeros(s)) for s in ((0,), (3, 0), (0, 4))),
        _case(special),
    )


def mistakes() -> tuple[Mistake[NonZeroAttrs], ...]:
    """Unsupported element types."""
    a = NonZeroAttrs()
    floats = NonZeroAttrs(DataType.FLOAT)
    return (
        Mistake("AR202", "an unsupported element type", a, ((3,),), (DataType.FP8,)),
        Mistake("AR202", "a type of the indices other than int32 and int64", floats, ((3,),)),
    )


OPS = (
    Op(
        layer=LayerType.NON_ZERO,
        cls="INonZeroLayer",
        methods=(
            Method(
                "add_non_zero",
                ("input", "indices_type"),
                defaults=(("indices_type", DataType.INT32),),
                example="layer = network.add_non_zero(x, trt.int64)",
            ),
        ),
        inputs=(Input("input", TYPES),),
        attrs=NonZeroAttrs,
        expand=expand,
        ref=ref,
        doc="Returns the indices of nonzero elements in row-major order. The output has one row for each "
        "dimension of the input and one column for each nonzero element. The number of columns is a "
        "data-dependent dimension: it is known after the inference (`get_tensor_shape`, "
        "`IOutputAllocator.notify_shape`). Allocate memory for all elements of the input "
        "(`get_max_output_size`). NaN counts as nonzero. For an input of rank 0 the output has no rows.",
        cases=cases,
        mistakes=mistakes,
        onnx=("NonZero",),
        source="operator page NonZero; indices_type from 10.14",
    ),
)
