"""Adds the layers of a model to a network.

walk = describe(model, network)
walk.failures
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anyrt.api.compose.layers import Layers
from anyrt.api.edge.interfaces import Silence
from anyrt.api.edge.quiet import channel_of
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.state import state_of
from anyrt.api.model.tensor import ITensor
from anyrt.core.errors import AnyrtError, NotSupportedError
from anyrt.core.flags import strict
from anyrt.onnx import importers
from anyrt.onnx.functions import key
from anyrt.onnx.graph import Failure, Scope, Walk
from anyrt.onnx.model import Model, signature


def describe(model: Model, network: INetworkDefinition) -> Walk:
    """Add the layers of all nodes, the inputs and the marked outputs; `failures` has the problems."""
    importers.load()
    walk = Walk(network, model.reader, model.opsets, model.functions)
    for index, node in model.unknown():
        name = "::".join(filter(None, key(node)))
        error = NotSupportedError(
            "AR904", node.name or node.op_type, f"operator {name}", "a supported operator"
        )
        walk.fail(Failure(error, index, node.name, node.op_type))
    if walk.failures:
        return walk
    with strict(), _silent(network):
        scope = Scope()
        _inputs(model, walk, scope)
        if not walk.failures:
            walk.graph(model.proto.graph, scope)
        if not walk.failures:
            _outputs(model, walk, scope)
    return walk


@contextmanager
def _silent(network: INetworkDefinition) -> Iterator[None]:
    """Suppress messages of the network: the parser reports its problems with their nodes."""
    channel = channel_of(network)
    kept = channel.logger, channel.recorder, channel.parent
    channel.logger, channel.recorder, channel.parent = Silence(), None, None
    try:
        yield
    finally:
        channel.logger, channel.recorder, channel.parent = kept


def _inputs(model: Model, walk: Walk, scope: Scope) -> None:
    for value in model.inputs():
        try:
            declared = signature(value.name, value.type)
            network = walk.network
            kind = network._ends.get(declared.dtype, declared.dtype)
            tensor = network.add_input(value.name, kind, declared.sizes)
            for axis, name in declared.names.items():
                tensor.set_dimension_name(axis, name)
            where = Layers(network, f"{value.name} input")
            scope.held[value.name] = where.tensor(tensor).cast(declared.dtype).it
        except AnyrtError as error:
            walk.fail(Failure(error, name=value.name))


def _outputs(model: Model, walk: Walk, scope: Scope) -> None:
    for value in model.proto.graph.output:
        try:
            held = scope.end(value.name)
            if not isinstance(held, ITensor):
                raise NotSupportedError(
                    "AR901",
                    value.name,
                    "a sequence as an output",
                    "a tensor",
                    "return the elements as tensors",
                )
            _mark(walk.network, held, value.name)
        except AnyrtError as error:
            walk.fail(Failure(error, name=value.name))


def _mark(network: INetworkDefinition, tensor: ITensor, name: str) -> None:
    """Mark `tensor` as an output with this name; if it has another name already, mark a copy."""
    kind, rank = network._ends.get(tensor.dtype), state_of(tensor).rank
    if kind is not None:
        if tensor.name == name and not tensor.is_network_input:
            tensor.name = f"{name} ({tensor.dtype.name})"
        tensor = Layers(network, f"{name} output").tensor(tensor).cast(kind).it
        tensor.name = name
    elif tensor.is_network_input or tensor.is_network_output or tensor.name != name:
        tensor = Layers(network, f"{name} output").layer("add_identity", tensor).it
        tensor.name = name
    state_of(tensor).rank = rank
    network.mark_output(tensor)
