"""Information about an engine, as lines or as JSON, with the keys of TensorRT 10."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from anyrt.api.building.formats import describe
from anyrt.api.edge.fold import fold
from anyrt.api.edge.oneline import one_line, quoted
from anyrt.api.edge.quiet import Channel, Reporting, integer, quiet, wrong_type
from anyrt.api.run.context import IExecutionContext, last_times, run_of
from anyrt.api.run.convolved import Shown, convolution, without_groups
from anyrt.compiler.cached import build_seconds
from anyrt.core.dims import Dim
from anyrt.core.enums import DataType, LayerInformationFormat, ProfilingVerbosity, TensorFormat
from anyrt.core.errors import AnyrtError, ArgumentError
from anyrt.core.lines import in_line
from anyrt.core.units import counted
from anyrt.plan.kernels import KernelRecord, TensorRecord, parse_records
from anyrt.plan.plan import Binding, LayerRecord, Plan
from anyrt.plan.program import Program
from anyrt.plan.report import Report, by_layer, full_text, parse_report, short_text
from anyrt.runtime.shapes import value_of

Format = LayerInformationFormat
# The texts from which tools parse the element type, as in TensorRT.
FORMATS: Final = {
    DataType.FLOAT: "Row major linear FP32",
    DataType.HALF: "Row major linear FP16 format",
    DataType.BF16: "Row major linear BFloat16 format",
    DataType.FP8: "Row major linear FP8 format",
    DataType.FP4: "Row major linear FP4 format",
    DataType.E8M0: "Row major linear E8M0 format",
    DataType.INT8: "Row major Int8 format",
    DataType.UINT8: "Row major linear UInt8 format",
    DataType.INT32: "Row major linear Int32",
    DataType.INT64: "Row major linear Int64 format",
    DataType.INT4: "Row major linear Int4 format",
    DataType.BOOL: "Row major linear BOOL",
    DataType.DOUBLE: "Row major linear FP64 format",
    DataType.INT16: "Row major linear Int16 format",
    DataType.UINT16: "Row major linear UInt16 format",
    DataType.UINT32: "Row major linear UInt32 format",
    DataType.UINT64: "Row major linear UInt64 format",
    DataType.UINT4: "Row major linear UInt4 format",
    DataType.INT2: "Row major linear Int2 format",
    DataType.UINT2: "Row major linear UInt2 format",
    DataType.FP8E5M2: "Row major linear FP8 E5M2 format",
    DataType.FP8E4M3FNUZ: "Row major linear FP8 E4M3FNUZ format",
    DataType.FP8E5M2FNUZ: "Row major linear FP8 E5M2FNUZ format",
}
TYPES: Final = {
    DataType.FLOAT: "Float",
    DataType.HALF: "Half",
    DataType.BF16: "BFloat16",
    DataType.FP8: "FP8",
    DataType.FP4: "FP4",
    DataType.E8M0: "E8M0",
    DataType.INT8: "Int8",
    DataType.UINT8: "UInt8",
    DataType.INT32: "Int32",
    DataType.INT64: "Int64",
    DataType.INT4: "Int4",
    DataType.BOOL: "Bool",
    DataType.DOUBLE: "Double",
    DataType.INT16: "Int16",
    DataType.UINT16: "UInt16",
    DataType.UINT32: "UInt32",
    DataType.UINT64: "UInt64",
    DataType.UINT4: "UInt4",
    DataType.INT2: "Int2",
    DataType.UINT2: "UInt2",
    DataType.FP8E5M2: "FP8E5M2",
    DataType.FP8E4M3FNUZ: "FP8E4M3FNUZ",
    DataType.FP8E5M2FNUZ: "FP8E5M2FNUZ",
}
# For a kernel with layers of different kinds: the kind of TensorRT with the most similar loops.
KINDS: Final = {
    "map": "PointWise",
    "reduction": "Reduce",
    "contraction": "MatrixMultiply",
    "mend": "MatrixMultiply",
    "window": "Convolution",
    "fused tile": "Attention",
    "update": "KVCacheUpdate",
    "extern": "Scatter",
    "stencil": "Resize",
    "copy": "Reformat",
    "loop": "Loop",
    "conditional": "Conditional",
}
CONVOLVE: Final = ("contraction", "window")  # kernels that may compute the sums of a convolution
SEPARATOR: Final = "\x1e"  # separator between the metadata of fused layers


@fold
class EngineInspector(Reporting):
    """Reports the kernels of an engine, which are its layers, in the detail of the build's
    `profiling_verbosity`. A profiler reports them under the same names in the same order."""

    __slots__ = ("_bindings", "_context", "_plan", "_program", "_teller", "_verbosity")

    def __init__(self, plan: Plan, bindings: tuple[Binding, ...], program: Program, parent: Channel) -> None:
        self._plan = plan
        self._bindings = bindings
        self._program = program
        self._channel = Channel(parent.logger, parent)
        self._context: IExecutionContext | None = None
        self._verbosity = dict(plan.settings).get("verbosity", "")
        self._teller: _Records | None = None

    @one_line
    def __repr__(self) -> str:
        return f" of {quoted(self._plan.name)}: {counted(len(self._program.kernels), 'kernel')}"

    @property
    def execution_context(self) -> IExecutionContext | None:
        """The context whose shapes replace −1."""
        return self._context

    @execution_context.setter
    def execution_context(self, context: IExecutionContext | None) -> None:
        if context is not None and not isinstance(context, IExecutionContext):
            raise wrong_type("execution_context", context, "an IExecutionContext or None")
        self._context = context

    @quiet("")
    def get_layer_information(self, layer_index: int, format: Format) -> str:
        """The information on one kernel: its name, and with detailed verbosity its tensors, layers and
        schedule; "" if the index is out of range."""
        _check(format)
        count = len(self._program.kernels)
        if not 0 <= integer(layer_index, "get_layer_information") < count:
            got, wanted = f"layer {layer_index}", f"an index below {count}"
            raise ArgumentError(
                "AR312", "get_layer_information", got, wanted, "use an index below engine.num_layers"
            )
        if self._verbosity == ProfilingVerbosity.NONE.name:
            return json.dumps("") if format is Format.JSON else ""
        shown = self._kernels(slice(layer_index, layer_index + 1))[0]
        return json.dumps(shown) if format is Format.JSON else _line(shown)

    @quiet("")
    def get_engine_information(self, format: Format) -> str:
        """All kernels, the names of inputs and outputs, and the build report; if a profiler watched an
        inference of `execution_context`, also the milliseconds of each layer, summed over its kernels."""
        _check(format)
        is_silent = self._verbosity == ProfilingVerbosity.NONE.name
        layers = [] if is_silent else self._kernels(slice(None))
        bindings = [b.name for b in self._bindings]
        report, seconds = parse_report(self._plan.report), build_seconds(self._plan)
        times = {} if is_silent else self._times(report)
        if format is Format.JSON:
            whole = {"Layers": layers, "Bindings": bindings, "Report": full_text(report, seconds)}
            return json.dumps(whole | ({"LayerTimes": times} if times else {}), indent=1)
        parts = ["Layers:", *map(_line, layers), "", "Bindings:", *map(in_line, bindings)]
        if times:
            parts += [
                "",
                "Times of layers:",
                *(f"{in_line(name)}: {ms:.4f} ms" for name, ms in times.items()),
            ]
        return "\n".join([*parts, "", short_text(report, seconds)])

    def _times(self, report: Report) -> dict[str, float]:
        """The milliseconds of each layer in the context's last inference with a profiler."""
        return {} if self._context is None else by_layer(last_times(self._context), report.kernels)

    def _kernels(self, which: slice) -> Sequence[Shown]:
        names = self._program.kernels[which]
        if self._verbosity != ProfilingVerbosity.DETAILED.name:
            return names
        if self._teller is None:
            self._teller = _Records.of(self._plan, self._program)
        pairs, sizes = zip(names, self._teller.records[which], strict=True), self._sizes()
        return [self._teller.kernel(name, record, sizes) for name, record in pairs]

    def _sizes(self) -> dict[str, int]:
        """The sizes that are known in the context."""
        if self._context is None:
            return {}
        shapes = {b.name: run_of(self._context).sizing.of(b.name) for b in self._bindings if b.is_input}
        known = {s.name: shapes[s.tensor][s.axis] for s in self._plan.symbols if not s.is_value}
        known = {name: size for name, size in known.items() if size >= 0}
        try:
            return known | run_of(self._context).sizing.sizes()
        except AnyrtError:  # a shape or an address is not set, or a value is out of range
            return known


