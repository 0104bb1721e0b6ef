"""Which nodes of a model are supported, as runs of neighbours.

As TensorRT does, this leaves out nodes that are not: tools ask again about each part that is not supported as
a whole, and would never end where such a part is one node.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from anyrt.api.edge.fold import fold
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
    """The supported nodes in runs: none where the model as a whole is wrong."""
    wrong = {f.index for f in failures}
    good = [i for i in range(len(model.proto.graph.node)) if not wrong & {i, -1}]
    runs = groupby(enumerate(good), lambda pair: pair[1] - pair[0])
    return [([index for _, index in run], True) for _, run in runs]
