"""ONNX models, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.steps import Element
from benchmarks.values import Array

DTYPES = {
    Element.F32: TensorProto.FLOAT,
    Element.F16: TensorProto.FLOAT16,
    Element.BF16: TensorProto.BFLOAT16,
    Element.U8: TensorProto.UINT8,
    Element.I8: TensorProto.INT8,
}


def dtype_of(x: Array) -> int:
    """ONNX's number of the type."""
    return int(helper.np_dtype_to_tensor_dtype(x.dtype))


class Writer:
    """Nodes and constants; values are names."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:  # Any: as make_node takes them
        """Add a node; the name of its output."""
        out = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def array(self, array: Array) -> str:
        """Add an initialiser; its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def model(self, name: str, given: Mapping[str, Array], output: Array, opset: int, version: int) -> bytes:
        """The model whose last node gives y."""
        self.nodes[-1].output[0] = "y"
        info = helper.make_tensor_value_info
        ends = [info(n, dtype_of(x), x.shape) for n, x in (*given.items(), ("y", output))]
        graph = helper.make_graph(self.nodes, name, ends[:-1], ends[-1:], self.constants)
        opsets = [helper.make_opsetid("", opset)]
        return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=version).SerializeToString())
