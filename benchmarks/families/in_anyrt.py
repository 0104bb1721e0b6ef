"""The layer of a case in AnyRT; the case itself adds it."""

from __future__ import annotations

from collections.abc import Mapping

import anyrt as trt
from benchmarks.families.case import Case
from benchmarks.peers import Task

FLAGS = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)  # else outputs of FP8 and FP4 are float32


def engines(case: Case) -> tuple[str, ...]:
    """No engine besides the static one."""
    return ()


def add(
    network: trt.INetworkDefinition, task: Task, tensors: Mapping[str, trt.ITensor]
) -> dict[str, trt.ITensor]:
    """All outputs of the layer."""
    layer = task.case.ours(network, *tensors.values())
    return {f"y{i}": layer.get_output(i) for i in range(len(task.outputs))}
