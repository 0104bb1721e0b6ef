"""Operators that equal one layer: their inputs are its operands, and their attributes have its names.

An operator in `ops/` whose `onnx=` names an operator without an importer needs no other file.
"""

from __future__ import annotations

from functools import partial

from onnx import helper

from anyrt.core.errors import ArgumentError
from anyrt.onnx.node import IMPORTERS, Node, Outputs, importer_of
from anyrt.ops import OPS
from anyrt.ops._record import AnyOp, AttrSpec, Kind


def load() -> None:
    """Register an importer for each name in `onnx=` of an operator ("Name" or "domain::Name") that has
    none."""
    for op in OPS.values():
        for name in op.onnx:
            domain, _, kind = name.rpartition("::")
            if importer_of((domain, kind)) is None:
                IMPORTERS[domain, kind] = partial(_layer, op)


def _layer(op: AnyOp, node: Node) -> Outputs:
    """The layer of `op`, with attributes by name."""
    specs, method = {s.name: s for s in op.specs()}, op.methods[0]
    attributes = {a.name: helper.get_attribute_value(a) for a in node.proto.attribute}
    for name in attributes:
        if name not in specs:
            raise ArgumentError(
                "AR304", node.where, f"attribute {name}", f"one of {', '.join(specs) or 'none'}"
            )
    values = {name: _value(node, specs[name], value) for name, value in attributes.items()}
    operands = {x.name: node.optional(i) for i, x in enumerate(op.inputs)}
    params = [values.pop(p) if p in values else operands.pop(p, None) for p in method.params]
    layer = node.add(method.name, *params, **values)
    node.with_inputs(layer, {i: operands.get(x.name) for i, x in enumerate(op.inputs)})
    return node.outputs(layer)


def _value(node: Node, spec: AttrSpec, value: object) -> object:
    """An attribute in the layer's form: words become members of its enum, 0 and 1 may become a bool."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if spec.enum is not None:
        members = {m.name.lower(): m for m in spec.enum}
        if str(value).lower() not in members:
            got = f"attribute {spec.name} = {value!r}"
            raise ArgumentError("AR304", node.where, got, f"one of {', '.join(members)}")
        return members[str(value).lower()]
    return bool(value) if spec.kind is Kind.BOOL else value
