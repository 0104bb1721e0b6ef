"""Operators that a program implements with NumPy, for operators of models that AnyRT does not support.

@anyrt.op("my.domain::Swish6")
def swish6(x, beta=1.0):
    return x * np.minimum(np.maximum(x * beta + 3, 0), 6) / 6

The parser calls the function with the inputs of the node, and its attributes by name. The arrays have no
elements yet: NumPy functions of them add layers, which fuse like all others.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypeAlias, TypeVar

import numpy as np
from onnx import helper

from anyrt.api.compose.tensor import Tensor
from anyrt.core.dtype import from_numpy
from anyrt.core.enums import DataType, ReduceOperation, UnaryOperation
from anyrt.core.enums import ElementWiseOperation as E
from anyrt.core.errors import AnyrtError, ArgumentError, GraphError, NotSupportedError
from anyrt.onnx import importers
from anyrt.onnx.node import IMPORTERS, Node, Outputs

Axes: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
F = TypeVar("F", bound=Callable[..., object])
U, R = UnaryOperation, ReduceOperation

UNARY: dict[str, UnaryOperation] = {
    **{
        n: U[n.upper()]
        for n in ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "ceil", "floor", "sign")
    },
    "absolute": U.ABS,
    "negative": U.NEG,
    "reciprocal": U.RECIP,
    "rint": U.ROUND,
    "logical_not": U.NOT,
    "arcsin": U.ASIN,
    "arccos": U.ACOS,
    "arctan": U.ATAN,
    "isnan": U.ISNAN,
    "isinf": U.ISINF,
    "arcsinh": U.ASINH,
    "arccosh": U.ACOSH,
    "arctanh": U.ATANH,
}
BINARY: dict[str, E] = {
    "add": E.SUM,
    "subtract": E.SUB,
    "multiply": E.PROD,
    "divide": E.DIV,
    "power": E.POW,
    "floor_divide": E.FLOOR_DIV,
    "maximum": E.MAX,
    "minimum": E.MIN,
    "equal": E.EQUAL,
    "less": E.LESS,
    "greater": E.GREATER,
    "logical_and": E.AND,
    "logical_or": E.OR,
    "logical_xor": E.XOR,
}
# Errors of functions that are not written for arrays without elements.
MISTAKES = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RuntimeError)
FOLDS = {
    "sum": R.SUM,
    "prod": R.PROD,
    "max": R.MAX,
    "amax": R.MAX,
    "min": R.MIN,
    "amin": R.MIN,
    "mean": R.AVG,
}


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """An array without elements: NumPy functions of it add layers."""

    __array_priority__ = 1000

    def __init__(self, node: Node, tensor: Tensor) -> None:
        self.node = node
        self.tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, −1 for dynamic dimensions."""
        return self.tensor.sizes

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.tensor.rank

    @property
    def T(self) -> Traced:
        """The axes in reverse order."""
        return Traced(self.node, self.tensor.transpose(*reversed(range(self.ndim))))

    def reshape(self, *sizes: int) -> Traced:
        """The same elements in another shape."""
        flat = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
        return Traced(self.node, self.tensor.reshape(tuple(flat)))

    def transpose(self, *order: int) -> Traced:
        """The axes in another order."""
        return Traced(self.node, self.tensor.transpose(*order)) if order else self.T

    def astype(self, dtype: object) -> Traced:
        """The elements in another type."""
        return Traced(self.node, self.tensor.cast(from_numpy(np.dtype(dtype))))  # type: ignore[call-overload]  # checked there

    def sum(self, axis: Axes = None, keepdims: bool = False) -> Traced:
        """The sum over axes."""
        return self._folded("sum", axis, keepdims)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> Traced:
        """The mean over axes."""
        return self._folded("mean", axis, keepdims)

    def max(self, axis: Axes = None, keepdims: bool = False) -> Traced:
        """The maximum over axes."""
        return self._folded("max", axis, keepdims)

    def min(self, axis: Axes = None, keepdims: bool = False) -> Traced:
        """The minimum over axes."""
        return self._folded("min", axis, keepdims)

    def _folded(self, name: str, axis: Axes, keepdims: bool) -> Traced:
        several = range(self.ndim) if axis is None else (axis,) if isinstance(axis, SupportsIndex) else axis
        axes = [operator.index(a) for a in several]
        return Traced(self.node, self.node.reduce(FOLDS[name], self.tensor, axes, keepdims))

    def __array_ufunc__(self, function: np.ufunc, method: str, *args: object, **named: object) -> Traced:
        name = function.__name__
        if method == "__call__" and not named:
            inputs = [self._tensor(x) for x in args]
            if name in UNARY:
                return Traced(self.node, self.node.unary(UNARY[name], inputs[0]))
            if name in BINARY:
                return Traced(self.node, self.node.binary(BINARY[name], *inputs))
            if name == "matmul":
                return Traced(self.node, self.node.matmul(inputs[0], inputs[1]))
            if name in ("tanh", "square"):
                return Traced(self.node, _others(self.node, name, inputs[0]))
            if name in ("less_equal", "greater_equal"):
                swapped = BINARY["greater" if name == "less_equal" else "less"]
                return Traced(self.node, ~self.node.binary(swapped, *inputs))
        raise self.node.unsupported(f"numpy.{name}", "use other NumPy functions")

    def __array_function__(
        self,
        function: Callable[..., object],
        kinds: object,
        args: Any,
        named: Any,  # Any: as in NumPy's protocol
    ) -> Traced:
        name = function.__name__
        if name in FOLDS:
            return Traced._folded(
                args[0], name, named.get("axis", (*args, None)[1]), named.get("keepdims", False)
            )
        if name == "where":
            return Traced(self.node, self.node.where_(*(self._tensor(x) for x in args)))
        if name == "concatenate":
            parts = [self._tensor(x) for x in args[0]]
            axis = named.get("axis", (*args, 0)[1])
            return Traced(self.node, self.node.concat(parts, axis % parts[0].rank))
        if name in ("reshape", "transpose"):
            rest = (*args[1:], *named.values())
            flat = rest[0] if rest and isinstance(rest[0], Sequence) else rest
            return getattr(args[0], name)(*flat)  # type: ignore[no-any-return]  # one of the methods above
        raise self.node.unsupported(f"numpy.{name}", "use other NumPy functions")

    def _tensor(self, x: object) -> Tensor:
        if isinstance(x, Traced):
            return x.tensor
        array = np.asarray(x)
        kind = self.tensor.dtype if array.dtype.kind in "iuf" and array.ndim == 0 else from_numpy(array.dtype)
        if (
            kind is DataType.DOUBLE and self.tensor.dtype is not kind
        ):  # the conversion of NumPy for a list of numbers
            kind = DataType.FLOAT
        return self.node.constant(array, kind)


