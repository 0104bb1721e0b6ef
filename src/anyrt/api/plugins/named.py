"""Layers of plug-ins that a file names, as nodes of ONNX models do: a registered creator makes each of them.

creator = creator_of(("EfficientNMS_TRT", "1", ""))
outputs = plugin_layers(layers, creator, inputs, {"iou_threshold": 0.5})

TensorRT's parser registers the plug-ins that TensorRT ships. Here that happens when a file first names one
without a creator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from anyrt.api.compose.layers import Layers
from anyrt.api.compose.tensor import Tensor
from anyrt.api.plugins.asking import ask
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
from anyrt.api.plugins.v2 import IPluginV2
from anyrt.api.plugins.v3 import IPluginV3
from anyrt.core.enums_more import PluginFieldType, TensorRTPhase
from anyrt.core.errors import NotSupportedError, PluginError

Creator: TypeAlias = IPluginCreator | IPluginCreatorV3One | IPluginCreatorV3Quick
Name: TypeAlias = tuple[str, str, str]  # with version and namespace
P = PluginFieldType
NUMBERS = (P.FLOAT32, P.FLOAT16, P.FLOAT64, P.INT8, P.INT16, P.INT32, P.INT64)
TYPES = {ELEMENTS[kind]: kind for kind in NUMBERS}


def creator_of(name: Name) -> Creator | None:
    """The creator of the plug-in of that name; None where none is registered."""
    creator = the_registry().get_creator(*name)
    return creator if isinstance(creator, Creator) else None


def without_creator(names: Iterable[Name]) -> set[Name]:
    """Those of these names that no creator has, be it one of TensorRT's own."""
    unknown = {name for name in set(names) if creator_of(name) is None}
    if unknown:
        from anyrt.api.plugins.standards import init_libnvinfer_plugins

        init_libnvinfer_plugins(None, "")  # once for all: it looks for every one of its creators
    return {name for name in unknown if creator_of(name) is None}


def field_names(creator: Creator, where: str) -> list[str]:
    """The names of the fields that its plug-ins take, each once."""
    return list(dict.fromkeys(f.name for f in listed(creator.field_names, f"{where}: field_names")))


def plugin_layers(
    layers: Layers,
    creator: Creator,
    inputs: Sequence[Tensor],
    values: Mapping[str, object],
    shapes: Collection[int] = (),
    aot: bool | None = None,
) -> list[Tensor]:
    """The outputs of a new layer of the plug-in that `creator` makes of these fields.

    values: arrays, numbers, texts, and lists of these; shapes: which inputs the plug-in makes sizes of; aot:
    which function computes one made of functions, where it has two.

    Errors: AR901, a value that no field can be; AR822, another object than a plug-in; AR824, an exception in
    the creator."""
    fields = [_field(layers.where, name, value) for name, value in values.items()]
    plugin = _create(layers, creator, PluginFieldCollection_(PluginFieldCollection(fields)), aot)
    network: Any = layers.network  # whose methods are found by name
    if isinstance(plugin, IPluginV3):
        places = {k % max(len(inputs), 1) for k in shapes}
        parts = [[x.it for k, x in enumerate(inputs) if (k in places) is of] for of in (False, True)]
        layer = network.add_plugin_v3(*parts, plugin)
    else:
        layer = network.add_plugin_v2([x.it for x in inputs], plugin)
    layers.give_name(layer)
    return layers.outputs(layer)


def _create(layers: Layers, creator: Creator, fields: PluginFieldCollection_, aot: bool | None) -> object:
    """The plug-in that a creator makes of fields."""
    name, phase = layers.where, TensorRTPhase.BUILD
    match creator:
        case IPluginCreator():
            plugin = ask(name, creator, "create_plugin", name, fields)
        case IPluginCreatorV3One():
            plugin = ask(name, creator, "create_plugin", name, fields, phase)
        case _:
            space, request = str(creator.plugin_namespace), request_of(layers.network, aot)
            plugin = ask(name, creator, "create_plugin", name, space, fields, phase, request)
    base = IPluginV2 if isinstance(creator, IPluginCreator) else IPluginV3
    if not isinstance(plugin, base):
        got = f"{type(plugin).__name__} from {type(creator).__name__}.create_plugin"
        raise PluginError("AR822", name, got, f"an {base.__name__}")
    return plugin


def restored_layers(layers: Layers, name: Name, inputs: Sequence[Tensor], data: bytes) -> list[Tensor]:
    """The outputs of a new layer of the plug-in of version 2 that the creator of that name makes of what it
    serialized; PluginError AR823 without such a creator."""
    creator = creator_of(name)
    if not isinstance(creator, IPluginCreator):
        got, do = f"plug-in {name[0]!r}, version {name[1]!r}", "register its creator before"
        raise PluginError("AR823", layers.where, got, "one with a creator of version 2", do)
    plugin = ask(layers.where, creator, "deserialize_plugin", layers.where, data)
    network: Any = layers.network  # as above
    layer = network.add_plugin_v2([x.it for x in inputs], plugin)
    layers.give_name(layer)
    return layers.outputs(layer)


def _field(where: str, name: str, value: object) -> PluginField:
    """A value as a field."""
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
    """What a field holds, and its type, None for what no field can be. Texts end with a zero, as in C."""
    elements = list(value) if isinstance(value, list | tuple) else [value]
    texts = [x + b"\0" for x in elements if isinstance(x, bytes)]
    if texts and len(texts) == len(elements):
        return b"".join(texts), P.CHAR
    if all(isinstance(x, int) for x in elements):
        return np.array(elements, np.int32).data, P.INT32
    if all(isinstance(x, float) for x in elements):
        return np.array(elements, np.float32).data, P.FLOAT32
    return b"", None
