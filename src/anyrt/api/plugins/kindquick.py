"""Plug-ins made from functions, adapted to the common interface of `kinds.py`."""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.api.plugins.desc import PluginTensorDesc
from anyrt.api.plugins.exprs import DimsExprs, IExprBuilder
from anyrt.api.plugins.kind3 import Version3
from anyrt.api.plugins.kinds import MOST_OUTPUTS, Descs, Dynamic, Enqueue, Kind, listed, text, whole
from anyrt.api.plugins.user_calls import call_method
from anyrt.api.plugins.v3 import IPluginResourceContext, IPluginV3, IPluginV3QuickCore, IPluginV3QuickRuntime
from anyrt.core.dims import Dim
from anyrt.core.enums import DataType
from anyrt.core.errors import NotSupportedError, PluginError
from anyrt.core.formats import order, padded, splits


def version3(plugin: IPluginV3, where: str) -> Version3:
    """The kind of a plug-in of version 3, which depends on its core."""
    kind = Version3(plugin, where)
    return Quick(plugin, where) if isinstance(kind.core, IPluginV3QuickCore) else kind


class Quick(Version3):
    """An IPluginV3 with the interfaces of a plug-in made from functions."""

    def __init__(self, plugin: object, where: str) -> None:
        Version3.__init__(self, plugin, where)
        self._combinations: Sequence[PluginTensorDesc] = ()
        self._strides: tuple[list[list[int]], list[list[int]]] = ([], [])

    @property
    def outputs(self) -> int:
        """From `get_num_outputs`."""
        count = call_method(self.where, self._build, "get_num_outputs")
        return whole(self, "get_num_outputs", count, 1, MOST_OUTPUTS)

    @property
    def metadata(self) -> str:
        """From `get_metadata_string`."""
        return text(call_method(self.where, self._build, "get_metadata_string"))

    @property
    def timing_id(self) -> str:
        """From `get_timing_cache_id`."""
        return text(call_method(self.where, self._build, "get_timing_cache_id"))

    def types(self, inputs: list[DataType]) -> list[DataType]:
        """From `get_output_data_types`."""
        types = call_method(self.where, self._build, "get_output_data_types", inputs, self.ranks)
        return listed(self, "get_output_data_types", types, DataType, self.outputs)

    def shapes(
        self, inputs: list[DimsExprs], elements: list[DimsExprs], build: IExprBuilder
    ) -> list[DimsExprs]:
        """From `get_output_shapes`."""
        method = "get_output_shapes"
        shapes = call_method(self.where, self._build, method, inputs, elements, build, self.ranks)
        return listed(self, method, shapes, DimsExprs, self.outputs)

    def supports(self, pos: int, in_out: Dynamic, inputs: int) -> bool:
        """Whether one of the combinations matches. The query for the first tensor requests them."""
        if pos == 0:
            method = "get_supported_format_combinations"
            combinations = call_method(self.where, self._build, method, in_out, inputs)
            self._combinations = listed(self, method, combinations, PluginTensorDesc)
        count = len(in_out)
        pairs = [(x.desc.type, x.desc.format) for x in in_out[: pos + 1]]
        rows = (self._combinations[k : k + pos + 1] for k in range(0, len(self._combinations), count))
        return any([(x.type, x.format) for x in row] == pairs for row in rows)

    def workspace(self, inp: Dynamic, out: Dynamic) -> int:
        """0: these plug-ins have no workspace."""
        return 0

    def attach(self, context: IPluginResourceContext) -> Kind:
        """A clone."""
        return self.clone()

    def show(self, inp: Descs, out: Descs) -> None:
        """Compute the strides for these shapes."""
        self._strides = [_strides(x) for x in inp], [_strides(x) for x in out]

    @property
    def enqueue(self) -> Enqueue:
        """A function that calls `enqueue` of its runtime interface with strides in place of a workspace."""
        run = self._run
        if not isinstance(run, IPluginV3QuickRuntime):
            do = "derive it from IPluginV3QuickRuntime, or write functions for anyrt.plugin"
            raise NotSupportedError("AR901", self.where, type(run).__name__, "a class with enqueue", do)
        own = run.enqueue

        def call(
            inp: Descs, out: Descs, inputs: list[int], outputs: list[int], workspace: int, stream: int
        ) -> None:
            try:
                own(inp, out, inputs, outputs, *self._strides, stream)
            except (PluginError, NotSupportedError) as error:  # of one of the functions
                raise error.at(f"{self.where}: {error.where}") from error.__cause__

        return call


def _strides(x: PluginTensorDesc) -> list[int]:
    """The strides in elements; empty for a format without strides."""
    if splits(x.format):
        return []
    shape = tuple(x.dims)
    whole_shape: Sequence[Dim] = padded(x.format, x.type, shape)
    strides, step = [1] * len(shape), 1
    for axis in reversed(order(x.format, len(shape))):
        size = whole_shape[axis]
        assert isinstance(size, int), "an inference has static shapes"
        strides[axis], step = step, step * size
    return strides
