"""The creator that the registry holds for the plug-ins of a definition."""

from __future__ import annotations

from anyrt.api.edge.quiet import WrongValue
from anyrt.api.plugins.creators import IPluginCreatorV3Quick
from anyrt.api.plugins.field import PluginField, PluginFieldCollection, PluginFieldCollection_, fields
from anyrt.api.plugins.functions.attributes import FIELDS, from_field, to_field
from anyrt.api.plugins.functions.kernel import MARK, Kernel
from anyrt.api.plugins.functions.quick import Definition, Quick
from anyrt.api.plugins.functions.signature import element, is_array
from anyrt.api.plugins.v3 import IPluginV3
from anyrt.core.enums import PluginFieldType, TensorRTPhase
from anyrt.core.enums import QuickPluginCreationRequest as Request
from anyrt.core.errors import ArgumentError


class QuickCreator(IPluginCreatorV3Quick):
    """Makes the plug-ins of a definition."""

    def __init__(self, definition: Definition) -> None:
        IPluginCreatorV3Quick.__init__(self)
        self.definition = definition
        self.plugin_namespace, self.name = definition.names
        self.plugin_version = "1"
        attributes = definition.signature.attributes.items()
        self.field_names = PluginFieldCollection(
            [PluginField(name, b"", _field_type(kind)) for name, kind in attributes]
        )

    def create_plugin(
        self,
        name: str,
        namespace: str,
        field_collection: PluginFieldCollection_,
        phase: TensorRTPhase,
        quickPluginType: Request = Request.UNKNOWN,
    ) -> IPluginV3:
        """A plug-in with these fields. The runtime requires the parameters of `impl`, a build all
        attributes."""
        d = self.definition
        values, kernel = {}, False
        collection = fields(field_collection, f"{d.plugin_id}: field_collection")
        for field in (collection[k] for k in range(len(collection))):
            if field.name == MARK:
                kernel = True
                continue
            if field.name not in d.signature.attributes:
                known = ", ".join(d.signature.attributes) or "none"
                raise WrongValue(ArgumentError("AR304", d.plugin_id, f"a field {field.name!r}", known, ""))
            values[field.name] = from_field(field, d.signature.attributes[field.name])
        by_kernel = kernel or (phase is TensorRTPhase.BUILD and _is_aot(d, quickPluginType))
        runs = d.aot_attributes if by_kernel else d.impl_attributes
        required = d.signature.attributes if phase is TensorRTPhase.BUILD else runs
        missing = [name for name in required if name not in values]
        if missing:
            do = "pass the attribute, as the register function declares it"
            raise WrongValue(ArgumentError("AR306", d.plugin_id, f"no {', '.join(missing)}", "a value", do))
        return Kernel(d, values) if by_kernel else Quick(d, values)


def _field_type(kind: object) -> PluginFieldType:
    if is_array(kind):
        dtype = element(kind)
        return PluginFieldType.UNKNOWN if dtype is None else FIELDS[dtype]
    assert isinstance(kind, type), "read() rejects other annotations"
    return to_field("", kind()).type


def _is_aot(d: Definition, request: Request) -> bool:
    """Whether `aot_impl` computes the plug-in; ValueError if the requested one does not exist."""
    has = {"impl": d.impl is not None, "aot_impl": d.aot_impl is not None}
    asked_for = {Request.STRICT_AOT: "aot_impl", Request.STRICT_JIT: "impl"}.get(request)
    if asked_for is not None and not has[asked_for]:
        raise _lacks(d, f"no {asked_for} function", f"write @{asked_for}({d.plugin_id!r})")
    if not any(has.values()):
        raise _lacks(d, "no impl or aot_impl function", f"write @impl({d.plugin_id!r})")
    if all(has.values()) and request is Request.UNKNOWN:
        do = "write network.add_plugin(..., aot=False), or create the network with PREFER_JIT_PYTHON_PLUGINS"
        raise _lacks(d, "both impl and aot_impl", do)
    prefers = asked_for == "aot_impl" or (asked_for is None and request is Request.PREFER_AOT)
    return has["aot_impl"] and (prefers or not has["impl"])


def _lacks(d: Definition, got: str, do: str) -> WrongValue:
    return WrongValue(ArgumentError("AR306", d.plugin_id, got, "one impl or aot_impl function", do))
