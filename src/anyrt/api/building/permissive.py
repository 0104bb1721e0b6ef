"""Finds features of a network that AnyRT accepts and TensorRT rejects, before the build.

A program that works with AnyRT should also work with TensorRT on a GPU. So a build logs one warning with all
these features; with ANYRT_LIKE_TENSORRT=1 the first one is an error (AR905) with TensorRT's condition.
Networks that AnyRT creates, in `anyrt.load` and in commands on ONNX files, are not checked, nor are layers of
a parser: TensorRT's parser would add others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anyrt.api.model.state import LayerState, NetworkState, state_of
from anyrt.api.model.weights import Weights
from anyrt.core.enums import BuilderFlag, DataType, Severity
from anyrt.core.errors import NotSupportedError
from anyrt.core.flags import read_flags
from anyrt.core.trt_enum import TrtEnum

if TYPE_CHECKING:
    from anyrt.api.building.config import IBuilderConfig
    from anyrt.api.model.network import INetworkDefinition

TOLD: Final = 4  # maximum number of places in a warning


@dataclass(frozen=True, slots=True)
class Permission:
    """A permissive behaviour: what AnyRT does, TensorRT's condition, and code that suits both."""

    title: str
    condition: str
    do: str


PROFILE: Final = Permission(
    "dynamic inputs without an optimization profile",
    "Network has dynamic or shape inputs, but no optimization profile has been defined",
    "call config.add_optimization_profile(profile) with a range for each dynamic input",
)
FLOAT64: Final = Permission(
    "float64 weights",
    "Could not implicitly convert NumPy data type: f64 to TensorRT",
    "convert them: weights.astype(np.float32)",
)
TYPE: Final = Permission(
    "element types that only AnyRT has",
    "no such member of DataType",
    "use a type of TensorRT: FLOAT, HALF, BF16, INT32, INT64, INT8, UINT8, BOOL, FP8, INT4 or FP4",
)
MEMBER: Final = Permission(
    "operations and flags that only AnyRT has",
    "no such member of the enum",
    "use other layers, or a plug-in",
)
INTEGERS: Final = Permission(
    "integers in layers that compute floats",
    "the operator pages list float32, float16 and bfloat16 (int8 by quantization) for these layers",
    "cast the input to float32, and the result back",
)
OPERANDS: Final = Permission(
    "Einsum of more than two operands, with diagonals or dots",
    "the operator page Einsum: at most two operands, no ellipsis, no letter twice in a term",
    "write it as several layers",
)
PERMISSIONS: Final = (PROFILE, FLOAT64, TYPE, MEMBER, INTEGERS, OPERANDS)
WHOLE: Final = (DataType.INT32, DataType.INT64, DataType.BOOL, DataType.UINT8)
FLOATS: Final = (
    "CONVOLUTION",
    "DECONVOLUTION",
    "EINSUM",
    "LRN",
    "MATRIX_MULTIPLY",
    "NORMALIZATION",
    "POOLING",
)


@dataclass(frozen=True, slots=True)
class Found:
    """A place in a network where a permission is used."""

    permission: Permission
    where: str
    got: str


def judge(network: INetworkDefinition, config: IBuilderConfig) -> None:
    """Warn of parts of a program's network that TensorRT would reject; NotSupportedError AR905 if the
    environment requests TensorRT's conditions."""
    rejected = [*uses(state_of(network), config)] if state_of(network).is_judged else []
    if not rejected:
        return
    if read_flags().like_tensorrt:
        first = rejected[0]
        wanted = f"the condition of TensorRT: {first.permission.condition}"
        raise NotSupportedError("AR905", first.where, first.got, wanted, first.permission.do)
    places = "; ".join(f"{f.where}: {f.got}" for f in rejected[:TOLD])
    more = f"; and {len(rejected) - TOLD} more" if len(rejected) > TOLD else ""
    text = f"TensorRT would reject this network: {places}{more}; with ANYRT_LIKE_TENSORRT=1 this is an error"
    state_of(network).channel.log(Severity.WARNING, text)


def uses(network: NetworkState, config: IBuilderConfig) -> Iterator[Found]:
    """Everything that TensorRT would reject, in the order of the network."""
    for tensor in network.inputs if not config.num_optimization_profiles else ():
        if -1 in tensor.shape or tensor.is_shape_tensor:
            yield Found(PROFILE, tensor.name, f"shape {tensor.shape} and no profile")
    for flag in (f for f in BuilderFlag if f.is_extension and config.get_flag(f)):
        yield Found(MEMBER, "config", f"BuilderFlag.{flag.name}")
    for tensor in network.inputs:
        if tensor.element_type.is_extension:
            yield Found(TYPE, tensor.name, f"DataType.{tensor.element_type.name}")
    for layer in network.layers:
        if not layer.is_imported:
            yield from _of_layer(layer)


def _of_layer(layer: LayerState) -> Iterator[Found]:
    for name, value in layer.attributes.items():
        if isinstance(value, Weights) and value.dtype is DataType.DOUBLE and value.size:
            yield Found(FLOAT64, layer.name, f"{name} of float64")
        elif isinstance(value, TrtEnum) and getattr(value, "is_extension", False):
            is_type = isinstance(value, DataType)
            yield Found(TYPE if is_type else MEMBER, layer.name, f"{type(value).__name__}.{value.name}")
    if layer.op.layer.name in FLOATS:
        yield from _whole(layer)
    equation = str(layer.attributes.get("equation", ""))
    if layer.op.layer.name == "EINSUM" and _is_more(equation):
        yield Found(OPERANDS, layer.name, f"equation {equation!r}")


def _whole(layer: LayerState) -> Iterator[Found]:
    kinds = [tensor.element_type for tensor in layer.operands if tensor.element_type in WHOLE]
    if kinds:
        yield Found(INTEGERS, layer.name, f"{layer.op.layer.name} of {kinds[0].name}")


def _is_more(equation: str) -> bool:
    """Whether an equation has features that TensorRT lacks.

    >>> _is_more("ij,jk->ik"), _is_more("ii->i"), _is_more("...i,i"), _is_more("a,a,a->a")
    (False, True, True, True)
    """
    terms = equation.partition("->")[0].replace(" ", "").split(",")
    return len(terms) > 2 or "..." in equation or any(len(set(t)) < len(t) for t in terms)
