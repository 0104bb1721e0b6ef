"""The supported nodes of a model, as lists of consecutive nodes.

As in TensorRT, the lists omit unsupported nodes: tools query each unsupported part again, which would not end
for a part of one node.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from anyrt.api.edge.fold import fold
from anyrt.onnx.graph import Failure
from anyrt.onnx.model import Model


@fold
class NodeIndices(list[int]):
    """The indices of the nodes of one part of a model."""

    def __bool__(self) -> bool:
        """Whether the list is not empty."""
        return len(self) > 0


@fold
class SubGraphCollection(list[tuple[list[int], bool]]):
    """The parts of a model, each with whether it is supported."""

    def __bool__(self) -> bool:
        """Whether the list is not empty."""
        return len(self) > 0


def split(model: Model, failures: Iterable[Failure]) -> list[tuple[list[int], bool]]:
    """The lists of consecutive supported nodes; none if the model itself is invalid."""
    wrong = {f.index for f in failures}
    good = [i for i in range(len(model.proto.graph.node)) if not wrong & {i, -1}]
    runs = groupby(enumerate(good), lambda pair: pair[1] - pair[0])
    return [([index for _, index in run], True) for _, run in runs]
