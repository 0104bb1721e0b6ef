"""ParametricReLU: multiplies negative elements by a tensor of slopes.

add_parametric_relu(x, slopes)        # x: (N, C, H, W), slopes: (1, C, 1, 1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.enums import DataType, LayerType
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Value
from anyrt.ops._check import Requirements, check_same_rank, checked, is_constant, need, show
from anyrt.ops._record import Array, Attrs, Case, Input, Layer, Method, Mistake, Op
from anyrt.ops._types import REALS
from anyrt.prims.build import map_, scalar

TYPES = REALS | {DataType.INT8}


@dataclass(frozen=True, slots=True)
class ParametricReLUAttrs(Attrs):
    """ParametricReLU has no attributes."""


def expand(layer: Layer[ParametricReLUAttrs]) -> tuple[Value, ...]:
    """A product, and a `select` by comparison with 0; NaN and both zeros stay unchanged."""
    x, slopes = layer.input(0), layer.input(1)
    check_same_rank(layer.name, (x, slopes))
    y = map_("select", map_("lt", x, scalar(0.0, x)), map_("mul", x, slopes), x)
    rules: Requirements = ()
    for own, common in zip(x.shape, y.shape, strict=True):  # only the slopes broadcast
        got, do = f"slopes {show(slopes.shape)} for input {show(x.shape)}", "reshape the slopes"
        wanted = "1 or the input's size in each dimension"
        rules += need(layer.name, common, Relation.EQ, own, "AR112", got, wanted, do)
    return (checked(y, rules),)


def ref(attrs: ParametricReLUAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """`np.where` with broadcast slopes."""
    x, slopes = (a.astype(np.float64) for a in arrays)
    with np.errstate(all="ignore"):
        return (np.where(x < 0, x * np.broadcast_to(slopes, x.shape), x),)


def dla(layer: Layer[ParametricReLUAttrs]) -> str | None:
    """None for constant slopes, which DLA requires."""
    fits = is_constant(layer.input(1))
    return None if fits else "DLA runs a parametric ReLU with constant slopes"


def cases() -> tuple[Case[ParametricReLUAttrs], ...]:
    """Every type; slopes for each element, channel, row or all; infinities, NaN and zeros."""
    a, nchw = ParametricReLUAttrs(), (2, 3, 2, 5)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1e-40, -2.0, -np.inf])
    slopes = np.array([-1.0, -1.0, -2.0, -2.0, 1.0, 0.5, 0.0, 0.0])
    return (
        Case(a, (nchw, (1, 3, 1, 1))),
        *(Case(a, ((3, 17), (3, 17)), (t,)) for t in sorted(REALS, key=int)),
        Case(a, ((3, 17), (1, 17)), (DataType.INT8,), low=-120, high=120, int8=((0.05, 0.01), 0.02)),
        Case(a, ((3, 17), (3, 1)), (DataType.INT8,), low=-9, high=9),
        *(Case(a, (nchw, s)) for s in ((1, 1, 1, 1), (2, 1, 1, 5))),
        Case(a, ((), ())),
        Case(a, ((2, 0, 3), (1, 1, 3))),
        Case(a, ((1, 2, 1, 2, 1, 3, 1, 2), (1,) * 8)),
        Case(a, ((8,), (8,)), data=(special, slopes)),
    )


def mistakes() -> tuple[Mistake[ParametricReLUAttrs], ...]:
    """Wrong ranks, sizes and types."""
    a, mixed = ParametricReLUAttrs(), (DataType.FLOAT, DataType.HALF)
    wide = ((2, 1), (2, 3))
    return (
        Mistake("AR122", "slopes of a different rank than the input", a, ((2, 3), (3,))),
        Mistake("AR112", "slopes that do not broadcast to the input", a, ((2, 3), (2, 2))),
        Mistake("AR112", "slopes that are larger than the input", a, wide),
        Mistake("AR112", "slopes that do not broadcast, at run time", a, ((2, 3), (2, 2)), dynamic=True),
        Mistake("AR112", "slopes that are larger than the input at run time", a, wide, dynamic=True),
        Mistake("AR202", "an unsupported element type", a, ((3,), (3,)), (DataType.INT32,)),
        Mistake("AR203", "slopes of a different type than the input", a, ((3,), (3,)), mixed),
    )


OPS = (
    Op(
        layer=LayerType.PARAMETRIC_RELU,
        cls="IParametricReLULayer",
        methods=(
            Method(
                "add_parametric_relu",
                ("input", "slopes"),
                example="layer = network.add_parametric_relu(x, slopes)  # of shape (1, C, 1, 1)",
            ),
        ),
        inputs=(Input("input", TYPES), Input("slopes", TYPES, same_as=0)),
        attrs=ParametricReLUAttrs,
        expand=expand,
        ref=ref,
        doc="Computes x · slope where x < 0, and x elsewhere. The slopes broadcast to the input: each of "
        "their dimensions is 1 or that of the input.",
        cases=cases,
        mistakes=mistakes,
        dla=dla,
        onnx=("PRelu",),
        real_int8=lambda attrs: True,
        source="operator page ParametricReLU",
    ),
)
