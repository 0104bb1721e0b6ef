"""Plug-in creators, which make plug-ins from fields. The registry finds them by name, version and namespace.

class DoubledCreator(trt.IPluginCreatorV3One):
    def __init__(self):
        trt.IPluginCreatorV3One.__init__(self)
        self.name, self.plugin_version, self.plugin_namespace = "Doubled", "1", ""
        self.field_names = trt.PluginFieldCollection([])
    def create_plugin(self, name, field_collection, phase):
        return Doubled()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import pure
from anyrt.api.plugins.field import PluginFieldCollection, PluginFieldCollection_, fields
from anyrt.api.plugins.typed import TypedAttribute
from anyrt.api.plugins.v2 import NUMBER, IPluginV2
from anyrt.api.plugins.v3 import IPluginV3, Part
from anyrt.core.enums import QuickPluginCreationRequest, TensorRTPhase

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Named:
    """The properties of every creator."""

    __slots__ = ()

    name = TypedAttribute(str, "", "The name of its plug-ins.")
    plugin_version = TypedAttribute(str, "", "The version of its plug-ins.")
    plugin_namespace = TypedAttribute(str, "", "The namespace of the creator in the registry.")

    @property
    def field_names(self) -> PluginFieldCollection_:
        """The fields that it accepts."""
        return fields(self.__dict__.get("field_names"), "field_names")

    @field_names.setter
    def field_names(self, names: PluginFieldCollection | PluginFieldCollection_) -> None:
        self.__dict__["field_names"] = fields(names, "field_names")


@fold
class IPluginCreatorInterface(Part):
    """The base class of plug-in creators."""

    __slots__ = ()


@fold
class IPluginCreator(_Named, IPluginCreatorInterface):
    """Makes plug-ins of version 2."""

    __slots__ = ()

    @property
    def tensorrt_version(self) -> int:
        """The version of TensorRT that its interface follows."""
        return NUMBER

    def create_plugin(self, name: str, field_collection: PluginFieldCollection_) -> IPluginV2:
        """A plug-in with these fields; `name`: the name of its layer."""
        pure(self, "create_plugin")

    def deserialize_plugin(self, name: str, serialized_plugin: ReadableBuffer) -> IPluginV2:
        """A plug-in from its serialized form in a plan."""
        pure(self, "deserialize_plugin")


@fold
class IPluginCreatorV3One(_Named, IPluginCreatorInterface):
    """Makes plug-ins of version 3."""

    __slots__ = ()

    def create_plugin(
        self, name: str, field_collection: PluginFieldCollection_, phase: TensorRTPhase
    ) -> IPluginV3:
        """A plug-in with these fields, for the builder or the runtime; `name`: the name of its layer."""
        pure(self, "create_plugin")


@fold
class IPluginCreatorV3Quick(_Named, IPluginCreatorInterface):
    """Makes plug-ins from functions (`trt.plugin`)."""

    __slots__ = ()

    def create_plugin(
        self,
        name: str,
        namespace: str,
        field_collection: PluginFieldCollection_,
        phase: TensorRTPhase,
        quickPluginType: QuickPluginCreationRequest,
    ) -> IPluginV3:
        """A plug-in with these fields."""
        pure(self, "create_plugin")
