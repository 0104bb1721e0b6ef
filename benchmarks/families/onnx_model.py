"""A case as an ONNX model of one node, for the programs that read these."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks import onnx_writer
from benchmarks.families.case import OPSET, Node
from benchmarks.onnx_writer import dtype_of, ends_of
from benchmarks.peers import Cannot, Model, Task
from benchmarks.values import Array, placed

IR_VERSION = 10


def models(task: Task) -> dict[str, Callable[[], Model]]:
    """The one model."""
    if task.case.onnx is None:
        raise Cannot("no node of ONNX")
    return {"": partial(model_of, task, task.case.wide)}


def model_of(task: Task, wide: bool) -> Model:
    """wide: with integers that are int64."""
    node: Node = task.case.onnx
    inputs = {name: _typed(x, wide) for name, x in task.inputs.items()}
    results = tuple(_typed(y, wide) for y in task.outputs)
    outputs = {f"y{i}": (dtype_of(y), shape_of(task, y)) for i, y in enumerate(results)}
    opsets = {"": OPSET} | ({node.attributes["domain"]: 1} if "domain" in node.attributes else {})
    ends = (ends_of(inputs), outputs)
    model = onnx_writer.model_of([node.proto], task.case.name, ends, node.constants, opsets, IR_VERSION)
    return Model(model.SerializeToString(), inputs, results, task.case.counted)


def shape_of(task: Task, y: Array) -> tuple[int | None, ...]:
    """The shape of an output, open if it is data-dependent."""
    return (None,) * y.ndim if task.case.counted else y.shape


def _typed(x: Array, wide: bool) -> Array:
    return placed(x.astype(np.int64)) if wide and x.dtype == np.int32 else x
