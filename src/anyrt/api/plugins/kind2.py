"""Plug-ins of version 2, adapted to the common interface of `kinds.py`."""

from __future__ import annotations

from operator import index
from typing import Final

from anyrt.api.edge.interfaces import call_user
from anyrt.api.model.dims import Dims
from anyrt.api.plugins.desc import DynamicPluginTensorDesc, PluginTensorDesc
from anyrt.api.plugins.exprs import DimsExprs, IDimensionExpr, IExprBuilder
from anyrt.api.plugins.field import PluginField
from anyrt.api.plugins.kind3 import MOST_BYTES
from anyrt.api.plugins.kinds import MOST_OUTPUTS, Descs, Dynamic, Enqueue, Kind, claim, listed, text, whole
from anyrt.api.plugins.serialization import serialize
from anyrt.api.plugins.user_calls import call_function
from anyrt.api.plugins.v2 import IPluginV2, IPluginV2DynamicExt, IPluginV2Ext, IPluginV2IOExt, as_bytes
from anyrt.api.plugins.v3 import IPluginResourceContext
from anyrt.core.enums import DataType, TensorFormat
from anyrt.core.errors import PluginError

BATCH: Final = 1  # the implicit batch; shapes of the network contain the actual one


class Version2(Kind):
    """The methods that all plug-ins of version 2 share."""

    _base = IPluginV2

    @property
    def key(self) -> tuple[str, str, str]:
        """From `plugin_type`, `plugin_version` and `plugin_namespace`."""
        names = (text(self.attribute(self.plugin, f"plugin_{x}")) for x in ("type", "version", "namespace"))
        name, version, namespace = names
        if not name:
            raise self.wrong("plugin_type", "no name", "a name", "set self.plugin_type in its __init__")
        return name, version, namespace

    @property
    def outputs(self) -> int:
        """From `num_outputs`."""
        return whole(self, "num_outputs", self.attribute(self.plugin, "num_outputs"), 1, MOST_OUTPUTS)

    def serialized(self) -> bytes:
        """The bytes of `serialize`, as one field."""
        result = self.call_method("serialize")
        try:
            data = b"" if result is None else as_bytes(result)
        except (TypeError, UnicodeEncodeError) as error:
            raise self.wrong("serialize", type(result).__name__, "bytes") from error
        return serialize([PluginField("", data)])

    def attach(self, context: IPluginResourceContext) -> Kind:
        """A clone after `initialize`."""
        clone = self.clone()
        if isinstance(clone.plugin, IPluginV2Ext):
            clone.call_method("attach_to_context", None, None, None)
        status = clone.call_method("initialize")
        if isinstance(status, int) and status != 0:
            raise clone.wrong("initialize", f"{status}", "0")
        return clone

    def set_tactic(self, tactic: int) -> None:
        """Do nothing: version 2 has one tactic."""

    def release(self) -> None:
        """Call `terminate`, `detach_from_context` and `destroy`."""
        for method in ("terminate", "detach_from_context", "destroy"):
            function = getattr(self.plugin, method, None)
            if function is not None:
                call_user(None, function)


class DynamicVersion2(Version2):
    """An IPluginV2DynamicExt."""

    _base = IPluginV2DynamicExt

    def types(self, inputs: list[DataType]) -> list[DataType]:
        """From `get_output_datatype`."""
        types = [self.call_method("get_output_datatype", k, inputs) for k in range(self.outputs)]
        return listed(self, "get_output_datatype", types, DataType)

    def shapes(
        self, inputs: list[DimsExprs], elements: list[DimsExprs], build: IExprBuilder
    ) -> list[DimsExprs]:
        """From `get_output_dimensions`."""
        shapes = [self.call_method("get_output_dimensions", k, inputs, build) for k in range(self.outputs)]
        return listed(self, "get_output_dimensions", shapes, DimsExprs)

    def supports(self, pos: int, in_out: Dynamic, inputs: int) -> bool:
        """From `supports_format_combination`."""
        result = self.call_method("supports_format_combination", pos, [x.desc for x in in_out], inputs)
        return claim(self, "supports_format_combination", result)

    def configure(self, inp: Dynamic, out: Dynamic) -> None:
        """Call `configure_plugin`."""
        self.call_method("configure_plugin", inp, out)

    def workspace(self, inp: Dynamic, out: Dynamic) -> int:
        """From `get_workspace_size` for the maximum shapes."""
        most = ([_greatest(x) for x in side] for side in (inp, out))
        return whole(self, "get_workspace_size", self.call_method("get_workspace_size", *most), 0, MOST_BYTES)

    def show(self, inp: Descs, out: Descs) -> None:
        """Call `configure_plugin` with these shapes as the range."""
        self.configure([_fixed(x) for x in inp], [_fixed(x) for x in out])

    @property
    def enqueue(self) -> Enqueue:
        """The method `enqueue` of the plug-in."""
        function: Enqueue = self.plugin.enqueue  # type: ignore[attr-defined]  # by its class
        return function


