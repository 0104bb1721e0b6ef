"""Operators that are functions of other operators: those of a model, and those that ONNX defines so.

>>> function_of(helper.make_node("HardSwish", ["x"], ["y"]), (None,), 22).node[0].op_type
'HardSigmoid'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias, cast

from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, defs, helper

from anyrt.api.model.tensor import ITensor
from anyrt.onnx.node import Held
from anyrt.onnx.weights import NUMBERS

Key: TypeAlias = tuple[str, str]  # domain and operator
LONGEST = 64  # maximum characters of a name in messages


class Schema(Protocol):
    """The members of an operator's schema that ONNX's stubs lack."""

    has_function: bool
    has_context_dependent_function: bool
    function_opset_versions: list[int]
    context_dependent_function_opset_versions: list[int]
    attributes: dict[str, defs.OpSchema.Attribute]

    def get_function_with_opset_version(self, version: int) -> bytes: ...

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, types: list[bytes]
    ) -> bytes: ...


def key(node: NodeProto) -> Key:
    """The domain and the operator of a node."""
    return ("" if node.domain == "ai.onnx" else node.domain, node.op_type)


def is_function(name: Key, version: int) -> bool:
    """Whether ONNX defines the operator as a function of others."""
    schema = _schema(name, version)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def function_of(node: NodeProto, held: Sequence[Held], version: int) -> FunctionProto | None:
    """The function with which ONNX defines an operator, for operands of these types; None if there is
    none."""
    schema = _schema(key(node), version)
    if schema is None:
        return None
    if schema.has_context_dependent_function:
        at = _newest(schema.context_dependent_function_opset_versions, version)
        types = [_type(h).SerializeToString() for h in held]
        body = schema.get_context_dependent_function_with_opset_version(at, node.SerializeToString(), types)
    elif schema.has_function:
        body = schema.get_function_with_opset_version(_newest(schema.function_opset_versions, version))
    else:
        return None
    function = FunctionProto()
    function.ParseFromString(body)
    present = {a.name for a in function.attribute_proto}
    for name, attribute in schema.attributes.items():  # omitted attributes have the value of the schema
        if name not in present and attribute.default_value.name:
            function.attribute_proto.append(attribute.default_value)
    return function


def _newest(versions: Sequence[int], version: int) -> int:
    return max((v for v in versions if v <= version), default=min(versions))


def _schema(name: Key, version: int) -> Schema | None:
    domain, op = name
    if not defs.has(op, version, domain):
        return None
    return cast(Schema, defs.get_schema(op, version, domain))


def _type(held: Held) -> TypeProto:
    """The type as in ONNX; empty for an omitted input."""
    if isinstance(held, ITensor):
        sizes = [None if d < 0 else d for d in held.shape]
        return helper.make_tensor_type_proto(NUMBERS[held.dtype], sizes)
    return TypeProto()


def bound(node: NodeProto, call: NodeProto, function: FunctionProto) -> NodeProto:
    """A node of a function's body, with references to attributes replaced by the attributes of the call."""
    if not any(True for _ in _references(node)):
        return node
    attributes = {a.name: a for a in (*function.attribute_proto, *call.attribute)}
    out = NodeProto()
    out.CopyFrom(node)
    _bind(out, attributes)
    return out


def _references(node: NodeProto) -> Iterator[AttributeProto]:
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            yield attribute
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _references(inner)


def _bind(node: NodeProto, attributes: dict[str, AttributeProto]) -> None:
    kept = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in attributes:
                value = AttributeProto()
                value.CopyFrom(attributes[attribute.ref_attr_name])
                value.name = attribute.name
                kept.append(value)
            continue
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                _bind(inner, attributes)
        kept.append(attribute)
    del node.attribute[:]
    node.attribute.extend(kept)
