"""Nodes whose operators are plug-ins: each becomes the layer of a plug-in, which a registered creator makes.

    registry.register_creator(MyCreator(), "")
    parser.parse(model)                     # of a node with its name, or EfficientNMS_TRT, of whatever domain

TensorRT's parser registers the plug-ins that TensorRT brings along; here they are when a model asks for one.
The attributes `plugin_version` and `plugin_namespace` say which creator; those that it has fields for become
fields. `tensorrt_plugin_shape_input_indices` names the inputs that a plug-in makes sizes of; `aot` says which
function computes a plug-in that has two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import AttributeProto, NodeProto, helper

import anyrt
from anyrt.api.compose.tensor import Tensor
from anyrt.api.plugins.asking import ask
from anyrt.api.plugins.creators import IPluginCreator, IPluginCreatorV3One, IPluginCreatorV3Quick
from anyrt.api.plugins.field import PluginField, PluginFieldCollection, PluginFieldCollection_, fields
from anyrt.api.plugins.layer import request_of
from anyrt.api.plugins.registry import the_registry
from anyrt.api.plugins.v2 import IPluginV2
from anyrt.api.plugins.v3 import IPluginV3
from anyrt.core.enums_more import PluginFieldType, QuickPluginCreationRequest, TensorRTPhase
from anyrt.core.errors import PluginError
from anyrt.onnx.node import Node

Creator: TypeAlias = IPluginCreator | IPluginCreatorV3One | IPluginCreatorV3Quick
Name: TypeAlias = tuple[str, str, str]  # with version and namespace
P = PluginFieldType
VERSION, NAMESPACE = "plugin_version", "plugin_namespace"
AOT = "aot"
SHAPES = "tensorrt_plugin_shape_input_indices"
TENSORS = {np.dtype(t): f for t, f in (
    (np.float32, P.FLOAT32), (np.float16, P.FLOAT16), (np.float64, P.FLOAT64), (np.int8, P.INT8),
    (np.int16, P.INT16), (np.int32, P.INT32), (np.int64, P.INT64),
)}  # fmt: skip


def creator_of(node: NodeProto) -> Creator | None:
    """The creator of the plug-in that a node names; None where none is registered."""
    return _registered(_named(node))


def _named(node: NodeProto) -> Name:
    told = {a.name: a.s.decode(errors="replace") for a in node.attribute if a.name in (VERSION, NAMESPACE)}
    return node.op_type, told.get(VERSION) or "1", told.get(NAMESPACE, "")


def _registered(name: Name) -> Creator | None:
    found = the_registry().get_creator(*name)
    return found if isinstance(found, Creator) else None


def without_creator(nodes: Sequence[tuple[int, NodeProto]]) -> list[tuple[int, NodeProto]]:
    """Those of these nodes, each with a number, that no plug-in describes, be it one of TensorRT's own."""
    names = [_named(node) for _, node in nodes]
    unknown = {name for name in set(names) if _registered(name) is None}
    if unknown:
        anyrt.init_libnvinfer_plugins(None, "")  # once for all: it looks for every one of its creators
        unknown = {name for name in unknown if _registered(name) is None}
    return [x for x, name in zip(nodes, names, strict=True) if name in unknown]


def plugin(node: Node, creator: Creator) -> list[Tensor]:
    """The outputs of a node as a layer of the plug-in that `creator` makes."""
    names = fields(creator.field_names, f"{node.op}: field_names")
    given = [_field(node, name) for name in dict.fromkeys(f.name for f in names._items) if node.has(name)]
    made = _made(node, creator, PluginFieldCollection_(PluginFieldCollection(given)))
    network: Any = node.network  # whose methods are found by name
    inputs = [node.input(k).it for k in range(len(node.given))]
    if isinstance(made, IPluginV3):
        shapes = {k % max(len(inputs), 1) for k in node.attr(SHAPES, ())} if node.has(SHAPES) else set()
        parts = [[x for k, x in enumerate(inputs) if (k in shapes) is of] for of in (False, True)]
        layer = network.add_plugin_v3(*parts, made)
    else:
        layer = network.add_plugin_v2(inputs, made)
    node.give_name(layer)
    return node.outputs(layer)


def _made(node: Node, creator: Creator, given: PluginFieldCollection_) -> object:
    """The plug-in that a creator makes of fields."""
    name, phase = node.where, TensorRTPhase.BUILD
    match creator:
        case IPluginCreator():
            made = ask(name, creator, "create_plugin", name, given)
        case IPluginCreatorV3One():
            made = ask(name, creator, "create_plugin", name, given, phase)
        case _:
            space, kind = str(creator.plugin_namespace), _request(node)
            made = ask(name, creator, "create_plugin", name, space, given, phase, kind)
    wanted = IPluginV2 if isinstance(creator, IPluginCreator) else IPluginV3
    if not isinstance(made, wanted):
        got = f"{type(made).__name__} from {type(creator).__name__}.create_plugin"
        raise PluginError("AR822", name, got, f"an {wanted.__name__}")
    return made


def _request(node: Node) -> QuickPluginCreationRequest:
    """Which of its functions is to compute a plug-in made of functions: as `aot` says, else the network."""
    network: Any = node.network
    return request_of(network, bool(node.attr(AOT, 0)) if node.has(AOT) else None)


def _field(node: Node, name: str) -> PluginField:
    """An attribute as a field."""
    attribute = node._attributes[name]
    if attribute.type == AttributeProto.TENSOR:
        array = np.ascontiguousarray(node.array(name)).reshape(-1)
        kind = TENSORS.get(array.dtype)
        if kind is None:
            raise node.unsupported(f"attribute {name}, a tensor of {array.dtype}", "use floats or integers")
        return PluginField(name, array.data, kind)
    found = _data(helper.get_attribute_value(attribute))
    if found is None:
        kinds = AttributeProto.AttributeType
        raise node.unsupported(
            f"attribute {name} of type {kinds.Name(attribute.type)}", "use numbers or text"
        )
    return PluginField(name, *found)


def _data(value: object) -> tuple[bytes | memoryview, PluginFieldType] | None:
    """What a field holds, and its type; None for what no field can be. Texts end with a zero, as in C."""
    listed = list(value) if isinstance(value, list | tuple) else [value]
    texts = [x + b"\0" for x in listed if isinstance(x, bytes)]
    if texts and len(texts) == len(listed):
        return b"".join(texts), P.CHAR
    if all(isinstance(x, int) for x in listed):
        return np.array(listed, np.int32).data, P.INT32
    if all(isinstance(x, float) for x in listed):
        return np.array(listed, np.float32).data, P.FLOAT32
    return None
