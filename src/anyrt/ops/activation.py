"""Activation: fourteen elementwise functions, with up to two parameters, alpha and beta.

add_activation(x, ActivationType.LEAKY_RELU).alpha = 0.1
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anyrt.core.enums import ActivationType, DataType, LayerType
from anyrt.core.errors import ArgumentError
from anyrt.ir.graph import Value
from anyrt.ops._check import check_dtype
from anyrt.ops._math import in_float
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import INTS, REALS
from anyrt.prims.build import map_, scalar

Doubles = NDArray[np.float64]
T = ActivationType


@dataclass(frozen=True, slots=True)
class ActivationAttrs(Attrs):
    """Attributes of Activation."""

    type: ActivationType = attr(Kind.ENUM, "the function", enum=ActivationType)
    alpha: float | None = attr(
        Kind.FLOAT, "first parameter; unset: 1 for SOFTPLUS, 1.6733 for SELU, else 0", None,
        from_attr=("type", lambda t: usual(t)[0]),
    )  # fmt: skip
    beta: float | None = attr(
        Kind.FLOAT, "second parameter; unset: 1 for SOFTPLUS, 1.0507 for SELU, else 0", None,
        from_attr=("type", lambda t: usual(t)[1]),
    )  # fmt: skip


def usual(function: ActivationType) -> tuple[float, float]:
    """alpha and beta if they are not set. NVIDIA's ONNX parser sets neither for Softplus, nor does
    Torch-TensorRT for SELU; both expect the standard functions."""
    match function:
        case T.SOFTPLUS:
            return 1.0, 1.0
        case T.SELU:
            return 1.6732632423543772, 1.0507009873554805
        case _:
            return 0.0, 0.0


def parameters(attrs: ActivationAttrs) -> tuple[float, float]:
    """alpha and beta, or their defaults."""
    alpha, beta = usual(attrs.type)
    return alpha if attrs.alpha is None else attrs.alpha, beta if attrs.beta is None else attrs.beta


def expand(layer: Layer[ActivationAttrs]) -> tuple[Value, ...]:
    """The function, computed in float32, or in float64 for float64; RELU of integers is computed in integers.
    SIGMOID and TANH are primitives, which round once."""
    x, attrs = layer.input(0), layer.attrs
    alpha, beta = parameters(attrs)
    for name, number in (("alpha", alpha), ("beta", beta)):
        if not math.isfinite(number):
            raise ArgumentError("AR308", layer.name, f"{name} {number}", "a finite number", f"set {name}")
    if attrs.type is T.RELU:
        return (map_("max", x, scalar(0, x)),)
    check_dtype(layer.name, x.dtype, REALS, f"activation {attrs.type.name}")
    if attrs.type in PRIMITIVES:
        return (map_(PRIMITIVES[attrs.type], x),)
    function = FUNCTIONS[attrs.type]
    return (in_float(x, lambda y: function(y, alpha, beta)),)


def _times(x: Value, factor: float) -> Value:
    return x if factor == 1 else map_("mul", x, scalar(float(factor), x))


def _plus(x: Value, term: float) -> Value:
    return map_("add", x, scalar(float(term), x))


def _leaky_relu(x: Value, a: float, b: float) -> Value:
    return map_("select", map_("ge", x, scalar(0.0, x)), x, _times(x, a))


def _elu(x: Value, a: float, b: float) -> Value:
    return map_("select", map_("ge", x, scalar(0.0, x)), x, _times(map_("expm1", x), a))


def _selu(x: Value, a: float, b: float) -> Value:
    return map_("select", map_("gt", x, scalar(0.0, x)), _times(x, b), _times(map_("expm1", x), a * b))


def _softsign(x: Value, a: float, b: float) -> Value:
    return map_("div", x, _plus(map_("abs", x), 1.0))


def _softplus(x: Value, a: float, b: float) -> Value:
    """log(e^y + 1) = max(y, 0) + log1p(e^−|y|), which does not overflow."""
    y = _times(x, b)
    tail = map_("log1p", map_("exp", map_("neg", map_("abs", y))))
    return _times(map_("add", map_("max", y, scalar(0.0, y)), tail), a)


def _clip(x: Value, a: float, b: float) -> Value:
    """The maximum is outermost: the result is alpha if alpha > beta."""
    return map_("max", map_("min", x, scalar(float(b), x)), scalar(float(a), x))


def _hard_sigmoid(x: Value, a: float, b: float) -> Value:
    return _clip(_plus(_times(x, a), b), 0.0, 1.0)


def _thresholded_relu(x: Value, a: float, b: float) -> Value:
    return map_("select", map_("gt", x, scalar(float(a), x)), x, scalar(0.0, x))


def _gelu(x: Value, inner: Value) -> Value:
    return map_("mul", _times(x, 0.5), _plus(inner, 1.0))


def _gelu_erf(x: Value, a: float, b: float) -> Value:
    return _gelu(x, map_("erf", _times(x, math.sqrt(0.5))))


def _gelu_tanh(x: Value, a: float, b: float) -> Value:
    """√(2/π) · (0.044715·x³ + x) = x · (√(2/π)·0.044715·x² + √(2/π))."""
    root = math.sqrt(2 / math.pi)
    return _gelu(x, map_("tanh", map_("mul", x, _plus(_times(map_("square", x), root * 0.044715), root))))


PRIMITIVES: dict[ActivationType, str] = {T.SIGMOID: "sigmoid", T.TANH: "tanh"}
FUNCTIONS: dict[ActivationType, Callable[[Value, float, float], Value]] = {
    T.LEAKY_RELU: _leaky_relu,
    T.ELU: _elu,
    T.SELU: _selu,
    T.SOFTSIGN: _softsign,
    T.SOFTPLUS: _softplus,
    T.CLIP: _clip,
    T.HARD_SIGMOID: _hard_sigmoid,
    T.SCALED_TANH: lambda x, a, b: _times(map_("tanh", _times(x, b)), a),
    T.THRESHOLDED_RELU: _thresholded_relu,
    T.GELU_ERF: _gelu_erf,
    T.GELU_TANH: _gelu_tanh,
}

REFERENCES: dict[ActivationType, Callable[[Doubles, float, float], Doubles]] = {
    T.SIGMOID: lambda x, a, b: np.where(x >= 0, 1 / (1 + np.exp(-x)), np.exp(x) / (1 + np.exp(x))),
    T.TANH: lambda x, a, b: np.tanh(x),
    T.LEAKY_RELU: lambda x, a, b: np.where(x >= 0, x, a * x),
    T.ELU: lambda x, a, b: np.where(x >= 0, x, a * (np.exp(x) - 1)),
    T.SELU: lambda x, a, b: np.where(x > 0, b * x, b * (a * np.exp(x) - a)),
    T.SOFTSIGN: lambda x, a, b: x / (1 + np.abs(x)),
    T.SOFTPLUS: lambda x, a, b: a * np.logaddexp(b * x, 0),
    T.CLIP: lambda x, a, b: np.maximum(a, np.minimum(b, x)),
    T.HARD_SIGMOID: lambda x, a, b: np.maximum(0, np.minimum(1, a * x + b)),
    T.SCALED_TANH: lambda x, a, b: a * np.tanh(b * x),
    T.THRESHOLDED_RELU: lambda x, a, b: np.where(x > a, x, 0),
    T.GELU_ERF: lambda x, a, b: 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))),
    T.GELU_TANH: lambda x, a, b: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (0.044715 * x**3 + x))),
}


def ref(attrs: ActivationAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The documented formulas."""
    if attrs.type is T.RELU:
        return (np.maximum(arrays[0], arrays[0].dtype.type(0)),)
    with np.errstate(all="ignore"):
        return (REFERENCES[attrs.type](arrays[0].astype(np.float64), *parameters(attrs)),)


