"""A model in memory: its message and a reader of its weights.

model = read(memoryview(data), folder=Path("models"))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto, defs

from anyrt.api.plugins.named import without_creator
from anyrt.core.enums import DataType
from anyrt.core.errors import GraphError, NotSupportedError
from anyrt.core.foreign import seems
from anyrt.onnx.functions import Key, is_function, key
from anyrt.onnx.node import importer_of, plugin_name
from anyrt.onnx.weights import Reader, data_type
from anyrt.onnx.wire import damaged, without_weights

SNIFFED = 1 << 12  # bytes that identify another kind of file
FIRST = 1
NEWEST = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Model:
    """A message, a reader of its weights, the versions of its operators, and the changes to it."""

    proto: ModelProto
    reader: Reader
    opsets: dict[str, int]
    functions: dict[Key, FunctionProto]
    notes: tuple[str, ...] = ()

    def inputs(self) -> list[ValueInfoProto]:
        """The inputs without an initializer."""
        initializers = {t.name for t in self.proto.graph.initializer}
        return [v for v in self.proto.graph.input if v.name not in initializers]

    def unknown(self) -> list[tuple[int, NodeProto]]:
        """The nodes with unsupported operators, each with the index of the enclosing node of the graph."""
        unknown = []
        for index, node in enumerate(self.proto.graph.node):
            unknown += [(index, n) for n in _all(node) if not self._describes(n, self.opsets)]
        for function in self.functions.values():
            opsets = versions(function.opset_import)
            unknown += [(-1, n) for f in function.node for n in _all(f) if not self._describes(n, opsets)]
        names = without_creator(plugin_name(node) for _, node in unknown)
        return [(index, node) for index, node in unknown if plugin_name(node) in names]

    def _describes(self, node: NodeProto, opsets: dict[str, int]) -> bool:
        name = key(node)
        return bool(name in self.functions or importer_of(name) or is_function(name, opsets.get(name[0], 1)))


def _all(node: NodeProto) -> Iterator[NodeProto]:
    """A node, and all nodes in the graphs inside it."""
    yield node
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _all(inner)


def read(data: memoryview, folder: Path | None) -> Model:
    """Read the model from bytes; raises GraphError AR416 or AR417, NotSupportedError AR901."""
    proto = ModelProto()
    try:
        proto.ParseFromString(without_weights(data))
        if not proto.HasField("graph"):
            raise damaged("no graph")
    except (DecodeError, GraphError) as error:
        raise _foreign(data) or (error if isinstance(error, GraphError) else damaged(str(error))) from None
    notes = tuple(cut_zipmaps(proto))
    opsets = versions(proto.opset_import)
    _check_versions(opsets)
    _check_texts(proto)
    _check_names(proto.graph)
    functions = {("" if f.domain == "ai.onnx" else f.domain, f.name): f for f in proto.functions}
    return Model(proto, Reader(folder, data), opsets, functions, notes)


def _foreign(data: memoryview) -> GraphError | None:
    """The error for bytes of another kind of file; None for a model."""
    kind = seems(bytes(data[:SNIFFED]))
    return None if kind is None else GraphError("AR416", "the model", kind.what, "an ONNX model", kind.do)


def cut_zipmaps(proto: ModelProto) -> Iterator[str]:
    """Replace outputs of ZipMap, lists of dictionaries, by its inputs, and return a message for each."""
    outputs = {value.name: value for value in proto.graph.output}
    read = {name for node in proto.graph.node for name in node.input}
    for node in proto.graph.node:
        if node.op_type == "ZipMap" and len(node.output) == 1 and node.output[0] in outputs.keys() - read:
            node.op_type, node.domain = "Identity", ""
            node.ClearField("attribute")
            outputs[node.output[0]].ClearField("type")
            yield (
                f"output {node.output[0]!r} is the tensor {node.input[0]!r}, not dictionaries (ZipMap); "
                "export with options={'zipmap': False} (zipmap=False) for equal outputs in every runtime"
            )


def versions(imports: Sequence[object]) -> dict[str, int]:
    """The opset version of each domain, limited to the versions that the installed ONNX has."""
    return {"" if o.domain == "ai.onnx" else o.domain: min(max(o.version, 0), NEWEST) for o in imports}  # type: ignore[attr-defined]  # OperatorSetIdProto


def _check_versions(opsets: dict[str, int]) -> None:
    newest = defs.onnx_opset_version()
    version = opsets.get("", newest)
    if not FIRST <= version <= newest:
        got, wanted = f"opset {version}", f"{FIRST} to {newest}"
        do = "convert the model: onnx.version_converter.convert_version(model, 17)"
        raise NotSupportedError("AR901", "the model", got, wanted, do)


def _check_texts(proto: ModelProto) -> None:
    """Raise an error for names that are not UTF-8, which Protocol Buffers returns as bytes."""
    for name in _texts(proto):
        if not isinstance(name, str):
            raise damaged(f"a name of the bytes {name[:32]!r}")


def _texts(proto: ModelProto) -> Iterator[str | bytes]:
    """The names in a model that AnyRT reads."""
    yield from (o.domain for o in proto.opset_import)
    yield from _names_of(proto.graph)
    for f in proto.functions:
        yield from (f.domain, f.name, *f.input, *f.output, *f.attribute, *(o.domain for o in f.opset_import))
        yield from (a.name for a in f.attribute_proto)
        for node in f.node:
            yield from _names_in(node)


def _names_of(graph: GraphProto) -> Iterator[str | bytes]:
    yield graph.name
    for value in (*graph.input, *graph.output):
        yield value.name
        yield from (d.dim_param for d in value.type.tensor_type.shape.dim)
    for tensor in graph.initializer:
        yield from (tensor.name, *(text for e in tensor.external_data for text in (e.key, e.value)))
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        yield from _names_in(node)


def _names_in(node: NodeProto) -> Iterator[str | bytes]:
    yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
    for attribute in node.attribute:
        yield from (attribute.name, attribute.ref_attr_name)
        for graph in (attribute.g, *attribute.graphs) if attribute.HasField("g") or attribute.graphs else ():
            yield from _names_of(graph)


def _check_names(graph: GraphProto) -> None:
    """Raise an error for a name that is defined twice."""
    seen: set[str] = set()
    for name in [*(v.name for v in graph.input), *(n for node in graph.node for n in node.output if n)]:
        if name in seen:
            raise GraphError("AR417", name, "a duplicate name", "unique names")
        seen.add(name)


@dataclass(frozen=True, slots=True)
class Signature:
    """The declaration of an input; sizes: −1 for dynamic ones; names: those of dynamic sizes, by axis."""

    dtype: DataType
    sizes: tuple[int, ...]
    names: dict[int, str]


def signature(name: str, kind: TypeProto) -> Signature:
    """The type of an input of a graph; an optional tensor is treated as present."""
    if kind.HasField("optional_type"):
        return signature(name, kind.optional_type.elem_type)
    if not kind.HasField("tensor_type"):
        got = kind.WhichOneof("value") or "no type"
        do = "pass its tensors as separate inputs"
        raise NotSupportedError("AR901", name, got.removesuffix("_type"), "a tensor", do)
    tensor = kind.tensor_type
    dtype = data_type(tensor.elem_type, name)
    if not tensor.HasField("shape"):
        do = "export the model with the ranks of its inputs"
        raise NotSupportedError("AR901", name, "an input of unknown rank", "an input with a shape", do)
    dims = tensor.shape.dim
    sizes = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in dims)
    if any(d.HasField("dim_value") and d.dim_value < 0 for d in dims):
        sizes = tuple(max(s, -1) for s in sizes)  # exporters also write −1 for dynamic sizes
    # Exporters write "?" for every unknown size; such sizes need not be equal.
    return Signature(
        dtype, sizes, {i: d.dim_param for i, d in enumerate(dims) if d.dim_param not in ("", "?")}
    )