def _others(node: Node, name: str, x: Tensor) -> Tensor:
    from anyrt.core.enums import ActivationType

    return x * x if name == "square" else node.layer("add_activation", x, ActivationType.TANH)


def op(name: str) -> Callable[[F], F]:
    """Implement the operator `domain::Name` with the decorated function, in models that are parsed
    afterwards.

    The function receives the inputs of a node as arrays, and its attributes as named arguments. It returns an
    array or a tuple of arrays. It may use operators and the NumPy functions that have a layer; others raise
    NotSupportedError (AR901) for the node. ArgumentError AR304 for a name that is not text."""
    if not isinstance(name, str) or not name.rpartition("::")[2]:
        raise ArgumentError("AR304", "anyrt.op", repr(name), '"domain::Name"')
    domain, _, kind = name.rpartition("::")

    def keep(function: F) -> F:
        importers.load()
        IMPORTERS["" if domain == "ai.onnx" else domain, kind] = lambda node: _called(function, node)
        return function

    return keep


def _called(function: Callable[..., object], node: Node) -> Outputs:
    arrays = [None if x is None else Traced(node, x) for x in node.inputs]
    named = {a.name: _plain(helper.get_attribute_value(a)) for a in node.proto.attribute}
    try:
        result = function(*arrays, **named)
    except AnyrtError:
        raise
    except MISTAKES as error:
        got = f"{type(error).__name__}: {error}"
        raise GraphError("AR417", node.where, got, f"a function that implements {node.op}") from error
    several = result if isinstance(result, tuple | list) else (result,)
    if not all(isinstance(x, Traced) for x in several):
        got = ", ".join(type(x).__name__ for x in several)
        raise NotSupportedError(
            "AR901", node.where, got, "arrays computed from the inputs", "return results of NumPy functions"
        )
    return [x.tensor for x in several if isinstance(x, Traced)]


def _plain(value: object) -> object:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