DLA_TYPES = frozenset({T.RELU, T.SIGMOID, T.TANH, T.LEAKY_RELU})


def dla(layer: Layer[ActivationAttrs]) -> str | None:
    """DLA supports the documented functions, and CLIP from 0 to at most 127."""
    attrs = layer.attrs
    if attrs.type is T.CLIP:
        alpha, beta = parameters(attrs)
        fits = alpha == 0 and beta <= 127
        return None if fits else "DLA clips from alpha 0 to a beta of at most 127"
    return None if attrs.type in DLA_TYPES else f"DLA does not run the activation {attrs.type.name}"


def cases() -> tuple[Case[ActivationAttrs], ...]:
    """Every function in every type, with usual and unusual parameters."""
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-30, 88.8, -104.0])
    parameters = {
        T.SOFTPLUS: (0.75, 1.5),
        T.CLIP: (-0.5, 0.75),
        T.SCALED_TANH: (1.7, 0.6),
        T.SELU: (1.67, 1.05),
    }
    pairs = {t: parameters.get(t, (0.25, 0.5)) for t in ActivationType}
    out = [Case(ActivationAttrs(t, *pairs[t]), ((3, 17),), low=-6.0, high=6.0) for t in ActivationType]
    out += [
        Case(ActivationAttrs(t, *pairs[t]), ((2, 3, 5),), (d,))
        for t in T
        for d in (DataType.HALF, DataType.BF16, DataType.DOUBLE)
    ]
    out += [
        Case(ActivationAttrs(t, *pairs[t]), ((9,),), data=(special,))
        for t in T
        if t not in {T.GELU_ERF, T.GELU_TANH, T.SOFTSIGN}  # 0 · ∞ and ∞ / ∞
    ]
    out += [
        Case(
            ActivationAttrs(t, *pairs[t]),
            ((15,),),
            (DataType.INT8,),
            low=-120,
            high=120,
            int8=((0.05,), 0.02),
        )
        for t in T
    ]
    out += [Case(ActivationAttrs(T.RELU), ((31,),), (t,), low=-100, high=100) for t in sorted(INTS, key=int)]
    out += [
        Case(ActivationAttrs(T.CLIP, 2.0, -2.0), ((5,),)),
        Case(ActivationAttrs(T.SOFTPLUS), ((9,),)),
        Case(ActivationAttrs(T.SELU), ((9,),)),
        Case(ActivationAttrs(T.SOFTPLUS, 0.0, 0.0), ((9,),)),
        Case(ActivationAttrs(T.TANH), ((),)),
        Case(ActivationAttrs(T.SIGMOID), ((2, 0, 3),)),
        Case(ActivationAttrs(T.GELU_ERF), ((1, 2, 1, 2, 1, 3, 1, 2),)),
        Case(ActivationAttrs(T.RELU), ((7,),), (DataType.INT8,), low=-120, high=120),
    ]
    return tuple(out)


