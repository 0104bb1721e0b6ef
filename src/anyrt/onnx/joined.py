"""Moves the nodes that need the outputs of an If into its branches, if these have different ranks.

Inside a branch each tensor has one rank. Only outputs of the model leave the If. Their ranks mostly agree in
models that are exported from programs: after a mean over axes of one branch, or because one branch cannot
run. Where they differ, an inference decides the rank, as it decides data-dependent dimensions.

    y = If(c) <then: (n, 8), else: (n, 8, t)>        y, z = If(c) <then: y = …, z = F(y)
    z = F(y)                                   ->                   else: y = …, z = F(y)>
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx import NodeProto, ValueInfoProto, helper

JOINED = "joined"  # the attribute of an If whose branches contain the nodes that need it
RANKED = "ranked"  # the attribute of one that no later node needs: ranks may be data-dependent
Numbered = tuple[int, NodeProto]


class RanksDiffer(Exception):
    """The outputs of the branches have different ranks, and other nodes may need them."""


def with_rest(
    node: NodeProto, rest: Iterable[Numbered], results: Sequence[str]
) -> tuple[list[Numbered], NodeProto]:
    """The nodes after an If that do not need it, and the If with all others in its branches.

    The outputs of the new If are those of `results` that it computes. If no node needs the If, an inference
    decides their ranks."""
    outputs, apart, inside = set(node.output) - {""}, list[Numbered](), list[NodeProto]()
    for number, other in rest:
        if outputs.isdisjoint(_read(other)):
            apart.append((number, other))
        else:
            inside.append(other)
            outputs |= set(other.output) - {""}
    if not inside:
        return apart, ranked(node)
    whole = _marked(node, JOINED)
    del whole.output[:]
    whole.output.extend(name for name in dict.fromkeys(results) if name in outputs)
    for branch in (a.g for a in whole.attribute if a.HasField("g")):
        pairs = zip([v.name for v in branch.output], node.output, strict=False)
        branch.node.extend(helper.make_node("Identity", [x], [y]) for x, y in pairs if y and x != y)
        branch.node.extend(inside)
        del branch.output[:]
        branch.output.extend(ValueInfoProto(name=name) for name in whole.output)
    return apart, whole


def ranked(node: NodeProto) -> NodeProto:
    """The If with the mark that no node needs static ranks of its outputs."""
    return _marked(node, RANKED)


def is_needed(node: NodeProto, rest: Iterable[Numbered]) -> bool:
    """Whether later nodes need the outputs of a node."""
    outputs = set(node.output) - {""}
    return any(not outputs.isdisjoint(_read(other)) for _, other in rest)


def read_only_as_numbers(nodes: Sequence[NodeProto], results: Iterable[str]) -> frozenset[str]:
    """The codes of QuantizeLinear nodes that only DequantizeLinear nodes with a zero point read; none beside
    an If, since nodes may move into its branches."""
    if any(node.op_type == "If" for node in nodes):
        return frozenset()
    codes = {name for n in nodes if _has_zero(n, "QuantizeLinear") for name in n.output}
    codes.difference_update(results)
    for node in nodes if codes else ():
        codes.difference_update(node.input[1:] if _has_zero(node, "DequantizeLinear") else _read(node))
    return frozenset(codes)


def _has_zero(node: NodeProto, operator: str) -> bool:
    return (
        node.op_type == operator
        and node.domain in ("", "ai.onnx")
        and len(node.input) > 2
        and node.input[2] != ""
    )


def _marked(node: NodeProto, attribute: str) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.attribute.append(helper.make_attribute(attribute, 1))
    return copy


def _read(node: NodeProto) -> set[str]:
    """The names that a node reads, including those of its inner graphs."""
    names = set(node.input)
    for graph in (a.g for a in node.attribute if a.HasField("g")):
        names |= {v.name for v in graph.output}
        names = names.union(*map(_read, graph.node))
    return names