@dataclass(frozen=True, slots=True)
class _Records:
    """The data that the records of kernels refer to: the network's layers by name, the host tensors, and
    inputs and outputs with formats other than LINEAR."""

    records: tuple[KernelRecord, ...]
    layers: Mapping[str, LayerRecord]
    hosts: frozenset[str]
    formatted: Mapping[str, Binding]

    @staticmethod
    def of(plan: Plan, program: Program) -> _Records:
        records = parse_records(program.about, plan.sym_by_name, len(program.kernels))
        layers = {layer.name: layer for layer in reversed(plan.layers)}
        hosts = frozenset(b.name for b in plan.bindings if b.is_host)
        formatted = {b.name: b for b in plan.bindings if b.format is not TensorFormat.LINEAR}
        return _Records(records, layers, hosts, formatted)

    def kernel(self, name: str, record: KernelRecord, sizes: Mapping[str, int]) -> dict[str, Shown]:
        """The information on one kernel at these sizes."""
        layers = [self.layers[x] for x in record.layers if x in self.layers]
        kinds = list(dict.fromkeys(layer.kind for layer in layers)) or [KINDS[record.kind]]
        metadata = [text for layer in layers for key, text in layer.details if key == "metadata"]
        shapes = [
            [without_groups(layers, self.shape(t, sizes)) for t in side]
            for side in (record.inputs, record.outputs)
        ]
        convolved = convolution(layers, *shapes) if record.kind in CONVOLVE else {}
        kind = kinds[0] if len(kinds) == 1 and kinds[0] != "Convolution" else KINDS[record.kind]
        return {
            "Name": name,
            "LayerType": kinds[0] if len(kinds) == 1 else "Fusion",
            "Inputs": list(map(self.tensor, record.inputs, shapes[0])),
            "Outputs": list(map(self.tensor, record.outputs, shapes[1])),
            **({"ParameterType": kind} | convolved),
            **_weights(record),
            "Layers": [_layer(layer) for layer in layers],
            "TacticName": f"{record.kind}, {record.tuning}",
            "TacticValue": f"0x{record.tactic:016x}",
            "StreamId": 0,
            "Metadata": SEPARATOR.join(metadata),
        }

    def shape(self, record: TensorRecord, sizes: Mapping[str, int]) -> list[int]:
        """The shape of a tensor; −1 for unknown dimensions."""
        port = self._port(record)
        return [_size(d, sizes) for d in (record.shape if port is None else port.shape)]

    def _port(self, record: TensorRecord) -> Binding | None:
        """The input or output of a record, if its format is not LINEAR."""
        return None if record.layer else self.formatted.get(self._name(record))

    def _name(self, record: TensorRecord) -> str:
        layer = self.layers.get(record.layer)
        return layer.outputs[0] if layer is not None and len(layer.outputs) == 1 else record.name

    def tensor(self, record: TensorRecord, shape: Sequence[int]) -> dict[str, Shown]:
        """The information on a tensor in memory, with its name in the network."""
        name, port = self._name(record), self._port(record)
        return {
            "Name": name,
            "Location": "Host" if not record.layer and name in self.hosts else "Device",
            "Dimensions": shape,
            "Format/Datatype": FORMATS[record.dtype] if port is None else describe(port.format, port.dtype),
        }


