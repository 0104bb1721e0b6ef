"""A case as an ONNX model of one node, for the programs that read these."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.families.case import Node
from benchmarks.onnx_writer import dtype_of
from benchmarks.peers import Cannot, Model, Task
from benchmarks.values import Array, placed

OPSET, IR_VERSION = 21, 10


def models(task: Task) -> dict[str, Callable[[], Model]]:
    """The one model."""
    if task.case.onnx is None:
        raise Cannot("no node of ONNX")
    return {"": partial(model_of, task)}


def model_of(task: Task) -> Model:
    """Integers are int64 where the node wants that."""
    node: Node = task.case.onnx
    given = {name: _typed(task, x) for name, x in task.given.items()}
    results = tuple(_typed(task, y) for y in task.outputs)
    names, constants = list[str](), list[onnx.TensorProto]()
    for i, operand in enumerate(node.operands):
        names.append(operand if isinstance(operand, str) else f"c{i}")
        if not isinstance(operand, str):
            array = operand() if callable(operand) else operand
            constants.append(numpy_helper.from_array(array, f"c{i}"))
    outs = [f"y{i}" for i in range(len(results))]
    attributes = {name: x() if callable(x) else x for name, x in node.attributes.items()}
    made = helper.make_node(node.kind, names, outs, **attributes)
    info = helper.make_tensor_value_info
    ends = [
        [info(name, dtype_of(x), x.shape) for name, x in given.items()],
        [info(name, dtype_of(y), shape_of(task, y)) for name, y in zip(outs, results, strict=True)],
    ]
    graph = helper.make_graph([made], task.case.name, *ends, constants)
    opsets = [helper.make_opsetid("", OPSET)]
    opsets += [helper.make_opsetid(str(domain), 1)] if (domain := node.attributes.get("domain")) else []
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    return Model(model.SerializeToString(), given, results, task.case.counted)


def shape_of(task: Task, y: Array) -> tuple[int | None, ...]:
    """An output's shape; open where data decide it."""
    return (None,) * y.ndim if task.case.counted else y.shape


def _typed(task: Task, x: Array) -> Array:
    return placed(x.astype(np.int64)) if task.case.wide and x.dtype == np.int32 else x
