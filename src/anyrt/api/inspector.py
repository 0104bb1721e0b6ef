"""What an engine tells about itself, as lines or as JSON."""

from __future__ import annotations

import json

from anyrt.api.context import IExecutionContext
from anyrt.api.edge import Channel, Reporting, integer, quiet, wrong_type
from anyrt.core.dtype import short_name
from anyrt.core.enums import LayerInformationFormat, ProfilingVerbosity
from anyrt.core.errors import ArgumentError
from anyrt.plan.plan import Binding, LayerRecord, Plan

Format = LayerInformationFormat


class EngineInspector(Reporting):
    """Tells about the layers and tensors of an engine; detail follows the build's `profiling_verbosity`."""

    def __init__(
        self, plan: Plan, bindings: tuple[Binding, ...], kernels: tuple[str, ...], parent: Channel
    ) -> None:
        self._plan = plan
        self._bindings = bindings
        self._kernels = kernels
        self._channel = Channel(parent.logger, parent)
        self._context: IExecutionContext | None = None
        self._verbosity = dict(plan.settings).get("verbosity", "")

    @property
    def execution_context(self) -> IExecutionContext | None:
        """The context whose shapes are shown instead of −1."""
        return self._context

    @execution_context.setter
    def execution_context(self, context: IExecutionContext | None) -> None:
        if context is not None and not isinstance(context, IExecutionContext):
            raise wrong_type("execution_context", context, "an IExecutionContext or None")
        self._context = context

    @quiet("")
    def get_layer_information(self, layer_index: int, format: Format) -> str:
        """One layer: its name, and with detailed verbosity all that is known."""
        _check(format)
        if not 0 <= integer(layer_index, "get_layer_information") < len(self._plan.layers):
            got, wanted = f"layer {layer_index}", f"below {len(self._plan.layers)}"
            raise ArgumentError("AR312", "get_layer_information", got, wanted)
        shown = self._layer(self._plan.layers[layer_index])
        return json.dumps(shown) if format is Format.JSON else _line(shown)

    @quiet("")
    def get_engine_information(self, format: Format) -> str:
        """All layers and tensors, the kernels, and the build report."""
        _check(format)
        layers = [self._layer(x) for x in self._plan.layers]
        bindings = [self._binding(b) for b in self._bindings]
        if format is Format.JSON:
            whole = {
                "Layers": layers,
                "Bindings": bindings,
                "Kernels": [*self._kernels],
                "Report": self._plan.report,
            }
            return json.dumps(whole, indent=1)
        parts = ["Layers:", *map(_line, layers), "", "Bindings:", *map(_line, bindings), "", "Kernels:"]
        return "\n".join([*parts, *self._kernels, "", self._plan.report])

    def _layer(self, layer: LayerRecord) -> str | dict[str, object]:
        if self._verbosity == ProfilingVerbosity.NONE.name:
            return ""
        if self._verbosity != ProfilingVerbosity.DETAILED.name:
            return layer.name
        parts = {"Inputs": [*layer.inputs], "Outputs": [*layer.outputs]}
        return {"Name": layer.name, "LayerType": layer.kind, **parts, **dict(layer.details)}

    def _binding(self, binding: Binding) -> str | dict[str, object]:
        if self._verbosity != ProfilingVerbosity.DETAILED.name:
            return binding.name
        shape = [d if isinstance(d, int) else -1 for d in binding.shape]
        if self._context is not None:
            shape = list(self._context.get_tensor_shape(binding.name))
        io = "Input" if binding.is_input else "Output"
        return {"Name": binding.name, "Mode": io, "DataType": short_name(binding.dtype), "Dimensions": shape}


def _line(shown: str | dict[str, object]) -> str:
    return shown if isinstance(shown, str) else ", ".join(f"{k}: {v}" for k, v in shown.items())


def _check(format: object) -> None:
    if not isinstance(format, Format):
        raise wrong_type("EngineInspector", format, "a LayerInformationFormat")
