"""Squeeze and Unsqueeze: remove and insert axes of size 1.

add_squeeze(x, axes)          # x: (3, 1, 4, 1), axes a constant [1, -1] → (3, 4)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.enums import DataType, LayerType
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Value
from anyrt.ops._check import Requirements, checked, constants, need, normalized_axes, show
from anyrt.ops._record import Array, Attrs, Case, Input, Layer, Method, Mistake, Op
from anyrt.ops._types import INTS, STORAGE
from anyrt.prims.build import identity, squeeze, unsqueeze

AXES = "input 1 (axes)"


@dataclass(frozen=True, slots=True)
class SqueezeAttrs(Attrs):
    """Squeeze and Unsqueeze have no attributes."""


def expand_squeeze(layer: Layer[SqueezeAttrs]) -> tuple[Value, ...]:
    """A reshape."""
    x = layer.input(0)
    axes = normalized_axes(layer.name, constants(layer.name, layer.input(1), AXES), x.type.rank)
    rules: Requirements = ()
    for axis in axes:
        got = f"axis {axis} of {show(x.shape)}"
        do = "squeeze only axes of size 1"
        rules += need(layer.name, x.shape[axis], Relation.EQ, 1, "AR116", got, "size 1", do)
    return (checked(squeeze(x, axes) if axes else identity(x), rules),)


def expand_unsqueeze(layer: Layer[SqueezeAttrs]) -> tuple[Value, ...]:
    """A reshape."""
    x = layer.input(0)
    elements = constants(layer.name, layer.input(1), AXES)
    axes = normalized_axes(layer.name, elements, x.type.rank + len(elements))
    return (unsqueeze(x, axes) if axes else identity(x),)


def ref_squeeze(attrs: SqueezeAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """np.squeeze."""
    return (np.squeeze(arrays[0], tuple(arrays[1].tolist())),)


def ref_unsqueeze(attrs: SqueezeAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """np.expand_dims."""
    return (np.expand_dims(arrays[0], tuple(arrays[1].tolist())),)


def _case(shape: tuple[int, ...], axes: tuple[int, ...], dtype: DataType = DataType.FLOAT,
          index: DataType = DataType.INT64) -> Case[SqueezeAttrs]:  # fmt: skip
    return Case(SqueezeAttrs(), (shape, (len(axes),)), (dtype, index), (None, np.array(axes, np.int64)))


def cases_squeeze() -> tuple[Case[SqueezeAttrs], ...]:
    """Every type, negative axes, no axes and all axes."""
    return (
        *(_case((3, 1, 5), (1,), t) for t in sorted(STORAGE, key=int)),
        _case((3, 1, 4, 1), (1, -1), index=DataType.INT32),
        _case((1, 1), (0, 1)),
        _case((1, 0, 1), (-1, 0)),
        _case((2, 3), ()),
        _case((1, 2, 1, 2, 1, 3, 1, 2), (0, 2, 4, 6)),
    )


def cases_unsqueeze() -> tuple[Case[SqueezeAttrs], ...]:
    """Every type, negative axes, outputs of rank 1 to 8."""
    return (
        *(_case((3, 5), (1,), t) for t in sorted(STORAGE, key=int)),
        _case((3, 4), (0, -1), index=DataType.INT32),
        _case((), (0,)),
        _case((0,), (0, 2)),
        _case((2, 3), ()),
        _case((2, 3, 2, 2), (0, 2, 5, 7)),
    )


def _bad(
    code: str, why: str, shape: tuple[int, ...], axes: tuple[int, ...], dynamic: bool = False
) -> Mistake[SqueezeAttrs]:
    case = _case(shape, axes)
    return Mistake(code, why, case.attrs, case.shapes, case.dtypes, case.data, dynamic)


def mistakes_squeeze() -> tuple[Mistake[SqueezeAttrs], ...]:
    """Axes out of range, repeated, or not of size 1."""
    return (
        _bad("AR305", "a repeated axis", (3, 1), (1, -1)),
        _bad("AR303", "an axis outside the rank", (3, 1), (2,)),
        _bad("AR116", "an axis whose size is not 1", (3, 1), (0,)),
        _bad("AR116", "an axis whose size is not 1 at run time", (3, 1), (0,), dynamic=True),
        Mistake(
            "AR123",
            "axes that are not a vector",
            SqueezeAttrs(),
            ((3, 1), (1, 1)),
            (DataType.FLOAT, DataType.INT64),
        ),
    )


def mistakes_unsqueeze() -> tuple[Mistake[SqueezeAttrs], ...]:
    """Axes out of range, repeated, or too many."""
    return (
        _bad("AR305", "a repeated axis", (3,), (1, -2)),
        _bad("AR303", "an axis outside the rank of the output", (3,), (2,)),
        _bad("AR115", "an output of more than 8 dimensions", (1, 1, 1, 1, 1, 1, 1), (0, 1)),
    )


INPUTS = (Input("input", STORAGE), Input("axes", INTS, shape_values=True, build_time=True))
OPS = (
    Op(
        layer=LayerType.SQUEEZE,
        cls="ISqueezeLayer",
        methods=(
            Method(
                "add_squeeze",
                ("input", "axes"),
                example="axes = network.add_constant((1,), np.array([0], np.int32)).get_output(0)\n"
                "layer = network.add_squeeze(x, axes)",
            ),
        ),
        inputs=INPUTS,
        attrs=SqueezeAttrs,
        expand=expand_squeeze,
        ref=ref_squeeze,
        doc="Removes axes of size 1, listed in a constant vector. Negative axes count from the end of the "
        "input's axes.",
        cases=cases_squeeze,
        mistakes=mistakes_squeeze,
        onnx=("Squeeze",),
        source="operator page Squeeze",
    ),
    Op(
        layer=LayerType.UNSQUEEZE,
        cls="IUnsqueezeLayer",
        methods=(
            Method(
                "add_unsqueeze",
                ("input", "axes"),
                example="axes = network.add_constant((1,), np.array([0], np.int32)).get_output(0)\n"
                "layer = network.add_unsqueeze(x, axes)",
            ),
        ),
        inputs=INPUTS,
        attrs=SqueezeAttrs,
        expand=expand_unsqueeze,
        ref=ref_unsqueeze,
        doc="Inserts axes of size 1 at positions in the output, listed in a constant vector. Negative "
        "positions count from the end.",
        cases=cases_unsqueeze,
        mistakes=mistakes_unsqueeze,
        onnx=("Unsqueeze",),
        source="operator page Unsqueeze",
    ),
)
