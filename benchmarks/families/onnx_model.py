"""A case as an ONNX model of one node, for the programs that read these."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from onnx import helper

from benchmarks import onnx_writer
from benchmarks.families.case import Node
from benchmarks.onnx_writer import dtype_of, ends_of
from benchmarks.peers import Cannot, Model, Task
from benchmarks.values import Array, placed

OPSET, IR_VERSION = 21, 10


def models(task: Task) -> dict[str, Callable[[], Model]]:
    """The one model."""
    if task.case.onnx is None:
        raise Cannot("no node of ONNX")
    return {"": partial(model_of, task)}


def model_of(task: Task) -> Model:
    """Integers are int64 if the node requires that."""
    node: Node = task.case.onnx
    inputs = {name: _typed(task, x) for name, x in task.inputs.items()}
    results = tuple(_typed(task, y) for y in task.outputs)
    constants = {f"c{i}": _value(x) for i, x in enumerate(node.operands) if not isinstance(x, str)}
    names = [x if isinstance(x, str) else f"c{i}" for i, x in enumerate(node.operands)]
    outputs = {f"y{i}": (dtype_of(y), shape_of(task, y)) for i, y in enumerate(results)}
    attributes = {name: _value(x) for name, x in node.attributes.items()}
    nodes = [helper.make_node(node.kind, names, [*outputs], **attributes)]
    opsets = {"": OPSET} | ({attributes["domain"]: 1} if "domain" in attributes else {})
    model = onnx_writer.model_of(
        nodes, task.case.name, (ends_of(inputs), outputs), constants, opsets, IR_VERSION
    )
    return Model(model.SerializeToString(), inputs, results, task.case.counted)


def _value(x: Any) -> Any:  # Any: of an operand or attribute, or the function that makes it
    return x() if callable(x) else x


def shape_of(task: Task, y: Array) -> tuple[int | None, ...]:
    """The shape of an output, open if it is data-dependent."""
    return (None,) * y.ndim if task.case.counted else y.shape


def _typed(task: Task, x: Array) -> Array:
    return placed(x.astype(np.int64)) if task.case.wide and x.dtype == np.int32 else x