def mistakes() -> tuple[Mistake[ActivationAttrs], ...]:
    """Types and parameters."""
    tanh, infinite = ActivationAttrs(T.TANH), ActivationAttrs(T.ELU, math.inf)
    return (
        Mistake("AR202", "integers for a function other than RELU", tanh, ((3,),), (DataType.INT32,)),
        Mistake("AR202", "a type that Activation does not take", tanh, ((3,),), (DataType.BOOL,)),
        Mistake("AR308", "alpha or beta that is not finite", infinite, ((3,),)),
    )  # fmt: skip


OPS = (
    Op(
        layer=LayerType.ACTIVATION,
        cls="IActivationLayer",
        methods=(Method("add_activation", ("input", "type"),
                example="layer = network.add_activation(x, trt.ActivationType.LEAKY_RELU)\n"
                "layer.alpha = 0.1"),),
        inputs=(Input("input", REALS | INTS | {DataType.INT8}),),
        attrs=ActivationAttrs,
        expand=expand,
        ref=ref,
        doc="Applies an activation function to each element, in float32. int8 represents real numbers. RELU "
        "also supports int32 and int64, which it computes as integers. float64, an extension, is computed in "
        "float64. THRESHOLDED_RELU returns x if x > alpha, else 0. CLIP returns alpha if alpha > beta.",
        cases=cases,
        mistakes=mistakes,
        dla=dla,
        onnx=("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "Selu", "Softsign", "Softplus", "Clip",
              "HardSigmoid", "ThresholdedRelu", "Gelu"),
        real_int8=lambda attrs: True,
        source="operator page Activation; C++ header for THRESHOLDED_RELU",
    ),
)  # fmt: skip
