"""Plug-ins of version 3, as building and running see them."""

from __future__ import annotations

from functools import cached_property
from operator import index

from anyrt.api.plugins.asking import ask, asked
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
from anyrt.api.plugins.stored import packed
from anyrt.api.plugins.v3 import FORMATS, IPluginResourceContext, IPluginV3
from anyrt.core.enums import DataType
from anyrt.core.enums_more import PluginCapabilityType

MOST_BYTES = 1 << 46


class Version3(Kind):
    """An IPluginV3 with the faces that it has."""

    _base = IPluginV3

    def _face(self, kind: PluginCapabilityType) -> object:
        found = self.ask("get_capability_interface", kind)
        if found is None:
            got, wanted = f"None for {kind.name}", "the object with these methods"
            raise self.wrong("get_capability_interface", got, wanted, "return self where it has them")
        return found

    @cached_property
    def core(self) -> object:
        return self._face(PluginCapabilityType.CORE)

    @cached_property
    def _build(self) -> object:
        return self._face(PluginCapabilityType.BUILD)

    @cached_property
    def _run(self) -> object:
        return self._face(PluginCapabilityType.RUNTIME)

    @property
    def who(self) -> tuple[str, str, str]:
        """As its core says."""
        names = (text(self.told_by(self.core, f"plugin_{x}")) for x in ("name", "version", "namespace"))
        name, version, namespace = names
        if not name:
            do = "set self.plugin_name in its __init__"
            raise wrong(self.where, self.core, "plugin_name", "no name", "a name", do)
        return name, version, namespace

    @property
    def outputs(self) -> int:
        """As `num_outputs` says."""
        return whole(self, "num_outputs", self.told_by(self._build, "num_outputs"), 1, MOST_OUTPUTS)

    @property
    def limit(self) -> int:  # type: ignore[override]  # computed
        """As `format_combination_limit` says."""
        return whole(
            self, "format_combination_limit", self._told("format_combination_limit", FORMATS), 1, 1 << 20
        )

    def _told(self, name: str, default: object) -> object:
        return self.told_by(self._build, name, default)

    @property
    def metadata(self) -> str:
        """As `metadata_string` says."""
        return text(self._told("metadata_string", ""))

    @property
    def timing_id(self) -> str:
        """As `timing_cache_id` says."""
        return text(self._told("timing_cache_id", ""))

    def types(self, inputs: list[DataType]) -> list[DataType]:
        """As `get_output_data_types` says."""
        found = ask(self.where, self._build, "get_output_data_types", inputs)
        return listed(self, "get_output_data_types", found, DataType, self.outputs)

    def shapes(
        self, inputs: list[DimsExprs], elements: list[DimsExprs], build: IExprBuilder
    ) -> list[DimsExprs]:
        """As `get_output_shapes` says."""
        found = ask(self.where, self._build, "get_output_shapes", inputs, elements, build)
        return listed(self, "get_output_shapes", found, DimsExprs, self.outputs)

    def supports(self, pos: int, in_out: Dynamic, inputs: int) -> bool:
        """As `supports_format_combination` says."""
        found = ask(self.where, self._build, "supports_format_combination", pos, in_out, inputs)
        return claim(self, "supports_format_combination", found)

    def configure(self, inp: Dynamic, out: Dynamic) -> None:
        """By `configure_plugin`."""
        ask(self.where, self._build, "configure_plugin", inp, out)

    def workspace(self, inp: Dynamic, out: Dynamic) -> int:
        """As `get_workspace_size` says."""
        found = ask(self.where, self._build, "get_workspace_size", inp, out)
        return whole(self, "get_workspace_size", found, 0, MOST_BYTES)

    def tactics(self) -> list[int]:
        """As `get_valid_tactics` says: other numbers than 0, each once."""
        if not hasattr(self._build, "get_valid_tactics"):
            return []
        answer = ask(self.where, self._build, "get_valid_tactics")
        try:
            numbers = [index(x) for x in (() if answer is None else answer)]
        except TypeError:
            raise self.wrong("get_valid_tactics", type(answer).__name__, "a list of ints") from None
        found = [whole(self, "get_valid_tactics", x, 1, 2**31 - 1) for x in numbers]
        if len(set(found)) != len(found):
            raise self.wrong("get_valid_tactics", f"{found}", "each number once")
        return found

    def aliased(self, output: int) -> int:
        """As `get_aliased_input` says."""
        if not hasattr(self._build, "get_aliased_input"):
            return -1
        found = ask(self.where, self._build, "get_aliased_input", output)
        return whole(self, "get_aliased_input", found, -1, MOST_OUTPUTS)

    def made(self) -> bytes:
        """The fields of `get_fields_to_serialize`."""
        found = ask(self.where, self._run, "get_fields_to_serialize")
        try:
            given: PluginFieldCollection_ = fields(found, "get_fields_to_serialize")
        except TypeError as error:
            raise self.wrong("get_fields_to_serialize", type(found).__name__, "fields") from error
        return packed(given)

    def attach(self, context: IPluginResourceContext) -> Kind:
        """The result of `attach_to_context`."""
        found = ask(self.where, self._run, "attach_to_context", context)
        return self._another(found, "attach_to_context")

    def set_tactic(self, tactic: int) -> None:
        """By `set_tactic`."""
        ask(self.where, self._run, "set_tactic", tactic)

    def show(self, inp: Descs, out: Descs) -> None:
        """By `on_shape_change`."""
        ask(self.where, self._run, "on_shape_change", inp, out)

    @property
    def enqueue(self) -> Enqueue:
        """The method of its runtime face."""
        called = f"{type(self._run).__name__}.enqueue"
        own: Enqueue = asked(self.where, called, lambda: getattr(self._run, "enqueue"))  # noqa: B009  # of any class
        return own
