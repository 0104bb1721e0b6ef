"""What others compute for the nodes of a model: onnx's reference, in double precision where it can, and ONNX
Runtime.

`evaluate(node, feeds, opset)` is the reference in the types of the node; `exact(node, feeds, opset)` the
same in double precision, before its results are rounded to their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = NDArray[Any]
HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
NARROW = (*HALVES, np.dtype(np.float32))
# Their results, or types of them, follow from the type of an input, which must stay.
AS_TYPED = {
    "Cast",
    "CastLike",
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "Identity",
    "QLinearMatMul",
}
TO_FLOAT = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16}


def evaluate(node: NodeProto, feeds: Mapping[str, Array], opset: int) -> list[Array]:
    """The results of one node in its own types. Raises what the reference raises."""
    node = _with_borders(node, feeds)
    model = alone(node, feeds, [None] * len(node.output), opset)
    with np.errstate(all="ignore"):
        if node.op_type in SHAPES:
            return [SHAPES[node.op_type](*feeds.values())]
        found = ReferenceEvaluator(model).run(None, dict(feeds))
    if node.op_type == "Loop":  # the reference joins what turns give; ONNX has a new first axis
        found[1] = np.reshape(found[1], (int(feeds[node.input[0]]), *np.shape(found[0])))
    return [np.asarray(x) for x in found]


def _with_borders(node: NodeProto, feeds: Mapping[str, Array]) -> NodeProto:
    """A pool of SAME borders with these written out: the reference puts the odd one at the wrong end."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    same = given.get("auto_pad", b"")
    if not node.op_type.endswith("Pool") or not same.startswith(b"SAME"):
        return node
    sizes = given["kernel_shape"]
    ones = [1] * len(sizes)
    before, after = [], []
    shape = feeds[node.input[0]].shape[2:]
    places = zip(shape, sizes, given.get("strides", ones), given.get("dilations", ones), strict=True)
    for n, size, stride, dilation in places:
        total = max(0, (-(-n // stride) - 1) * stride + (size - 1) * dilation + 1 - n)
        half = total // 2
        before.append(total - half if same == b"SAME_LOWER" else half)
        after.append(total - before[-1])
    kept = {k: v for k, v in given.items() if k not in ("auto_pad", "ceil_mode")}
    return helper.make_node(node.op_type, node.input, node.output, **{**kept, "pads": before + after})


def alone(node: NodeProto, feeds: Mapping[str, Array], results: list[Array | None], opset: int) -> ModelProto:
    """The model of one node."""
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
              for n, x in feeds.items()]  # fmt: skip
    outputs = [
        helper.make_tensor_value_info(
            n, TensorProto.FLOAT if y is None else helper.np_dtype_to_tensor_dtype(y.dtype), None
        )
        for n, y in zip(node.output, results, strict=True)
        if n
    ]
    graph = helper.make_graph([node], "node", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def exact(
    node: NodeProto, feeds: Mapping[str, Array], opset: int, typed: list[Array], moved: bool = False
) -> list[Array]:
    """The results of one node as exact as double precision gives them, where `typed` are those in its types;
    `moved`: its inputs are in double precision already."""
    if node.op_type in AS_TYPED or not any(x.dtype in NARROW or moved for x in feeds.values()):
        return typed
    if node.op_type in OWN:
        wide = [x.astype(np.float64) for x in feeds.values()]
        with np.errstate(all="ignore"):
            return [OWN[node.op_type]({a.name: helper.get_attribute_value(a) for a in node.attribute}, *wide)]
    for to, number in ((np.float64, TensorProto.DOUBLE), (np.float32, TensorProto.FLOAT)):
        changed = _of_type(node, number)
        try:
            found = evaluate(
                changed,
                {
                    n: x.astype(to) if x.dtype in NARROW or (moved and x.dtype == np.float64) else x
                    for n, x in feeds.items()
                },
                opset,
            )
        except Exception:  # the reference has no such form of it
            continue
        if all(a.shape == b.shape for a, b in zip(found, typed, strict=True)):
            return found
    return typed


def _of_type(node: NodeProto, number: int) -> NodeProto:
    """The node with another float type for those that it names."""
    changed = NodeProto()
    changed.CopyFrom(node)
    for a in changed.attribute:  # as EyeLike and LayerNormalization name types
        if a.name in ("dtype", "stash_type", "softmax_precision") and a.i in TO_FLOAT:
            a.i = number
        for y in a.g.output if a.HasField("g") else ():
            if y.type.tensor_type.elem_type in TO_FLOAT:
                y.type.tensor_type.elem_type = number
    return changed


def _mean_variance(given: Mapping[str, Any], x: Array) -> Array:
    """The function that ONNX defines, whose constants are float32 in the reference."""
    axes = tuple(given.get("axes", (0, 2, 3)))
    mean = x.mean(axes, keepdims=True)
    deviation = np.sqrt((x * x).mean(axes, keepdims=True) - mean * mean)
    return np.asarray((x - mean) / (deviation + 1e-9))


def _local_response(given: Mapping[str, Any], x: Array) -> Array:
    """The reference takes as many channels as there are images."""
    size, channels = given["size"], x.shape[1]
    before, behind = (size - 1) // 2, size // 2
    sums = np.stack(
        [(x[:, max(0, c - before) : c + behind + 1] ** 2).sum(1) for c in range(channels)] or [x[:, 0]], 1
    )
    alpha, beta, bias = given.get("alpha", 1e-4), given.get("beta", 0.75), given.get("bias", 1.0)
    return np.asarray(x / (bias + alpha / size * sums) ** beta)


def _lp_normal(given: Mapping[str, Any], x: Array) -> Array:
    """The reference adds numbers for p = 1, not magnitudes."""
    p, axis = given.get("p", 2), given.get("axis", -1)
    size = (np.abs(x) ** p).sum(axis, keepdims=True) ** (1 / p)
    return np.asarray(np.where(size == 0, 0, x / size))


OWN = {
    "MeanVarianceNormalization": _mean_variance,
    "LRN": _local_response,
    "LpNormalization": _lp_normal,
}
# Of these the reference gives arrays of wrong shapes.
SHAPES = {"GlobalMaxPool": lambda x: x.max(tuple(range(2, x.ndim)), keepdims=True)}


def chain(model: ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """All tensors of a model, each rounded to its type as soon as it is there."""
    held: dict[str, Array] = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer} | dict(feeds)
    opset = model.opset_import[0].version
    for node in model.graph.node:
        read = reads(node, held)
        typed = evaluate(node, read, opset)
        for name, y, t in zip(node.output, exact(node, read, opset, typed), typed, strict=True):
            held[name] = rounded(y, t.dtype)
    return held


def reads(node: NodeProto, held: Mapping[str, Array]) -> dict[str, Array]:
    """What a node reads, its branches included."""
    names = [*node.input, *(n for a in node.attribute if a.HasField("g") for x in a.g.node for n in x.input)]
    return {name: held[name] for name in names if name and name in held}


def rounded(x: Array, dtype: np.dtype[Any]) -> Array:
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def onnxruntime(model: ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array] | str:
    """All outputs, or why there are none."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        found = session.run(None, dict(feeds))
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return {y.name: np.asarray(x) for y, x in zip(model.graph.output, found, strict=True)}
