"""A bfloat16 model of a float32 one: weights, inputs, outputs and every tensor between.

Angles stay float32, as in such models: late positions have no digits left in bfloat16. Operands that an
operator accepts only in float32 stay float32, too.
"""

from __future__ import annotations

from collections.abc import Iterable

import ml_dtypes
import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

WIDE = {"Cos": slice(None), "Sin": slice(None), "Resize": slice(1, None)}  # operands that stay as they are
ANGLES = ("Cos", "Sin")
WIDER = ".wide"
LARGEST = (2 - 2.0**-7) * 2.0**127  # of bfloat16


def narrow_to_bfloat16(model: onnx.ModelProto) -> None:
    """Change the model to bfloat16."""
    graph, wide = model.graph, _wide(model.graph)
    _constants(graph, wide)
    nodes = [node for old in graph.node for node in _narrowed(old, wide)]
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        kind = value.type.tensor_type
        kind.elem_type = TensorProto.BFLOAT16 if kind.elem_type == TensorProto.FLOAT else kind.elem_type


def _wide(graph: onnx.GraphProto) -> set[str]:
    """Names of tensors that keep their type, and of all tensors that they are computed from."""
    names: set[str] = set()
    for node in reversed(graph.node):  # users come after their operands
        kept = WIDE.get(node.op_type, slice(0))
        names |= set(node.input if names & set(node.output) else node.input[kept])
    return names


def _constants(graph: onnx.GraphProto, wide: set[str]) -> None:
    for i, tensor in enumerate(graph.initializer):
        if tensor.name not in wide:
            graph.initializer[i].CopyFrom(_tensor(tensor))


def _narrowed(node: onnx.NodeProto, wide: set[str]) -> Iterable[onnx.NodeProto]:
    """The node with narrow constants, and a cast behind angles."""
    if not wide & set(node.output):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                attribute.t.CopyFrom(_tensor(attribute.t))
            elif node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.BFLOAT16
    yield node
    if node.op_type in ANGLES:
        name = node.output[0]
        node.output[0] = name + WIDER
        yield helper.make_node("Cast", [name + WIDER], [name], name + WIDER, to=TensorProto.BFLOAT16)


def _tensor(tensor: onnx.TensorProto) -> onnx.TensorProto:
    if tensor.data_type != TensorProto.FLOAT:
        return tensor
    # A bound of −3.4e38 would be −∞ if it were rounded to the nearest.
    numbers = np.clip(numpy_helper.to_array(tensor), -LARGEST, LARGEST)
    return numpy_helper.from_array(numbers.astype(ml_dtypes.bfloat16), tensor.name)