def _size(dim: Dim, sizes: Mapping[str, int]) -> int:
    """The size as a number; −1 if it is unknown."""
    try:
        return value_of(dim, sizes)
    except KeyError:
        return -1


def _weights(record: KernelRecord) -> dict[str, Shown]:
    """The constants of a kernel as one entry, with the most frequent type."""
    if not record.weights:
        return {}
    dtype, count = max(record.weights, key=lambda pair: pair[1])
    return {"Weights": {"Type": TYPES[dtype], "Count": count}}


def _layer(layer: LayerRecord) -> dict[str, Shown]:
    """A layer of the network with its attributes."""
    ends: dict[str, Shown] = {"Inputs": layer.inputs, "Outputs": layer.outputs}
    return {"Name": layer.name, "LayerType": layer.kind, **ends, **dict(layer.details)}


def _line(shown: Shown) -> str:
    """One line in TensorRT's format: `Name: conv1, Inputs: [{ Name: x, Dimensions: [1,3] }]`."""
    match shown:
        case dict():
            return ", ".join(f"{key}: {_nested(value)}" for key, value in shown.items())
        case _:
            return in_line(str(shown))


def _nested(shown: Shown) -> str:
    match shown:
        case str():
            return in_line(shown) if shown else ""
        case dict():
            return f"{{ {_line(shown)} }}"
        case int():
            return str(shown)
    return f"[{','.join(map(_nested, shown))}]"


def _check(format: object) -> None:
    if not isinstance(format, Format):
        raise wrong_type("EngineInspector", format, LayerInformationFormat)