class StaticVersion2(Version2):
    """An IPluginV2 or IPluginV2Ext: with static shapes, and a batch of 1."""

    def types(self, inputs: list[DataType]) -> list[DataType]:
        """From `get_output_data_type`; for an IPluginV2 the type of the first input."""
        if not isinstance(self.plugin, IPluginV2Ext):
            return [inputs[0] if inputs else DataType.FLOAT] * self.outputs
        types = [self.call_method("get_output_data_type", k, inputs) for k in range(self.outputs)]
        return listed(self, "get_output_data_type", types, DataType)

    def shapes(
        self, inputs: list[DimsExprs], elements: list[DimsExprs], build: IExprBuilder
    ) -> list[DimsExprs]:
        """From `get_output_shape`."""
        if not all(size.is_constant() for dims in inputs for size in dims):
            do = "derive it from trt.IPluginV2DynamicExt, or use static input shapes"
            raise PluginError(
                "AR822",
                self.where,
                "dynamic dimensions for a plug-in with static shapes",
                "static dimensions",
                do,
            )
        sizes = [Dims([size.get_constant_value() for size in dims]) for dims in inputs]
        shapes = [self.call_method("get_output_shape", k, sizes) for k in range(self.outputs)]
        return [self._exprs(x) for x in shapes]

    def _exprs(self, dims: object) -> DimsExprs:
        if not isinstance(dims, Dims | list | tuple):
            raise self.wrong("get_output_shape", type(dims).__name__, "Dims")
        method = "get_output_shape"
        sizes = call_function(self.where, method, lambda: [IDimensionExpr(index(n)) for n in dims])
        exprs: DimsExprs = call_function(self.where, method, lambda: DimsExprs(sizes))
        return exprs

    def supports(self, pos: int, in_out: Dynamic, inputs: int) -> bool:
        """From `supports_format`, with the same format for all tensors."""
        mine = in_out[pos].desc
        if pos and mine.format is not in_out[0].desc.format:
            return False
        result = self.call_method("supports_format", mine.type, mine.format)
        return claim(self, "supports_format", result)

    def configure(self, inp: Dynamic, out: Dynamic) -> None:
        """Call `configure_plugin` or `configure_with_format`."""
        shapes = [[x.opt for x in side] for side in (inp, out)]
        types = [[x.desc.type for x in side] for side in (inp, out)]
        first = inp[0].desc if inp else PluginTensorDesc()
        form: TensorFormat = first.format
        if isinstance(self.plugin, IPluginV2Ext):
            apart = ([False] * len(side) for side in (inp, out))
            self.call_method("configure_plugin", *shapes, *types, *apart, form, BATCH)
        else:
            self.call_method("configure_with_format", *shapes, first.type, form, BATCH)

    def workspace(self, inp: Dynamic, out: Dynamic) -> int:
        """From `get_workspace_size` for a batch of 1."""
        return whole(self, "get_workspace_size", self.call_method("get_workspace_size", BATCH), 0, MOST_BYTES)

    def show(self, inp: Descs, out: Descs) -> None:
        """Call `configure_plugin`."""
        self.configure([_fixed(x) for x in inp], [_fixed(x) for x in out])

    @property
    def enqueue(self) -> Enqueue:
        """A function that calls `execute_async` and checks its status."""
        execute = self.plugin.execute_async  # type: ignore[attr-defined]  # by its class

        def run(
            inp: Descs, out: Descs, inputs: list[int], outputs: list[int], workspace: int, stream: int
        ) -> None:
            status = execute(BATCH, inputs, outputs, workspace, stream)
            if isinstance(status, int) and status != 0:
                raise self.wrong("execute_async", f"status {status}", "0")

        return run


class FormattedVersion2(StaticVersion2):
    """An IPluginV2IOExt: a StaticVersion2 with a type and format for each tensor."""

    _base = IPluginV2IOExt

    def supports(self, pos: int, in_out: Dynamic, inputs: int) -> bool:
        """From `supports_format_combination`."""
        descs = [x.desc for x in in_out]
        result = self.call_method("supports_format_combination", pos, descs, inputs, len(descs) - inputs)
        return claim(self, "supports_format_combination", result)

    def configure(self, inp: Dynamic, out: Dynamic) -> None:
        """Call `configure_plugin`."""
        self.call_method("configure_plugin", [x.desc for x in inp], [x.desc for x in out])


def _greatest(x: DynamicPluginTensorDesc) -> PluginTensorDesc:
    desc = PluginTensorDesc()
    desc.dims, desc.type, desc.format, desc.scale = x.max, x.desc.type, x.desc.format, x.desc.scale
    return desc


def _fixed(x: PluginTensorDesc) -> DynamicPluginTensorDesc:
    desc = DynamicPluginTensorDesc()
    desc.desc, desc.min, desc.opt, desc.max = x, x.dims, x.dims, x.dims
    return desc
