"""Plug-ins of version 3, adapted to the common interface of `kinds.py`."""

from __future__ import annotations

from functools import cached_property
from operator import index

from anyrt.api.plugins.exprs import DimsExprs, IExprBuilder
from anyrt.api.plugins.field import PluginFieldCollection_, fields
from anyrt.api.plugins.kinds import (
    MOST_OUTPUTS,
    Descs,
    Dynamic,
    Enqueue,
    Kind,
    claim,
    listed,
    text,
    whole,
    wrong,
)
from anyrt.api.plugins.serialization import serialize
from anyrt.api.plugins.user_calls import call_function, call_method
from anyrt.api.plugins.v3 import FORMATS, IPluginResourceContext, IPluginV3
from anyrt.core.enums import DataType, PluginCapabilityType

MOST_BYTES = 1 << 46


class Version3(Kind):
    """An IPluginV3 with its interfaces for core, build and runtime."""

    _base = IPluginV3

    def _interface(self, kind: PluginCapabilityType) -> object:
        interface = self.call_method("get_capability_interface", kind)
        if interface is None:
            got, wanted = f"None for {kind.name}", "the object with these methods"
            raise self.wrong("get_capability_interface", got, wanted, "return self if it has them")
        return interface

    @cached_property
    def core(self) -> object:
        return self._interface(PluginCapabilityType.CORE)

    @cached_property
    def _build(self) -> object:
        return self._interface(PluginCapabilityType.BUILD)

    @cached_property
    def _run(self) -> object:
        return self._interface(PluginCapabilityType.RUNTIME)

    @property
    def key(self) -> tuple[str, str, str]:
        """From the attributes of its core."""
        names = (text(self.attribute(self.core, f"plugin_{x}")) for x in ("name", "version", "namespace"))
        name, version, namespace = names
        if not name:
            do = "set self.plugin_name in its __init__"
            raise wrong(self.where, self.core, "plugin_name", "no name", "a name", do)
        return name, version, namespace

    @property
    def outputs(self) -> int:
        """From `num_outputs`."""
        return whole(self, "num_outputs", self.attribute(self._build, "num_outputs"), 1, MOST_OUTPUTS)

    @property
    def limit(self) -> int:  # type: ignore[override]  # computed
        """From `format_combination_limit`."""
        name = "format_combination_limit"
        return whole(self, name, self._build_attribute(name, FORMATS), 1, 1 << 20)

    def _build_attribute(self, name: str, default: object) -> object:
        return self.attribute(self._build, name, default)

    @property
    def metadata(self) -> str:
        """From `metadata_string`."""
        return text(self._build_attribute("metadata_string", ""))

    @property
    def timing_id(self) -> str:
        """From `timing_cache_id`."""
        return text(self._build_attribute("timing_cache_id", ""))

    def types(self, inputs: list[DataType]) -> list[DataType]:
        """From `get_output_data_types`."""
        types = call_method(self.where, self._build, "get_output_data_types", inputs)
        return listed(self, "get_output_data_types", types, DataType, self.outputs)

    def shapes(
        self, inputs: list[DimsExprs], elements: list[DimsExprs], build: IExprBuilder
    ) -> list[DimsExprs]:
        """From `get_output_shapes`."""
        shapes = call_method(self.where, self._build, "get_output_shapes", inputs, elements, build)
        return listed(self, "get_output_shapes", shapes, DimsExprs, self.outputs)

    def supports(self, pos: int, in_out: Dynamic, inputs: int) -> bool:
        """From `supports_format_combination`."""
        result = call_method(self.where, self._build, "supports_format_combination", pos, in_out, inputs)
        return claim(self, "supports_format_combination", result)

    def configure(self, inp: Dynamic, out: Dynamic) -> None:
        """Call `configure_plugin`."""
        call_method(self.where, self._build, "configure_plugin", inp, out)

    def workspace(self, inp: Dynamic, out: Dynamic) -> int:
        """From `get_workspace_size`."""
        nbytes = call_method(self.where, self._build, "get_workspace_size", inp, out)
        return whole(self, "get_workspace_size", nbytes, 0, MOST_BYTES)

    def tactics(self) -> list[int]:
        """From `get_valid_tactics`: positive numbers, without duplicates."""
        if not hasattr(self._build, "get_valid_tactics"):
            return []
        result = call_method(self.where, self._build, "get_valid_tactics")
        try:
            numbers = [index(x) for x in (() if result is None else result)]
        except TypeError:
            raise self.wrong("get_valid_tactics", type(result).__name__, "a list of ints") from None
        tactics = [whole(self, "get_valid_tactics", x, 1, 2**31 - 1) for x in numbers]
        if len(set(tactics)) != len(tactics):
            raise self.wrong("get_valid_tactics", f"{tactics}", "each number once")
        return tactics

    def aliased(self, output: int) -> int:
        """From `get_aliased_input`."""
        if not hasattr(self._build, "get_aliased_input"):
            return -1
        source = call_method(self.where, self._build, "get_aliased_input", output)
        return whole(self, "get_aliased_input", source, -1, MOST_OUTPUTS)

    def serialized(self) -> bytes:
        """The fields of `get_fields_to_serialize`."""
        result = call_method(self.where, self._run, "get_fields_to_serialize")
        try:
            collection: PluginFieldCollection_ = fields(result, "get_fields_to_serialize")
        except TypeError as error:
            raise self.wrong("get_fields_to_serialize", type(result).__name__, "fields") from error
        return serialize(collection)

    def attach(self, context: IPluginResourceContext) -> Kind:
        """The result of `attach_to_context`."""
        plugin = call_method(self.where, self._run, "attach_to_context", context)
        return self._another(plugin, "attach_to_context")

    def set_tactic(self, tactic: int) -> None:
        """Call `set_tactic`."""
        call_method(self.where, self._run, "set_tactic", tactic)

    def show(self, inp: Descs, out: Descs) -> None:
        """Call `on_shape_change`."""
        call_method(self.where, self._run, "on_shape_change", inp, out)

    @property
    def enqueue(self) -> Enqueue:
        """The method `enqueue` of its runtime interface."""
        called = f"{type(self._run).__name__}.enqueue"
        own: Enqueue = call_function(self.where, called, lambda: getattr(self._run, "enqueue"))  # noqa: B009  # of any class
        return own
