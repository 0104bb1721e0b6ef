"""The content of an ONNX model for `anyrt inspect`, without parsing it to a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from onnx import TensorProto, ValueInfoProto

from anyrt.core.dtype import short_name
from anyrt.core.errors import AnyrtError
from anyrt.onnx.functions import key
from anyrt.onnx.model import read, signature
from anyrt.onnx.weights import data_type, mapped
from anyrt.plan.json import Json


def facts_of(path: Path) -> dict[str, Json]:
    """The producer, versions, inputs, outputs, numbers of operators, and numbers of weights by type."""
    model = read(mapped(path), path.absolute().parent)
    graph = model.proto.graph
    operators = Counter("::".join(filter(None, key(node))) for node in graph.node)
    weights: Counter[str] = Counter()
    for tensor in graph.initializer:
        weights[_kind(tensor)] += _count(tensor.dims)
    return {
        "graph": graph.name,
        "producer": f"{model.proto.producer_name} {model.proto.producer_version}".strip(),
        "ir_version": model.proto.ir_version,
        "nodes": len(graph.node),
        "opsets": {domain or "ai.onnx": version for domain, version in model.opsets.items()},
        "inputs": {v.name: _type(v) for v in model.inputs()},
        "outputs": {v.name: _type(v) for v in graph.output},
        "operators": dict(operators.most_common()),
        "elements of weights": dict(weights),
        "metadata": {p.key: p.value for p in model.proto.metadata_props},
    }


def _kind(tensor: TensorProto) -> str:
    try:
        return short_name(data_type(tensor.data_type, tensor.name))
    except AnyrtError:
        return f"type {tensor.data_type}"


def _count(dims: Iterable[int]) -> int:
    out = 1
    for d in dims:
        out *= d
    return out


def _type(value: ValueInfoProto) -> str:
    try:
        declared = signature(value.name, value.type)
    except AnyrtError as error:
        return error.got
    sizes = (declared.names.get(i) or ("?" if d < 0 else str(d)) for i, d in enumerate(declared.sizes))
    return f"{short_name(declared.dtype)} ({', '.join(sizes)})"
