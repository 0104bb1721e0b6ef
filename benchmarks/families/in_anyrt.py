"""The layer of a case in AnyRT: the case itself adds it, or AnyRT reads the case's node."""

from __future__ import annotations

import anyrt as trt
from benchmarks.engines import LOG
from benchmarks.families import onnx_model
from benchmarks.families.case import Case
from benchmarks.peers import Task
from benchmarks.peers.anyrt import Sizes, inputs_of

FLAGS = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)  # else outputs of FP8 and FP4 are float32


def engines(case: Case) -> tuple[str, ...]:
    """No engine besides the static one."""
    return ()


def add(network: trt.INetworkDefinition, task: Task, sizes: Sizes) -> dict[str, trt.ITensor]:
    """All outputs of the layer. A node is read with positions in int32, as layers have them."""
    if task.case.ours is not None:
        layer = task.case.ours(network, *inputs_of(network, task, sizes).values())
        return {f"y{i}": layer.get_output(i) for i in range(len(task.outputs))}
    model = onnx_model.model_of(task, wide=False).text
    assert isinstance(model, bytes), "a model of one node is small"
    assert trt.OnnxParser(network, LOG).parse(model), "; ".join(LOG.lines)
    outputs = {f"y{i}": network.get_output(i) for i in range(network.num_outputs)}
    for y in outputs.values():
        network.unmark_output(y)
    return outputs
