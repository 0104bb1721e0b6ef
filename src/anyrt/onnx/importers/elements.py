"""Functions of each element, most of them layers as they are."""

from __future__ import annotations

from functools import partial

from anyrt.core.enums import ActivationType, ElementWiseOperation, UnaryOperation
from anyrt.onnx.node import Node, importer
from anyrt.onnx.tensor import Tensor

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
    "Pow": E.POW,
    "And": E.AND,
    "Or": E.OR,
    "Xor": E.XOR,
    "Equal": E.EQUAL,
    "Greater": E.GREATER,
    "Less": E.LESS,
}
ACTIVATIONS: dict[str, tuple[ActivationType, dict[str, tuple[str, float]]]] = {
    "Relu": (A.RELU, {}),
    "Sigmoid": (A.SIGMOID, {}),
    "Tanh": (A.TANH, {}),
    "Softsign": (A.SOFTSIGN, {}),
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
    kind, given = ACTIVATIONS[name]
    layer = node.add("add_activation", node.input(0), kind)
    for ours, (theirs, default) in given.items():
        setattr(layer, ours, node.attr(theirs, default))
    return node.tensor(layer.get_output(0))


for _name, _op in UNARY.items():
    importer(_name)(partial(_unary, _op))
for _name, _two in BINARY.items():
    importer(_name)(partial(_binary, _two))
for _name in ACTIVATIONS:
    importer(_name)(partial(_activation, _name))


@importer("Identity")
def identity(node: Node) -> Tensor:
    """The same elements."""
    return node.layer("add_identity", node.input(0))
