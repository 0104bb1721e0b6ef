"""An If whose branches give tensors of different ranks, with all that needs these taken into its branches.

There each tensor has one rank. What leaves is the model's outputs alone, whose ranks agree again in models
that are exported from programs: after a mean over what one branch has kept, or since one branch cannot run.

    y = If(c) <then: (n, 8), else: (n, 8, t)>        y, z = If(c) <then: y = …, z = F(y)
    z = F(y)                                   ->                   else: y = …, z = F(y)>
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx import NodeProto, ValueInfoProto, helper

from anyrt.core.errors import ShapeError

JOINED = "joined"  # the attribute that says that nothing behind the node needs it
Numbered = tuple[int, NodeProto]


class RanksDiffer(Exception):
    """Branches give different ranks; `error` where that cannot be."""

    def __init__(self, error: ShapeError) -> None:
        super().__init__(str(error))
        self.error = error


def with_rest(
    node: NodeProto, rest: Iterable[Numbered], wanted: Sequence[str]
) -> tuple[list[Numbered], NodeProto | None]:
    """Of the nodes behind an If those that do not need it, and the If with all others in its branches, which
    gives those of the names that are `wanted`; None where nothing behind it needs it."""
    made, apart, inside = set(node.output) - {""}, list[Numbered](), list[NodeProto]()
    for number, other in rest:
        if made.isdisjoint(_read(other)):
            apart.append((number, other))
        else:
            inside.append(other)
            made |= set(other.output) - {""}
    if not inside:
        return apart, None
    whole = NodeProto()
    whole.CopyFrom(node)
    del whole.output[:]
    whole.output.extend(name for name in dict.fromkeys(wanted) if name in made)
    whole.attribute.append(helper.make_attribute(JOINED, 1))
    for branch in (a.g for a in whole.attribute if a.HasField("g")):
        pairs = zip([v.name for v in branch.output], node.output, strict=False)
        branch.node.extend(helper.make_node("Identity", [x], [y]) for x, y in pairs if y and x != y)
        branch.node.extend(inside)
        del branch.output[:]
        branch.output.extend(ValueInfoProto(name=name) for name in whole.output)
    return apart, whole


def _read(node: NodeProto) -> set[str]:
    """The names that a node reads, those of graphs inside included."""
    found = set(node.input)
    for graph in (a.g for a in node.attribute if a.HasField("g")):
        found |= {v.name for v in graph.output}
        found = found.union(*map(_read, graph.node))
    return found
