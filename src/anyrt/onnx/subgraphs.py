"""Which nodes of a model are supported, as runs of neighbours."""

from __future__ import annotations

from collections.abc import Iterable

from anyrt.api.fold import fold
from anyrt.onnx.graph import Failure
from anyrt.onnx.model import Model


@fold
class NodeIndices(list[int]):
    """The indices of nodes of one part of a model."""

    def __bool__(self) -> bool:
        """Whether there is any."""
        return len(self) > 0


@fold
class SubGraphCollection(list[tuple[list[int], bool]]):
    """Parts of a model, each with whether it is supported."""

    def __bool__(self) -> bool:
        """Whether there is any."""
        return len(self) > 0


def split(model: Model, failures: Iterable[Failure]) -> list[tuple[list[int], bool]]:
    """The nodes in runs that are supported, or are not: none is where the model as a whole is wrong."""
    wrong = {f.index for f in failures}
    count = len(model.proto.graph.node)
    out: list[tuple[list[int], bool]] = []
    for index in range(count):
        good = index not in wrong and -1 not in wrong
        if out and out[-1][1] is good:
            out[-1][0].append(index)
        else:
            out.append(([index], good))
    return out
