"""ONNX models, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

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


Ends: TypeAlias = Mapping[str, tuple[int, Sequence[int | str | None]]]


def ends_of(arrays: Mapping[str, Array]) -> Ends:
    """Inputs or outputs like these arrays."""
    return {name: (dtype_of(x), x.shape) for name, x in arrays.items()}


def dtype_of(x: Array) -> int:
    """ONNX's number of the array's type."""
    return int(helper.np_dtype_to_tensor_dtype(x.dtype))


def model_of(
    nodes: Sequence[onnx.NodeProto],
    name: str,
    ends: tuple[Ends, Ends],
    constants: Mapping[str, Array] | Sequence[onnx.TensorProto],
    opsets: Mapping[str, int],
    version: int,
) -> onnx.ModelProto:
    """A model. ends: inputs and outputs by name, an element type and a shape each. opsets: by domain."""
    if isinstance(constants, Mapping):
        constants = [numpy_helper.from_array(x, n) for n, x in constants.items()]
    sides = ([helper.make_tensor_value_info(n, *x) for n, x in side.items()] for side in ends)
    graph = helper.make_graph(nodes, name, *sides, constants)
    imports = [helper.make_opsetid(*x) for x in opsets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=version)


class Writer:
    """Nodes and constants; values are names."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:  # Any: as make_node takes them
        """The name of the output of a new node."""
        out = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def array(self, array: Array) -> str:
        """The name of a new initializer."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def model(self, name: str, inputs: Mapping[str, Array], output: Array, opset: int, version: int) -> bytes:
        """The model whose last node computes y."""
        self.nodes[-1].output[0] = "y"
        ends = (ends_of(inputs), ends_of({"y": output}))
        model = model_of(self.nodes, name, ends, self.constants, {"": opset}, version)
        return bytes(model.SerializeToString())
