"""SoftMax: exponentials divided by their sum along one axis.

layer = add_softmax(x)
layer.axes = 1 << 1
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.ir.graph import Value
from anyrt.ops._check import axes_of
from anyrt.ops._math import in_float, softmax
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import REALS

DLA_ALONE, DLA_AXIS = 8192, 1024


def default_axes(rank: int) -> int:
    """The bit of the third axis from the end: the channels of an image."""
    return 1 << max(rank - 3, 0)


@dataclass(frozen=True, slots=True)
class SoftMaxAttrs(Attrs):
    """Attributes of SoftMax."""

    axes: int | None = attr(Kind.AXES, "axis along which results add up to 1", None, from_rank=default_axes)


def expand(layer: Layer[SoftMaxAttrs]) -> tuple[Value, ...]:
    """exp(x - max) / sum in float32, for float64 in float64."""
    x = layer.input(0)
    axis = _axis(layer, x.type.rank)
    return (in_float(x, lambda y: softmax(y, axis)),)


def _axis(layer: Layer[SoftMaxAttrs], rank: int) -> int:
    if rank == 0:
        raise ShapeError("AR101", layer.name, "rank 0", "rank >= 1", "add a dimension of size 1")
    mask = default_axes(rank) if layer.attrs.axes is None else layer.attrs.axes
    axes = axes_of(layer.name, mask, rank)
    if len(axes) > 1:
        do = "merge these axes with a shuffle before, and split them after"
        raise ArgumentError("AR304", layer.name, f"{len(axes)} axes in {bin(mask)}", "one axis", do)
    return axes[0]


def ref(attrs: SoftMaxAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The formula, row by row."""
    x = arrays[0].astype(np.float64)
    axes = default_axes(x.ndim) if attrs.axes is None else attrs.axes
    rows = np.moveaxis(x, axes.bit_length() - 1, -1)
    y = np.empty_like(rows)
    with np.errstate(all="ignore"):
        for at in np.ndindex(rows.shape[:-1] if rows.size else (0,)):
            powers = np.exp(rows[at] - np.max(rows[at]))
            y[at] = powers / np.sum(powers)
    return (np.moveaxis(y, -1, axes.bit_length() - 1),)


def dla(layer: Layer[SoftMaxAttrs]) -> str | None:
    """None for channels, height or width of 4 dimensions: 8192 elements if all others are 1, else 1024."""
    x, mask = layer.input(0), layer.attrs.axes
    axis = (default_axes(x.type.rank) if mask is None else mask).bit_length() - 1
    if x.type.rank != 4 or axis == 0:
        return "DLA runs SoftMax along channels, height or width of 4 dimensions"
    alone = all(d == 1 for k, d in enumerate(x.shape) if k not in (0, axis))
    limit, size = DLA_ALONE if alone else DLA_AXIS, x.shape[axis]
    if isinstance(size, int) and size > limit:
        return f"DLA runs SoftMax along {DLA_ALONE} elements if all other sizes are 1, else {DLA_AXIS}"
    return None


def _case(shape: tuple[int, ...], axis: int | None = None, dtype: DataType = DataType.FLOAT, high: float = 4
) -> Case[SoftMaxAttrs]:  # fmt: skip
    attrs = SoftMaxAttrs(None if axis is None else 1 << axis)
    return Case(attrs, (shape,), (dtype,), low=-high, high=high, rtol=4e-6)


def cases() -> tuple[Case[SoftMaxAttrs], ...]:
    """Every axis, the default for each rank, types, rows of -inf and of large numbers, empty tensors."""
    inf = np.inf
    rows = np.array([[-inf, -inf, -inf], [-inf, 0.0, 1.0], [inf, 0.0, -inf], [np.nan, 0.0, 1.0]])
    return (
        _case((3, 17), 1),
        _case((3, 17), 0),
        _case((2, 5, 3, 18), 1),
        _case((2, 3, 33), 2, DataType.HALF, 8),
        _case((2, 3, 33), 1, DataType.BF16),
        replace(_case((2, 3, 33), 1, DataType.DOUBLE), rtol=1e-14, atol=0.0),
        _case((2, 1, 3, 2, 3)),
        _case((3, 4)),
        _case((1, 2, 1, 2, 1, 3, 1, 2), 5),
        _case((0, 3), 1),
        _case((3, 0), 1),
        Case(SoftMaxAttrs(2), ((4, 3),), data=(rows,)),
        Case(SoftMaxAttrs(2), ((4, 9),), data=(np.linspace(-1e30, 1e30, 36),)),
    )


def mistakes() -> tuple[Mistake[SoftMaxAttrs], ...]:
    """Wrong ranks, masks and types."""
    a = SoftMaxAttrs
    return (
        Mistake("AR101", "an input of rank 0", a(), ((),)),
        Mistake("AR302", "a mask of 0", a(0), ((3, 5),)),
        Mistake("AR302", "a mask with bits beyond the rank", a(4), ((3, 5),)),
        Mistake("AR304", "a mask of several axes", a(3), ((3, 5),)),
        Mistake("AR202", "an unsupported element type", a(), ((3, 5),), (DataType.INT32,)),
    )


OPS = (
    Op(
        layer=LayerType.SOFTMAX,
        cls="ISoftMaxLayer",
        methods=(
            Method(
                "add_softmax",
                ("input",),
                example="layer = network.add_softmax(x)\nlayer.axes = 1 << 3",
                label="Softmax",
            ),
        ),
        inputs=(Input("input", REALS),),
        attrs=SoftMaxAttrs,
        expand=expand,
        ref=ref,
        doc="Computes exp(x − m) divided by the sum of these along one axis, where m is the largest x. The "
        "arithmetic is in float32; results are rounded once. float64, which is computed in float64, is an "
        "extension. The default axis is the third from the end, or the first if the rank is below 3. If a "
        "row contains NaN or ∞, or only −∞, all its results are NaN.",
        cases=cases,
        mistakes=mistakes,
        dla=dla,
        onnx=("Softmax", "LogSoftmax"),
        source="operator page SoftMax",
    ),
)
