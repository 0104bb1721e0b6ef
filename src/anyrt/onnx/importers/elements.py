"""Element-wise functions, most of which are one layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import numpy as np

from anyrt.api.compose.normalizations import wide
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import ActivationType, DataType, ElementWiseOperation, UnaryOperation
from anyrt.onnx.node import BROADCASTS, Node, Outputs, importer

U, E, A = UnaryOperation, ElementWiseOperation, ActivationType

UNARY = {
    **{op.name.capitalize(): op for op in U if op.name not in ("RECIP", "ISINF", "ISNAN")},
    "Reciprocal": U.RECIP,
    "IsNaN": U.ISNAN,
}
BINARY = {
    "Add": E.SUM,
    "Sub": E.SUB,
    "Mul": E.PROD,
    "Div": E.DIV,
    "And": E.AND,
    "Or": E.OR,
    "Xor": E.XOR,
    "Equal": E.EQUAL,
    "Greater": E.GREATER,
    "Less": E.LESS,
    "BitwiseAnd": E.BIT_AND,
    "BitwiseOr": E.BIT_OR,
    "BitwiseXor": E.BIT_XOR,
}
ACTIVATIONS: dict[str, tuple[ActivationType, dict[str, tuple[str, float]]]] = {
    "Sigmoid": (A.SIGMOID, {}),
    "Tanh": (A.TANH, {}),
    "Softsign": (A.SOFTSIGN, {}),
    "Softplus": (A.SOFTPLUS, {}),
    "LeakyRelu": (A.LEAKY_RELU, {"alpha": ("alpha", 0.01)}),
    "Elu": (A.ELU, {"alpha": ("alpha", 1.0)}),
    "Selu": (
        A.SELU,
        {"alpha": ("alpha", 1.67326319217681884765625), "beta": ("gamma", 1.05070102214813232421875)},
    ),
    "HardSigmoid": (A.HARD_SIGMOID, {"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)}),
    "ThresholdedRelu": (A.THRESHOLDED_RELU, {"alpha": ("alpha", 1.0)}),
}


def _unary(op: UnaryOperation, node: Node) -> Tensor:
    return node.unary(op, node.input(0))


def _binary(op: ElementWiseOperation, node: Node) -> Tensor:
    return node.binary(op, node.input(0), node.input(1))


def _activation(name: str, node: Node) -> Tensor:
    kind, defaults = ACTIVATIONS[name]
    parameters = {ours: node.attr(theirs, default) for ours, (theirs, default) in defaults.items()}
    return node.activation(kind, node.input(0), **parameters)


def _folded(combine: Callable[[Tensor, Tensor], Tensor], node: Node) -> Tensor:
    return reduce(combine, node.present())


for _name, _op in UNARY.items():
    importer(_name)(partial(_unary, _op))
for _name, _two in BINARY.items():
    importer(_name)(partial(_binary, _two))
for _name in ACTIVATIONS:
    importer(_name)(partial(_activation, _name))
importer("Max")(partial(_folded, Tensor.maximum))
importer("Min")(partial(_folded, Tensor.minimum))


@importer("Identity")
def identity(node: Node) -> Outputs:
    """The input: a tensor, a sequence or an optional."""
    value = node.arguments[0]
    return node.layer("add_identity", value) if isinstance(value, Tensor) else [value]


@importer("Sum")
def total(node: Node) -> Tensor:
    """The sum of the inputs, rounded to a half type once."""
    terms = node.present()
    if len(terms) <= 2:
        return _folded(Tensor.__add__, node)
    return reduce(Tensor.__add__, map(wide, terms)).cast(terms[0].dtype)


@importer("Mean")
def mean(node: Node) -> Tensor:
    """The average of the inputs, rounded to a half type once."""
    terms = node.present()
    return (reduce(Tensor.__add__, map(wide, terms)) / len(terms)).cast(terms[0].dtype)


@importer("BitwiseNot")
def bitwise_not(node: Node) -> Tensor:
    """The complement of all bits."""
    x = node.input(0)
    return node.binary(E.BIT_XOR, x, node.constant(np.full((1,) * x.rank, -1), x.dtype))


@importer("BitShift")
def bit_shift(node: Node) -> Tensor:
    """A shift to the left, or an arithmetic shift to the right."""
    x, direction = node.input(0), node.required("direction", "LEFT")
    if direction not in ("LEFT", "RIGHT"):
        raise node.unsupported(f"direction {direction!r}", "use LEFT or RIGHT")
    return node.binary(E.SHIFT_RIGHT if direction == "RIGHT" else E.SHIFT_LEFT, x, node.input(1))


@importer("Mod")
def mod(node: Node) -> Tensor:
    """The remainder with the sign of the divisor, or of the dividend (`fmod`)."""
    op = E.REMAINDER if node.attr("fmod", 0) else E.MOD
    return node.binary(op, node.input(0), node.input(1))


@importer("IsInf")
def is_inf(node: Node) -> Tensor:
    """Whether elements are infinite; of one sign only, if requested."""
    x = node.input(0)
    positive, negative = node.attr("detect_positive", 1), node.attr("detect_negative", 1)
    infinite = node.unary(U.ISINF, x)
    if positive and negative:
        return infinite
    if positive or negative:
        return infinite & (x > 0.0 if positive else x < 0.0)
    return infinite & ~infinite


@importer("Clip")
def clip(node: Node) -> Tensor:
    """Clip between two bounds: attributes until opset 10, then optional inputs."""
    x = node.input(0)
    if node.version < 11:
        low, high = (node.attr(name, 0.0) if node.has(name) else None for name in ("min", "max"))
        x = x if low is None else x.maximum(low)
        return x if high is None else x.minimum(high)
    least, most = node.optional(1), node.optional(2)
    x = x if least is None else x.maximum(least)
    return x if most is None else x.minimum(most)


@importer("Relu")
def relu(node: Node) -> Tensor:
    """max(x, 0)."""
    x = node.input(0)
    return node.activation(A.RELU, x) if x.is_float else x.maximum(0)


@importer("PRelu")
def prelu(node: Node) -> Tensor:
    """x, times a slope if it is negative."""
    x, slope = node.input(0), node.input(1)
    if node.version < BROADCASTS and slope.rank == 1:  # a slope for each channel
        slope = slope.unsqueeze(*range(1, x.rank - 1))
    x, slope = node.aligned(x, slope)
    if x.is_float:
        return node.layer("add_parametric_relu", x, slope)
    return node.where_(x < 0, x * slope, x)


@importer("Gelu")
def gelu(node: Node) -> Tensor:
    """x Φ(x), or its approximation with tanh."""
    kind = A.GELU_TANH if node.attr("approximate", "none") == "tanh" else A.GELU_ERF
    return node.activation(kind, node.input(0))


@importer("Celu")
def celu(node: Node) -> Tensor:
    """x, or α (exp(x / α) − 1) if it is negative."""
    x, alpha = node.input(0), node.attr("alpha", 1.0)
    return node.where_(x < 0.0, node.activation(A.ELU, x / alpha, alpha=alpha), x)


@importer("Shrink")
def shrink(node: Node) -> Tensor:
    """0 between −λ and λ; a bias moves other elements towards 0. If λ is negative, both comparisons may hold:
    then x < −λ has priority. Integers are compared exactly, and wrap."""
    x, bias, most = node.input(0), node.attr("bias", 0.0), node.attr("lambd", 0.5)
    if x.is_float:
        real, up, down = x, x + bias, x - bias
    else:  # in 64 bits, which are truncated to the type
        real = x.cast(DataType.DOUBLE)
        wide, by = (x.cast(DataType.INT64), int(bias)) if bias % 1 == 0 else (real, bias)
        up, down = ((wide + b).cast(DataType.INT64).cast(x.dtype) for b in (by, -by))
    return node.where_(real < -most, up, node.where_(real > most, down, node.like(0, x)))
