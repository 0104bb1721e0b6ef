"""Plug-in layers by name, for nodes of ONNX models: a registered creator makes each plug-in.

creator = creator_of(("EfficientNMS_TRT", "1", ""))
outputs = plugin_layers(layers, creator, inputs, {"iou_threshold": 0.5})

TensorRT's parser registers the plug-ins that TensorRT ships. AnyRT registers them when a model first names a
plug-in without a creator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from anyrt.api.compose.layers import Layers
from anyrt.api.compose.tensor import Tensor
from anyrt.api.plugins.creators import IPluginCreator, IPluginCreatorV3One, IPluginCreatorV3Quick
from anyrt.api.plugins.field import (
    ELEMENTS,
    PluginField,
    PluginFieldCollection,
    PluginFieldCollection_,
    listed,
)
from anyrt.api.plugins.layer import request_of
from anyrt.api.plugins.registry import the_registry
from anyrt.api.plugins.user_calls import call_method
from anyrt.api.plugins.v2 import IPluginV2
from anyrt.api.plugins.v3 import IPluginV3
from anyrt.core.enums import PluginFieldType, TensorRTPhase
from anyrt.core.errors import NotSupportedError, PluginError

Creator: TypeAlias = IPluginCreator | IPluginCreatorV3One | IPluginCreatorV3Quick
Name: TypeAlias = tuple[str, str, str]  # with version and namespace
P = PluginFieldType
NUMBERS = (P.FLOAT32, P.FLOAT16, P.FLOAT64, P.INT8, P.INT16, P.INT32, P.INT64)
TYPES = {ELEMENTS[kind]: kind for kind in NUMBERS}


def creator_of(name: Name) -> Creator | None:
    """The registered creator of this name; None if there is none."""
    creator = the_registry().get_creator(*name)
    return creator if isinstance(creator, Creator) else None


def without_creator(names: Iterable[Name]) -> set[Name]:
    """The names without a creator, after the standard creators are registered."""
    unknown = {name for name in set(names) if creator_of(name) is None}
    if unknown:
        from anyrt.api.plugins.standards import init_libnvinfer_plugins

        init_libnvinfer_plugins(None, "")  # one call registers all of them
    return {name for name in unknown if creator_of(name) is None}


def field_names(creator: Creator, where: str) -> list[str]:
    """The names of the fields of a creator, without duplicates."""
    return list(dict.fromkeys(f.name for f in listed(creator.field_names, f"{where}: field_names")))


def plugin_layers(
    layers: Layers,
    creator: Creator,
    inputs: Sequence[Tensor],
    values: Mapping[str, object],
    shapes: Collection[int] = (),
    aot: bool | None = None,
) -> list[Tensor]:
    """The outputs of a new layer with the plug-in that `creator` makes from these fields.

    values: arrays, numbers, texts, and lists of these; shapes: the indices of shape inputs; aot: whether
    `aot_impl` computes a plug-in that has both functions.

    Errors: AR901, a value of a type that fields do not support; AR822, another object than a plug-in; AR824,
    an exception in the creator."""
    fields = [_field(layers.where, name, value) for name, value in values.items()]
    plugin = _create(layers, creator, PluginFieldCollection_(PluginFieldCollection(fields)), aot)
    network: Any = layers.network  # its methods are generated
    if isinstance(plugin, IPluginV3):
        places = {k % max(len(inputs), 1) for k in shapes}
        parts = [[x.it for k, x in enumerate(inputs) if (k in places) is of] for of in (False, True)]
        layer = network.add_plugin_v3(*parts, plugin)
    else:
        layer = network.add_plugin_v2([x.it for x in inputs], plugin)
    layers.give_name(layer)
    return layers.outputs(layer)


def _create(layers: Layers, creator: Creator, fields: PluginFieldCollection_, aot: bool | None) -> object:
    """The plug-in that a creator makes from fields."""
    name, phase = layers.where, TensorRTPhase.BUILD
    match creator:
        case IPluginCreator():
            plugin = call_method(name, creator, "create_plugin", name, fields)
        case IPluginCreatorV3One():
            plugin = call_method(name, creator, "create_plugin", name, fields, phase)
        case _:
            space, request = str(creator.plugin_namespace), request_of(layers.network, aot)
            plugin = call_method(name, creator, "create_plugin", name, space, fields, phase, request)
    base = IPluginV2 if isinstance(creator, IPluginCreator) else IPluginV3
    if not isinstance(plugin, base):
        got = f"{type(plugin).__name__} from {type(creator).__name__}.create_plugin"
        raise PluginError("AR822", name, got, f"an {base.__name__}")
    return plugin


def restored_layers(layers: Layers, name: Name, inputs: Sequence[Tensor], data: bytes) -> list[Tensor]:
    """The outputs of a new layer with a plug-in of version 2 that its creator restores from `data`;
    PluginError AR823 without such a creator."""
    creator = creator_of(name)
    if not isinstance(creator, IPluginCreator):
        got, do = f"plug-in {name[0]!r}, version {name[1]!r}", "register its creator first"
        raise PluginError("AR823", layers.where, got, "a plug-in with a creator of version 2", do)
    plugin = call_method(layers.where, creator, "deserialize_plugin", layers.where, data)
    network: Any = layers.network  # as above
    layer = network.add_plugin_v2([x.it for x in inputs], plugin)
    layers.give_name(layer)
    return layers.outputs(layer)


def _field(where: str, name: str, value: object) -> PluginField:
    """The field of a value."""
    content: tuple[memoryview | bytes, PluginFieldType | None]
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value).reshape(-1)
        content, got = (array.data, TYPES.get(array.dtype)), f"a tensor of {array.dtype}"
    else:
        content, got = _data(value), f"a {type(value).__name__}"
    if content[1] is None:
        raise NotSupportedError("AR901", where, f"attribute {name}, {got}", "numbers or text, for a field")
    return PluginField(name, content[0], content[1])


def _data(value: object) -> tuple[memoryview | bytes, PluginFieldType | None]:
    """The data of a field and its type; None as type if fields do not support it. Texts end with a zero
    byte."""
    elements = list(value) if isinstance(value, list | tuple) else [value]
    texts = [x + b"\0" for x in elements if isinstance(x, bytes)]
    if texts and len(texts) == len(elements):
        return b"".join(texts), P.CHAR
    if all(isinstance(x, int) for x in elements):
        return np.array(elements, np.int32).data, P.INT32
    if all(isinstance(x, float) for x in elements):
        return np.array(elements, np.float32).data, P.FLOAT32
    return b"", None
