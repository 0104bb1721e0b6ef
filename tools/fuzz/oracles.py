"""Other implementations' results for the nodes of a model: onnx's reference, in double precision where
possible, and ONNX Runtime.

`evaluate(node, feeds, opset)` runs the reference in the types of the node; `exact(node, feeds, opset)` runs
it in double precision, before its results are rounded to their types."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import op_attention, op_resize
from onnx.reference.ops.op_grid_sample import GridSample

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
# They compute float64 in float32 if an attribute, or its default, says so; AnyRT computes in float64.
STASHED = {
    "LayerNormalization": "stash_type",
    "GroupNormalization": "stash_type",
    "RMSNormalization": "stash_type",
    "Attention": "softmax_precision",
}
TO_FLOAT = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16}


def evaluate(node: NodeProto, feeds: Mapping[str, Array], opset: int) -> list[Array]:
    """The results of one node in its own types. Raises what the reference raises."""
    node, feeds = _with_borders(node, feeds), _cut(node, feeds)
    model = alone(node, feeds, [None] * len(node.output), opset)
    with np.errstate(all="ignore"):
        if node.op_type in SHAPES:
            return [SHAPES[node.op_type](*feeds.values())]
        result = ReferenceEvaluator(model, new_ops=[_GridSample]).run(None, dict(feeds))
    if node.op_type == "Loop":  # the reference concatenates; ONNX stacks on a new first axis
        result[1] = np.reshape(result[1], (int(feeds[node.input[0]]), *np.shape(result[0])))
    return [np.asarray(x) for x in result]


def _with_borders(node: NodeProto, feeds: Mapping[str, Array]) -> NodeProto:
    """A pool with explicit padding instead of SAME, because the reference puts the odd element at the wrong
    end; and instead of VALID, with which the reference ignores dilations when it counts windows."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    same = attributes.get("auto_pad", b"")
    kept = {k: v for k, v in attributes.items() if k not in ("auto_pad", "ceil_mode")}
    if node.op_type.endswith("Pool") and same == b"VALID" and max(attributes.get("dilations", [1])) > 1:
        return helper.make_node(node.op_type, node.input, node.output, **kept)
    if not node.op_type.endswith("Pool") or not same.startswith(b"SAME"):
        return node
    sizes = attributes["kernel_shape"]
    ones = [1] * len(sizes)
    before, after = [], []
    shape = feeds[node.input[0]].shape[2:]
    places = zip(
        shape, sizes, attributes.get("strides", ones), attributes.get("dilations", ones), strict=True
    )
    for n, size, stride, dilation in places:
        total = max(0, (-(-n // stride) - 1) * stride + (size - 1) * dilation + 1 - n)
        half = total // 2
        before.append(total - half if same == b"SAME_LOWER" else half)
        after.append(total - before[-1])
    return helper.make_node(node.op_type, node.input, node.output, **{**kept, "pads": before + after})


def _cut(node: NodeProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The operand of a Pad without the elements that negative padding removes, which the reference
    rejects."""
    results = dict(feeds)
    if node.op_type != "Pad" or len(node.input) < 2 or results[node.input[1]].min(initial=0) >= 0:
        return results
    x, pads = results[node.input[0]], results[node.input[1]]
    named = len(node.input) > 3 and node.input[3]
    axes = results[node.input[3]].tolist() if named else list(range(x.ndim))
    for k, axis in enumerate(axes):
        less, behind = (max(0, -int(pads[k + n])) for n in (0, len(axes)))
        x = x.take(range(less, x.shape[axis] - behind), axis)
    return results | {node.input[0]: x, node.input[1]: np.maximum(pads, 0)}


def alone(node: NodeProto, feeds: Mapping[str, Array], results: list[Array | None], opset: int) -> ModelProto:
    """The model of a single node."""
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
    """The results of one node as exact as double precision permits; `typed` are those in its types; `moved`:
    its inputs are already in double precision."""
    if node.op_type in OWN and typed[0].dtype.kind not in "iu":
        wide = [x.astype(np.float64) for x in feeds.values()]
        with np.errstate(all="ignore"):
            return [OWN[node.op_type]({a.name: helper.get_attribute_value(a) for a in node.attribute}, *wide)]
    is_narrow = any(x.dtype in NARROW or moved for x in feeds.values()) or node.op_type in STASHED
    if node.op_type in AS_TYPED or not is_narrow:
        return typed
    for to, number in ((np.float64, TensorProto.DOUBLE), (np.float32, TensorProto.FLOAT)):
        changed = _of_type(node, number, _stashes(node, opset))
        try:
            result = evaluate(
                changed,
                {
                    n: x.astype(to) if x.dtype in NARROW or (moved and x.dtype == np.float64) else x
                    for n, x in feeds.items()
                },
                opset,
            )
        except Exception:  # the reference has no such form of it
            continue
        if all(a.shape == b.shape for a, b in zip(result, typed, strict=True)):
            return result
    return typed


def _of_type(node: NodeProto, number: int, stashes: bool) -> NodeProto:
    """The node with another float type for those that it names."""
    changed = NodeProto()
    changed.CopyFrom(node)
    name = STASHED.get(node.op_type)
    if stashes and name and all(a.name != name for a in node.attribute):
        changed.attribute.append(helper.make_attribute(name, TensorProto.FLOAT))
    for a in changed.attribute:  # as EyeLike and LayerNormalization name types
        if a.name in ("dtype", "stash_type", "softmax_precision") and a.i in TO_FLOAT:
            a.i = number
        for y in a.g.output if a.HasField("g") else ():
            if y.type.tensor_type.elem_type in TO_FLOAT:
                y.type.tensor_type.elem_type = number
    return changed


def _stashes(node: NodeProto, opset: int) -> bool:
    return node.op_type in STASHED and (node.op_type != "GroupNormalization" or opset >= 21)


def _erf(attributes: Mapping[str, Any], x: Array) -> Array:
    """The reference computes it in float32."""
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _gelu(attributes: Mapping[str, Any], x: Array) -> Array:
    """The reference computes erf in float32."""
    if attributes.get("approximate", b"none") == b"tanh":
        return np.asarray(x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2)
    tail = np.vectorize(math.erfc, otypes=[np.float64])(-x / math.sqrt(2))
    return np.asarray(np.where(np.isneginf(x), np.nan, x * tail / 2))


def _mean_variance(attributes: Mapping[str, Any], x: Array) -> Array:
    """The function that ONNX defines, whose constants are float32 in the reference."""
    axes = tuple(attributes.get("axes", (0, 2, 3)))
    mean = x.mean(axes, keepdims=True)
    deviation = np.sqrt((x * x).mean(axes, keepdims=True) - mean * mean)
    return np.asarray((x - mean) / (deviation + 1e-9))


def _local_response(attributes: Mapping[str, Any], x: Array) -> Array:
    """The reference uses as many channels as there are images."""
    size, channels = attributes["size"], x.shape[1]
    before, behind = (size - 1) // 2, size // 2
    sums = np.stack(
        [(x[:, max(0, c - before) : c + behind + 1] ** 2).sum(1) for c in range(channels)] or [x[:, 0]], 1
    )
    alpha, beta, bias = (
        attributes.get("alpha", float(np.float32(1e-4))),
        attributes.get("beta", 0.75),
        attributes.get("bias", 1.0),
    )
    return np.asarray(x / (bias + alpha / size * sums) ** beta)


def _lp_normal(attributes: Mapping[str, Any], x: Array) -> Array:
    """The reference adds numbers for p = 1, not magnitudes."""
    p, axis = attributes.get("p", 2), attributes.get("axis", -1)
    size = (np.abs(x) ** p).sum(axis, keepdims=True) ** (1 / p)
    return np.asarray(np.where(size == 0, 0, x / size))


def _one_hot(attributes: Mapping[str, Any], indices: Array, depth: Array, pair: Array) -> Array:
    """The reference adds 0 or 1 times (on − off) to off, which rounds, and is NaN for infinities."""
    axis, count = attributes.get("axis", -1), int(depth.reshape(-1)[0])
    at = np.expand_dims(np.where(indices < 0, indices + count, indices), axis)
    places = np.arange(count).reshape([count if a == axis % at.ndim else 1 for a in range(at.ndim)])
    return np.asarray(np.where(at == places, pair[1], pair[0]))


def _determinant(attributes: Mapping[str, Any], x: Array) -> Array:
    """The reference eliminates, and loses digits near the end of float64; it is used for infinite
    elements."""
    result = np.linalg.det(x)
    for at in np.ndindex(x.shape[:-2]):
        if np.isfinite(x[at]).all():
            result[at] = _nearest(_exact_determinant([[Fraction(n) for n in row] for row in x[at].tolist()]))
    return np.asarray(result)


def _exact_determinant(rows: list[list[Fraction]]) -> Fraction:
    """Expansion along the first row."""
    if not rows:
        return Fraction(1)
    parts = ((-1) ** k * n * _exact_determinant([r[:k] + r[k + 1 :] for r in rows[1:]])
             for k, n in enumerate(rows[0]) if n)  # fmt: skip
    return sum(parts, start=Fraction(0))


def _nearest(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


OWN = {
    "Det": _determinant,
    "Erf": _erf,
    "Gelu": _gelu,
    "MeanVarianceNormalization": _mean_variance,
    "LRN": _local_response,
    "LpNormalization": _lp_normal,
    "OneHot": _one_hot,
}


def _in_double(coefficients: Callable[..., Array]) -> Callable[..., Array]:
    """An attribute is a float32 in the reference, and positions are Python numbers, which inherit its
    precision."""
    return lambda ratio, scale=None, A=-0.75: coefficients(ratio, scale, float(A))


op_resize._cubic_coeffs = _in_double(op_resize._cubic_coeffs)
op_resize._cubic_coeffs_antialias = _in_double(op_resize._cubic_coeffs_antialias)


def _in_double_too(attention: Callable[..., Any]) -> Callable[..., Any]:
    """The reference computes the root of a scale in float32."""

    def compute(*arguments: Any, scale: Any = None, **named: Any) -> Any:
        return attention(*arguments, scale=None if scale is None else float(scale), **named)

    return compute


op_attention._compute_attention = _in_double_too(op_attention._compute_attention)


class _GridSample(GridSample):
    """The reference rounds positions to float32."""

    op_domain = ""

    def _gs_denormalize_coordinates(self, n: Array, dims: tuple[int, ...], align_corners: bool) -> Array:
        return np.array(
            [self._gs_denormalize(v, d, align_corners) for v, d in zip(n, dims, strict=True)], np.float64
        )


_GridSample.__name__ = "GridSample"  # onnx finds the class by this name
# For these the reference returns arrays of wrong shapes.
SHAPES = {"GlobalMaxPool": lambda x: x.max(tuple(range(2, x.ndim)), keepdims=True)}


def chain(model: ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """All tensors of a model, each rounded to its type immediately."""
    held: dict[str, Array] = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer} | dict(feeds)
    opset = model.opset_import[0].version
    for node in model.graph.node:
        read = reads(node, held)
        typed = evaluate(node, read, opset)
        for name, y, t in zip(node.output, exact(node, read, opset, typed), typed, strict=True):
            held[name] = rounded(y, t.dtype)
    return held


def reads(node: NodeProto, held: Mapping[str, Array]) -> dict[str, Array]:
    """The tensors that a node reads, including its branches."""
    names = [*node.input, *(n for a in node.attribute if a.HasField("g") for x in a.g.node for n in x.input)]
    return {name: held[name] for name in names if name and name in held}


def rounded(x: Array, dtype: np.dtype[Any]) -> Array:
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def onnxruntime(model: ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array] | str:
    """All outputs, or the error."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        result = session.run(None, dict(feeds))
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return {y.name: np.asarray(x) for y, x in zip(model.graph.output, result, strict=True)}
