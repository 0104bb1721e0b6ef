"""Reduces a failing model to the nodes that are needed for the failure.

First the end moves: the earliest node whose result already fails becomes the output. Then the beginning
moves: the results of the first nodes become inputs, with their values in the whole model. Then single nodes
in between are removed, in the same way, as long as the failure has the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper

from anyrt.core.errors import AnyrtError
from anyrt.onnx.reference import Compared, Feeds, compare, failures, load_model
from anyrt.ops._record import Array

Fails = Callable[[ModelProto, Feeds], str | None]


@dataclass(frozen=True, slots=True)
class Reduced:
    """The smallest failing model, and the reason."""

    model: ModelProto
    reason: str
    tried: int


@dataclass(slots=True)
class Judge:
    """Returns why a model fails: rejected with a code, or different from another runtime."""

    folder: Path
    other: Callable[[Compared, Feeds], dict[str, Array]]
    rtol: float
    atol: float

    def __call__(self, proto: ModelProto, feeds: Feeds) -> str | None:
        model = Compared(proto, self.folder, tuple(v.name for v in proto.graph.output))
        try:
            outputs = model.session().run(feeds)
        except AnyrtError as error:
            return error.code
        try:
            expected = self.other(model, feeds)
        except failures():  # if the other runtime does not run it, nothing can be concluded
            return None
        rows = [compare(n, outputs[n], expected[n], self.rtol, self.atol) for n in model.outputs]
        return None if all(row.agrees for row in rows) else "differs"


def reduced(proto: ModelProto, feeds: Feeds, values: Mapping[str, Array], fails: Fails) -> Reduced | None:
    """The smallest failing part of a model; None if it does not fail. `values`: the results of nodes."""
    reason = fails(proto, feeds)
    if reason is None:
        return None
    nodes, tried = [*proto.graph.node], 1
    everything = {**values, **feeds}
    outputs = [v.name for v in proto.graph.output]

    def still(kept: Sequence[NodeProto], targets: Sequence[str]) -> bool:
        nonlocal tried
        part = part_of(proto, kept, targets, everything)
        if part is None:
            return False
        tried += 1
        return fails(part, {v.name: everything[v.name] for v in part.graph.input}) == reason

    end, outputs = _end(nodes, outputs, still)
    nodes = nodes[:end]
    low, high = 0, len(nodes)  # it still fails without the first `low`
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if still(nodes[middle:], outputs) else (low, middle)
    nodes = nodes[low:]
    for node in [*nodes]:
        without = [n for n in nodes if n is not node]
        if without and still(without, outputs):
            nodes = without
    part = part_of(proto, nodes, outputs, everything)
    return Reduced(proto if part is None else part, reason, tried)


def _end(
    nodes: Sequence[NodeProto],
    outputs: list[str],
    still: Callable[[Sequence[NodeProto], Sequence[str]], bool],
) -> tuple[int, list[str]]:
    """The number of nodes needed, and the output: the result of the last of them."""
    low, high = 0, len(nodes)  # the first `high` nodes fail
    ends = outputs
    while high - low > 1:
        middle = (low + high) // 2
        mine = [name for name in nodes[middle - 1].output if name]
        if still(nodes[:middle], mine):
            high, ends = middle, mine
        else:
            low = middle
    if high == len(nodes):
        mine = [name for name in nodes[-1].output if name]
        ends = mine if still(nodes, mine) else outputs
    return high, ends


def part_of(
    proto: ModelProto, nodes: Iterable[NodeProto], outputs: Sequence[str], values: Mapping[str, Array]
) -> ModelProto | None:
    """The model of some nodes: a tensor that none of them computes is an input, with the type of its value;
    None if one has no value, or no node computes an output."""
    kept = _needed([*nodes], outputs)
    computed, held = {n for node in kept for n in node.output}, {t.name for t in proto.graph.initializer}
    required = dict.fromkeys(name for node in kept for name in _reads(node) if name not in computed)
    inputs = [n for n in required if n not in held]
    if not computed.issuperset(outputs) or any(n not in values for n in (*inputs, *outputs)):
        return None
    infos = [helper.make_tensor_value_info(n, _number(values[n]), values[n].shape) for n in inputs]
    ends = [helper.make_tensor_value_info(n, _number(values[n]), values[n].shape) for n in outputs]
    weights = [t for t in proto.graph.initializer if t.name in required]
    out = ModelProto()
    out.CopyFrom(proto)
    out.graph.CopyFrom(helper.make_graph(kept, "reduced", infos, ends, weights))
    return out


def _needed(nodes: Sequence[NodeProto], outputs: Sequence[str]) -> list[NodeProto]:
    names, needed = set(outputs), list[NodeProto]()
    for node in reversed(nodes):
        if names.intersection(node.output):
            names.update(_reads(node))
            needed.append(node)
    return needed[::-1]


def _reads(node: NodeProto) -> Iterable[str]:
    """The tensors that a node, and the graphs inside it, use from the graph around."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from _outer(graph)


def _outer(graph: GraphProto) -> Iterable[str]:
    own = {n for node in graph.node for n in node.output} | {v.name for v in graph.input}
    own |= {t.name for t in graph.initializer}
    read = [name for node in graph.node for name in _reads(node)] + [v.name for v in graph.output]
    yield from (name for name in read if name not in own)


def _number(array: Array) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(array.dtype)))


def values_of(
    path: Path, feeds: Feeds, other: Callable[[Compared, Feeds], dict[str, Array]]
) -> dict[str, Array]:
    """The results of each node of a model, from the other runtime; only the outputs if it cannot return
    all."""
    for layers in (True, False):
        try:
            return {n: np.asarray(x) for n, x in other(load_model(path, layers), feeds).items()}
        except failures():
            continue
    return {}
