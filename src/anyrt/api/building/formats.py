"""Formats of inputs and outputs: selects one of the allowed formats, and reports it in queries.

>>> strides(TensorFormat.CHW4, DataType.INT8, (2, 6, 5, 7))
(70, 35, 7, 1)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from anyrt.core.dims import Dim, floordiv, mul
from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType, TensorFormat
from anyrt.core.errors import GraphError
from anyrt.core.formats import LAYOUTS, Shape, misfit, order, padded, vector_axis, vector_length

if TYPE_CHECKING:
    from anyrt.api.model.view import NetworkView, TensorView
    from anyrt.ir.graph import Type

_NAMES: Final = {
    DataType.FLOAT: "FP32",
    DataType.HALF: "FP16",
    DataType.BF16: "BFloat16",
    DataType.INT8: "Int8",
    DataType.UINT8: "UInt8",
    DataType.INT64: "Int64",
    DataType.INT32: "INT32",
    DataType.INT4: "Int4",
    DataType.BOOL: "Bool",
}
_WIDE: Final = {2: "Two", 4: "Four", 16: "Sixteen", 32: "Thirty-two"}


def chosen(view: NetworkView, tensor: TensorView, of: Type) -> TensorFormat:
    """LINEAR if it is allowed, otherwise the first allowed format that supports the tensor; AR415 if none."""
    allowed = [f for f in TensorFormat if tensor.formats >> int(f) & 1]
    if TensorFormat.LINEAR in allowed:
        return TensorFormat.LINEAR
    got, do = " or ".join(f.name for f in allowed), "allow 1 << int(TensorFormat.LINEAR)"
    for reason in _reasons(view, tensor):
        raise GraphError("AR415", tensor.name, got, f"LINEAR, since {reason}", do)
    misfits = {f: misfit(f, of.dtype, of.shape) for f in allowed}
    for format, why in misfits.items():
        if not why:
            return format
    kind = f"{got} for {short_name(of.dtype)} of {of.rank} dimensions"
    raise GraphError("AR415", tensor.name, kind, "; ".join(f"{f.name}: {w}" for f, w in misfits.items()), do)


def _reasons(view: NetworkView, tensor: TensorView) -> Iterator[str]:
    """Why a tensor must be row-major, regardless of the allowed formats."""
    if tensor.it.is_shape_tensor:
        yield "it is a shape tensor"
    if tensor in view.debug:
        yield "it is a debug tensor"
    if tensor in view.updated:
        yield "it is updated in place"


def strides(format: TensorFormat, dtype: DataType, shape: Shape) -> Shape:
    """The stride of each dimension in vectors; that of the channels is the distance between two vectors."""
    counts = list(padded(format, dtype, shape))
    axis = vector_axis(format, shape)
    if axis >= 0:
        counts[axis] = floordiv(counts[axis], vector_length(format, shape))
    step: Dim = 1
    steps = dict[int, Dim]()
    for k in reversed(order(format, len(shape))):
        steps[k] = step
        step = mul(step, counts[k])
    return tuple(steps[k] for k in range(len(shape)))


def describe(format: TensorFormat, dtype: DataType) -> str:
    """The description of a format of elements of a type, in TensorRT's words.

    >>> describe(TensorFormat.CHW4, DataType.INT8)
    'Four wide channel vectorized row major Int8 format'
    """
    layout, kind = LAYOUTS[format], _NAMES.get(dtype, dtype.name)
    space = " with 3 spatial dimensions" if layout.channel == 4 else ""
    if layout.image:
        return f"DLA image {kind} format"
    if layout.line:
        return f"DLA planar {kind} format"
    if layout.vector == 1:
        return f"{'Channel major' if layout.innermost else 'Row major linear'} {kind} format{space}"
    if layout.innermost:
        return f"Channel major {kind} format where channel % {layout.vector} == 0{space}"
    return f"{_WIDE[layout.vector]} wide channel vectorized row major {kind} format{space}"
