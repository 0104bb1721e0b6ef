"""The creators of standard plug-ins, and the function that registers them.

    trt.init_libnvinfer_plugins(logger, "")
    creator = trt.get_plugin_registry().get_creator("EfficientNMS_TRT", "1", "")
    nms = creator.create_plugin("nms", trt.PluginFieldCollection([trt.PluginField("iou_threshold", ...)]))
    layer = network.add_plugin_v2([boxes, scores], nms)

The plug-in is a composition of layers, which fuse with the layers around it. A plan contains no plug-in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from anyrt.api.edge.interfaces import ILogger, Logger
from anyrt.api.edge.quiet import Channel, quiet, wrong_type
from anyrt.api.plugins.composed import Composed
from anyrt.api.plugins.creators import IPluginCreator, IPluginCreatorV3One
from anyrt.api.plugins.field import (
    ELEMENTS,
    PluginField,
    PluginFieldCollection,
    PluginFieldCollection_,
    listed,
)
from anyrt.api.plugins.registry import the_registry
from anyrt.api.plugins.standard import STANDARD
from anyrt.api.plugins.standard._part import compose
from anyrt.api.plugins.standard._record import FieldValue, Standard
from anyrt.api.plugins.v2 import IPluginV2DynamicExt
from anyrt.api.plugins.v3 import (
    IPluginV3,
    IPluginV3OneBuild,
    IPluginV3OneCore,
    IPluginV3OneRuntime,
)
from anyrt.core.enums import PluginCapabilityType, PluginFieldType, TensorRTPhase
from anyrt.core.errors import PluginError
from anyrt.ir.graph import Value

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


@dataclass(frozen=True, slots=True)
class Composition:
    """A version of a record with the fields of a program, and their values."""

    standard: Standard
    version: str
    fields: tuple[PluginField, ...]
    values: Mapping[str, FieldValue]

    def expand(self, name: str, inputs: Sequence[Value]) -> tuple[Value, ...]:
        """The values of the outputs of a layer called `name`."""
        return compose(self.standard, self.version, name, self.values, inputs)


class StandardV2(IPluginV2DynamicExt, Composed):
    """A standard plug-in of version 2."""

    def __init__(self, composition: Composition) -> None:
        IPluginV2DynamicExt.__init__(self)
        self._composition = composition
        self.plugin_type, self.plugin_version = composition.standard.name, composition.version
        self.num_outputs = composition.standard.output_count(composition.values)

    def _composed(self, name: str, inputs: Sequence[Value]) -> tuple[Value, ...]:
        return self._composition.expand(name, inputs)

    def clone(self) -> StandardV2:
        """A copy with the same fields."""
        plugin = StandardV2(self._composition)
        plugin.plugin_namespace = self.plugin_namespace
        return plugin

    def serialize(self) -> bytes:
        """The fields as JSON text."""
        rows = [[f.name, f.type.name, f.data.tolist()] for f in self._composition.fields]
        return json.dumps(rows).encode()


class StandardV3(IPluginV3, IPluginV3OneCore, IPluginV3OneBuild, IPluginV3OneRuntime, Composed):
    """A standard plug-in of version 3."""

    def __init__(self, composition: Composition) -> None:
        for base in (IPluginV3, IPluginV3OneCore, IPluginV3OneBuild, IPluginV3OneRuntime):
            base.__init__(self)
        self._composition = composition
        self.plugin_name, self.plugin_version = composition.standard.name, composition.version
        self.num_outputs = composition.standard.output_count(composition.values)

    def _composed(self, name: str, inputs: Sequence[Value]) -> tuple[Value, ...]:
        return self._composition.expand(name, inputs)

    def get_capability_interface(self, type: PluginCapabilityType) -> object:
        """The plug-in itself."""
        return self

    def clone(self) -> StandardV3:
        """A copy with the same fields."""
        plugin = StandardV3(self._composition)
        plugin.plugin_namespace = self.plugin_namespace
        return plugin

    def get_fields_to_serialize(self) -> PluginFieldCollection:
        """The fields of the plug-in."""
        return PluginFieldCollection(self._composition.fields)


class CreatorV2(IPluginCreator):
    """Makes standard plug-ins of version 2."""

    def __init__(self, standard: Standard, version: str, channel: Channel) -> None:
        IPluginCreator.__init__(self)
        self._standard, self._channel = standard, channel
        self.name, self.plugin_version = standard.name, version
        self.field_names = _names(standard)

    @quiet(None)
    def create_plugin(self, name: str, field_collection: PluginFieldCollection_) -> StandardV2:
        """A plug-in with these fields.

        Errors: AR823, an unknown field; AR822, a missing field; AR304, a wrong type or value."""
        fields = listed(field_collection, "create_plugin: field_collection")
        return self._plugin(fields)

    @quiet(None)
    def deserialize_plugin(self, name: str, serialized_plugin: ReadableBuffer) -> StandardV2:
        """A plug-in from its serialized form; AR822 for invalid bytes."""
        return self._plugin(_fields(bytes(serialized_plugin), self.name))

    def _plugin(self, fields: Sequence[PluginField]) -> StandardV2:
        plugin = StandardV2(_composition(self._standard, self.plugin_version, fields))
        plugin.plugin_namespace = self.plugin_namespace
        return plugin


class CreatorV3(IPluginCreatorV3One):
    """Makes standard plug-ins of version 3."""

    def __init__(self, standard: Standard, version: str, channel: Channel) -> None:
        IPluginCreatorV3One.__init__(self)
        self._standard, self._channel = standard, channel
        self.name, self.plugin_version = standard.name, version
        self.field_names = _names(standard)

    @quiet(None)
    def create_plugin(
        self, name: str, field_collection: PluginFieldCollection_, phase: TensorRTPhase
    ) -> StandardV3:
        """A plug-in with these fields.

        Errors: AR823, an unknown field; AR822, a missing field; AR304, a wrong type or value."""
        fields = listed(field_collection, "create_plugin: field_collection")
        plugin = StandardV3(_composition(self._standard, self.plugin_version, fields))
        plugin.plugin_namespace = self.plugin_namespace
        return plugin


def _composition(standard: Standard, version: str, fields: Sequence[PluginField]) -> Composition:
    return Composition(standard, version, tuple(fields), standard.read(fields))


def _names(standard: Standard) -> PluginFieldCollection_:
    """The fields that a plug-in accepts, without data."""
    fields = [PluginField(f.name, None, f.types[0]) for f in standard.fields]
    return PluginFieldCollection_(PluginFieldCollection(fields))


def _fields(data: bytes, where: str) -> list[PluginField]:
    """The fields that `serialize` wrote."""
    try:
        rows = json.loads(data)
        return [PluginField(name, _bytes(values, kind), PluginFieldType[kind]) for name, kind, values in rows]
    except (ValueError, TypeError, KeyError) as error:
        got, wanted = f"{type(error).__name__}: {error}", "the result of its serialize method"
        raise PluginError("AR822", where, got, wanted, "pass the serialized bytes unchanged") from None


def _bytes(values: Sequence[float], kind: str) -> bytes:
    return np.array(values, ELEMENTS[PluginFieldType[kind]]).tobytes()


def init_libnvinfer_plugins(logger: ILogger | None, namespace: str) -> bool:
    """Register the creators of TensorRT's standard plug-ins in a namespace, except those that are registered
    already.

    trt.init_libnvinfer_plugins(trt.Logger(), "")"""
    if logger is not None and not isinstance(logger, ILogger):
        raise wrong_type("init_libnvinfer_plugins", logger, "an ILogger or None")
    if not isinstance(namespace, str):
        raise wrong_type("init_libnvinfer_plugins", namespace, "a namespace as str")
    registry, channel = the_registry(), Channel(logger or Logger())
    for standard in STANDARD:
        for version in standard.versions:
            if registry.get_creator(standard.name, version, namespace) is None:
                kind = CreatorV3 if version in standard.v3 else CreatorV2
                registry.register_creator(kind(standard, version, channel), namespace)
    return True
