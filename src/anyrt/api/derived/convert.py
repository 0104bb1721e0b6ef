"""Converts attributes between the user's form and that of the operator.

A layer keeps a form in between: plain values and tuples, and `Weights` where the operator has a `Blob`, so
that an array may be edited until the build.
"""

from __future__ import annotations

import numpy as np

from anyrt.api.edge.quiet import WrongType, boolean, integer, number, wrong_type
from anyrt.api.model.dims import Dims, Permutation, floats, integers, sizes, unknown_dims
from anyrt.api.model.weights import Weights, to_weights
from anyrt.core.trt_enum import TrtEnum
from anyrt.ops._record import AttrSpec, Kind
from anyrt.prims.const import Blob

# The type of an attribute.
ANNOTATIONS: dict[Kind, str] = {
    Kind.INT: "int",
    Kind.FLOAT: "float",
    Kind.NUMBER: "float",
    Kind.BOOL: "bool",
    Kind.TEXT: "str",
    Kind.DIMS: "Dims",
    Kind.PERMUTATION: "Permutation",
    Kind.FLOATS: "list[float]",
    Kind.WEIGHTS: "Weights",
    Kind.AXES: "int",
}


# The accepted types, if there are more.
GIVEN: dict[Kind, str] = {
    Kind.DIMS: "Dims | Sequence[int]",
    Kind.PERMUTATION: "Permutation | Sequence[int]",
    Kind.FLOATS: "Sequence[float]",
    Kind.WEIGHTS: "Weights | NDArray[Any]",
}


def annotation(spec: AttrSpec) -> str:
    """The type of the attribute, for pages and messages."""
    return spec.enum.__name__ if spec.enum else ANNOTATIONS[spec.kind]


def accepted(spec: AttrSpec) -> str:
    """The types that the attribute accepts, for signatures."""
    types = GIVEN.get(spec.kind, annotation(spec))
    return f"{types} | None" if spec.optional else types


def take(spec: AttrSpec, x: object, where: str) -> object:  # noqa: C901  # one case for each kind
    """The user's value, checked and in the layer's form; TypeError for a wrong type."""
    if x is None and spec.optional:
        return None
    match spec.kind:
        case Kind.ENUM if spec.enum is not None and isinstance(x, spec.enum):
            return x
        case Kind.INT:
            return integer(x, where)
        case Kind.AXES:
            return _mask(x, where)
        case Kind.FLOAT:
            return number(x, where)
        case Kind.NUMBER:
            if isinstance(x, list | tuple) and len(x) == 1:  # as in TensorRT
                x = x[0]
            return int(x) if isinstance(x, int | np.integer) else number(x, where)
        case Kind.BOOL:
            return boolean(x, where)
        case Kind.TEXT if isinstance(x, str):
            return x
        case Kind.DIMS:
            return sizes(x, where)
        case Kind.PERMUTATION:
            return x.axes if isinstance(x, Permutation) else Permutation(integers(x, "Permutation")).axes
        case Kind.FLOATS:
            return floats(x, where)
        case Kind.WEIGHTS:
            return to_weights(x, where)
    raise _refused(spec, x, where)


def _refused(spec: AttrSpec, x: object, where: str) -> WrongType:
    if spec.enum is not None and issubclass(spec.enum, TrtEnum):
        return wrong_type(where, x, spec.enum)
    return wrong_type(where, x, annotation(spec))


def _mask(x: object, where: str) -> int:
    if isinstance(x, list | tuple):
        do = f"write {' | '.join(f'1 << {axis}' for axis in x) or '1 << axis'}"
        raise wrong_type(where, x, "a bit mask of axes as int", do)
    return integer(x, where)


def show(spec: AttrSpec, x: object) -> object:
    """The value of the property's getter."""
    match x:
        case Weights():
            return x.numpy()
        case Blob():
            return Weights(x.dtype).numpy()
        case tuple() if spec.kind is Kind.DIMS:
            return Dims(x)
        case None if spec.kind is Kind.DIMS:
            return unknown_dims()
        case _ if spec.kind is Kind.PERMUTATION:
            return Permutation(x if isinstance(x, tuple) else ())
        case _ if spec.kind is Kind.FLOATS:
            return list(x) if isinstance(x, tuple) else []
    return x
