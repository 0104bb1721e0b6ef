"""Whether AnyRT computes a model correctly: `judged(case)`.

The model runs twice: unchanged, and with all of its tensors as outputs. The second run tests each node
separately. The reference computes the node in double precision from AnyRT's values of its inputs, and errors
do not accumulate. The outputs of the first run are compared with those of the second one, within the effect
of the errors that each node may have. Tolerances depend on the type of a tensor and on the number of terms
that an element sums, and not on observed errors:

* Integers and bools are equal. A number that was rounded to an integer may be the neighbour if it was a
  halfway case.
* Floats may differ by `UNITS` of their type. They may also differ by the effect that the `DRIFT` of the type
  of computation has on the inputs of the node, times the root of the number of terms. For sums, this is the
  effect on the sum of the terms' magnitudes.
* The nodes in a Loop, and those of the function that defines Attention in ONNX, have results of half types
  (`STEPPED`). In place of the drift, they may differ by half a unit of the type for each node, times the root
  of the number of terms. All other nodes round only their own results.
* Results of RNN, GRU and LSTM are sums of products of gates, which lie between −1 and 1. Each iteration may
  differ by a unit of the type of computation, times the largest state.
* Sums and products may have any value if the magnitudes of their terms exceed the type of computation. The
  page lists this as a difference, with that cause.
* Gelu may differ by the drift times x, since 1 + erf cancels, as does 1 + tanh, which replaces it.
* Logarithms may differ by the drift times the largest magnitude, since their operands may be near 1.
* No number must be more accurate than the least normal one of its type.
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper, numpy_helper

from tools.fuzz import oracles
from tools.fuzz.grow import Case

Array = NDArray[Any]
UNITS = {"float64": 8.0, "float32": 8.0, "float16": 1.0, "bfloat16": 1.0}  # relative steps of the type
DRIFT = {"float64": 2.0**-51, "float32": 2.0**-22, "float16": 2.0**-22, "bfloat16": 2.0**-22}
DRAWS = 4
SUMS = {
    "MatMul", "Gemm", "Einsum", "Conv", "ConvTranspose", "ReduceSum", "ReduceMean", "CumSum", "AveragePool",
    "GlobalAveragePool", "Col2Im", "Sum", "Mean", "Add", "Sub", "Det", "BatchNormalization", "Resize",
    "GridSample", "ScatterElements", "ScatterND", "ReduceLogSum", "ReduceL1",
}  # fmt: skip
GATED = {"RNN", "GRU", "LSTM"}
SQUARES = {"ReduceL2", "ReduceSumSquare"}
PRODUCTS = {"ReduceProd"}
LIMIT = 120  # seconds for a model
LOGARITHMS = {"LogSoftmax", "ReduceLogSumExp", "ReduceLogSum"}
# Nodes in the body of a Loop, and those of the function that ONNX defines Attention as, round their results.
STEPPED = {"Attention", "Loop"}


@dataclass(slots=True)
class Verdict:
    """A line of the report. kind: same, refused, shape, type, node (a result) or fused (an output)."""

    seed: int
    form: str
    mood: str
    opset: int
    nodes: list[str]
    types: list[str]
    kind: str = "same"
    op: str = ""
    message: str = ""
    ort: str = ""
    sizes: int = 0  # the index of its inputs


def judged(case: Case) -> Verdict:
    graph = case.model.graph
    types = sorted(
        {onnx.TensorProto.DataType.Name(x.type.tensor_type.elem_type).lower() for x in graph.input}
    )
    out = Verdict(case.seed, case.form, case.mood, case.model.opset_import[0].version,
                  [n.op_type for n in graph.node], types)  # fmt: skip
    signal.alarm(LIMIT)  # an abort of the process, which counts as a difference
    for out.sizes, feeds in enumerate(case.feeds):
        with np.errstate(all="ignore"):
            _judge(case.model, feeds, out)
        if out.kind != "same":
            break
    signal.alarm(0)
    return out


def _judge(model: ModelProto, feeds: Mapping[str, Array], out: Verdict) -> None:
    import anyrt

    whole = marked(model, oracles.chain(model, feeds))
    try:
        few, every = (anyrt.load(m.SerializeToString()).run(feeds) for m in (model, whole))
    except Exception as error:
        if type(error).__name__ == "AssertionError":
            raise
        out.kind, out.message = "refused", f"{type(error).__name__}: {error}".splitlines()[0][:300]
        kinds = {name: node.op_type for node in model.graph.node for name in node.output}
        first = re.search(r"\bt\d+\b", out.message)
        out.op = kinds.get(first[0], out.form) if first else out.form
        out.ort = _ort_says(model, feeds)
        return
    held = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer} | dict(feeds) | every
    opset = model.opset_import[0].version
    for node in model.graph.node:
        for name, reported, kind in _differences(node, held, opset):
            out.kind, out.op, out.message = kind, node.op_type, f"{name}: {reported}"
            out.ort = _ort_of(node, held, opset, name)
            return
    _fused(model, feeds, few, every, out)


def marked(model: ModelProto, types: Mapping[str, Array]) -> ModelProto:
    """The model with all tensors as outputs, which have these types."""
    whole = ModelProto()
    whole.CopyFrom(model)
    have = {x.name for x in model.graph.output}
    for name in (n for node in model.graph.node for n in node.output if n and n not in have):
        kind = helper.np_dtype_to_tensor_dtype(types[name].dtype)
        whole.graph.output.append(helper.make_tensor_value_info(name, kind, None))
    return whole


def _differences(node: NodeProto, held: Mapping[str, Array], opset: int) -> list[tuple[str, str, str]]:
    """The differences of a node's results: (tensor, description, kind)."""
    feeds = oracles.reads(node, held)
    typed = oracles.evaluate(node, feeds, opset)
    expected = oracles.exact(node, feeds, opset, typed)
    out, rooms = [], None
    for n, (name, want, t) in enumerate(zip(node.output, expected, typed, strict=True)):
        got = held[name]
        if got.dtype != t.dtype:
            out.append((name, f"{got.dtype} for {t.dtype}", "type"))
        elif got.shape != t.shape:
            out.append((name, f"{got.shape} for {t.shape}", "shape"))
        elif not _equal(got, want, t).all():
            rooms = rooms or room(node, feeds, opset, typed, expected)
            bad = ~_equal(got, want, t, rooms[n])
            if bad.any():
                beyond = "; terms are beyond the type" if _beyond(node, feeds, opset, typed, n, bad) else ""
                out.append((name, _words(got, want, bad, feeds) + beyond, "node"))
    return out


def _beyond(
    node: NodeProto, feeds: Mapping[str, Array], opset: int, typed: list[Array], n: int, bad: Array
) -> bool:
    """Whether, for all of these results, sums or products of the terms' magnitudes exceed the type that they
    are computed in: then infinities and cancellations depend on the order of the terms."""
    if typed[n].dtype.kind in "iu" and node.op_type in SQUARES:
        most = np.iinfo(typed[n].dtype).max
        return bool((np.abs(feeds[node.input[0]].astype(np.float64)).max(initial=0) ** 2 > most).all())
    if node.op_type not in SUMS | PRODUCTS or typed[n].dtype.kind in "iub":
        return False
    mean, count = _mean(node, feeds, typed[n])
    size = _magnitudes(mean, feeds, opset, typed, least=1.0 if node.op_type in PRODUCTS else 0.0)[n]
    top = np.finfo(np.float64 if typed[n].dtype == np.float64 else np.float32).max
    return bool((~(size[bad] * count <= top)).all())


def _mean(node: NodeProto, feeds: Mapping[str, Array], result: Array) -> tuple[NodeProto, int]:
    """The node, or an equivalent one whose results are sums of a number of terms, and that number."""
    if node.op_type == "AveragePool":  # with zeros for elements outside, all windows have as many
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute} | {
            "count_include_pad": 1
        }
        pool = helper.make_node(node.op_type, node.input, node.output, **attributes)
        return pool, math.prod(attributes["kernel_shape"])
    if node.op_type in ("GlobalAveragePool", "ReduceMean"):
        return node, feeds[node.input[0]].size // max(1, result.size)
    return node, len(node.input) if node.op_type == "Mean" else 1


def _equal(got: Array, want: Array, typed: Array, room: Array | float = 0.0) -> Array:
    """Which elements are accepted: `want` in double precision, `typed` rounded by the reference."""
    if got.dtype.kind in "biu":
        near = np.abs(got.astype(np.float64) - typed.astype(np.float64)) <= room
        return np.asarray((got == typed) | (near if got.dtype.kind != "b" else room > 0))
    a, b = got.astype(np.float64), want.astype(np.float64)
    info = ml_dtypes.finfo(got.dtype)
    top = float(info.max)
    over = (
        np.abs(b) * (1 + UNITS[got.dtype.name] * float(info.eps)) + room > top
    )  # values whose rounding exceeds the type
    same = (a == b) | (np.isnan(a) & np.isnan(b)) | (over & np.isinf(a) & (np.sign(a) == np.sign(b)))
    allowed = UNITS[got.dtype.name] * float(info.eps) * np.abs(b) + float(info.tiny) + room
    return np.asarray(same | (np.abs(a - b) <= allowed))


def room(
    node: NodeProto, feeds: dict[str, Array], opset: int, typed: list[Array], expected: list[Array]
) -> list[Array]:
    """The permitted difference of each result besides its own rounding: the effect of small changes of the
    inputs."""
    terms = max((x.size for x in feeds.values()), default=1)
    scale = 4 * math.sqrt(max(1, terms))
    moved = [np.zeros(y.shape) for y in expected]
    drift = max((_drift(node, x.dtype) for x in feeds.values() if x.dtype.name in DRIFT), default=0.0)
    for draw in range(DRAWS):
        changed = _changed(feeds, drift * scale, draw)
        try:
            actual = oracles.exact(node, changed, opset, typed, moved=True)
        except Exception:
            continue
        for m, y, w in zip(moved, actual, expected, strict=True):
            if y.shape == w.shape:
                step = np.abs(y.astype(np.float64) - w.astype(np.float64))
                np.maximum(m, np.where(np.isfinite(step), step, 0), out=m)
    if node.op_type in SUMS:
        moved = [np.maximum(m, s) for m, s in zip(moved, _summed(node, feeds, opset, typed), strict=True)]
    if node.op_type == "Gelu":  # x / 2 · (1 + erf …), whose digits may cancel
        x = np.abs(feeds[node.input[0]].astype(np.float64))
        moved = [np.maximum(m, drift * np.where(np.isfinite(x), x, 0)) for m in moved]
    if node.op_type in GATED:
        gate = _gate(node, feeds, typed, expected)
        moved = [np.maximum(m, gate) for m in moved]
    if node.op_type == "Resize" and typed[0].dtype.kind in "iu":
        moved = [_between(node, feeds, opset)]
    if node.op_type in LOGARITHMS:  # of operands near 1
        most = max((float(np.abs(x[np.isfinite(x)]).max(initial=1)) for x in changed.values()), default=1.0)
        moved = [np.maximum(m, drift * most) for m in moved]
    return [np.ceil(m) if t.dtype.kind in "iub" else m for m, t in zip(moved, typed, strict=True)]


def _summed(node: NodeProto, feeds: Mapping[str, Array], opset: int, typed: list[Array]) -> list[Array]:
    """The effect of a drift of the terms' magnitudes on each sum, regardless of cancellations; 0 for other
    operators."""
    if node.op_type not in SUMS:
        return [np.zeros(y.shape) for y in typed]
    drift = max((_drift(node, x.dtype) for x in feeds.values() if x.dtype.name in DRIFT), default=0.0)
    by = drift * math.sqrt(max((1, *(x.size for x in feeds.values()))))
    return [np.where(np.isfinite(s), s, 0) * by for s in _magnitudes(node, feeds, opset, typed)]


def _between(node: NodeProto, feeds: Mapping[str, Array], opset: int) -> Array:
    """1 for halfway cases of a rounding to integers, as far as float32 can distinguish them."""
    wide = {n: x.astype(np.float64) if n == node.input[0] else x for n, x in feeds.items()}
    (result,) = oracles.evaluate(node, wide, opset)
    room = DRIFT["float32"] * 4 * np.abs(wide[node.input[0]]).max(initial=1.0)
    return np.asarray(np.abs(np.abs(result - np.trunc(result)) - 0.5) <= room, np.float64)


def _gate(node: NodeProto, feeds: Mapping[str, Array], typed: list[Array], expected: list[Array]) -> float:
    """The effect of units of the gates over all iterations; in every layout, one of the first two axes is the
    iterations."""
    states = [feeds[name] for name in node.input[5:7] if name] + expected
    held = [np.abs(x[np.isfinite(x)].astype(np.float64)).max(initial=1.0) for x in states]
    return float(max(feeds[node.input[0]].shape[:2]) * ml_dtypes.finfo(typed[0].dtype).eps * max(held))


def _drift(node: NodeProto, dtype: np.dtype[Any]) -> float:
    if node.op_type in STEPPED and dtype in oracles.HALVES:
        return float(ml_dtypes.finfo(dtype).eps) / 8  # scaled by at least 4 and the root of the terms
    return DRIFT[dtype.name]


def _changed(feeds: Mapping[str, Array], by: float, draw: int) -> dict[str, Array]:
    """The inputs in double precision, each float changed by this much: all up, all down, or at random."""
    rng = np.random.default_rng(draw)
    out = {}
    for name, x in feeds.items():
        if x.dtype.name in DRIFT:
            signs = (1.0, -1.0)[draw] if draw < 2 else rng.choice((-1.0, 1.0), x.shape)
            out[name] = x.astype(np.float64) * (1 + signs * by)
        else:
            out[name] = x
    return out


def _magnitudes(
    node: NodeProto, feeds: Mapping[str, Array], opset: int, typed: list[Array], least: float = 0.0
) -> list[Array]:
    """The sums of the magnitudes of the terms; for factors, the product of those above 1."""
    absolute = {
        n: np.maximum(np.abs(x.astype(np.float64)), least) if x.dtype.name in DRIFT else x
        for n, x in feeds.items()
    }
    plain = NodeProto()
    plain.CopyFrom(node)
    plain.op_type = {"Sub": "Add"}.get(node.op_type, node.op_type)
    try:
        result = oracles.exact(plain, absolute, opset, typed, moved=True)
    except Exception:
        return [np.zeros(y.shape) for y in typed]
    return [np.abs(y.astype(np.float64)) if y.shape == t.shape else np.zeros(t.shape)
            for y, t in zip(result, typed, strict=True)]  # fmt: skip


def _fused(
    model: ModelProto,
    feeds: Mapping[str, Array],
    few: Mapping[str, Array],
    every: Mapping[str, Array],
    out: Verdict,
) -> None:
    """Whether outputs are the same as when all tensors are outputs."""
    for x in model.graph.output:
        a, b = few[x.name], every[x.name]
        if a.dtype != b.dtype or a.shape != b.shape:
            out.kind, out.message = "fused", f"{x.name}: {a.dtype} {a.shape} for {b.dtype} {b.shape}"
            return
        bad = ~_equal(a, b, b)
        if bad.any():
            spread = _spread(model, feeds)[x.name]
            bad = ~_equal(a, b, b, spread if spread.shape == b.shape else np.inf)
        if bad.any():
            out.kind, out.op, out.message = "fused", "+".join(out.nodes), f"{x.name}: {_words(a, b, bad, {})}"
            return


def _spread(model: ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """How far tensors move when all results are off by a little before they are rounded."""
    base = oracles.chain(model, feeds)
    spread = {n: np.zeros(x.shape) for n, x in base.items()}
    opset = model.opset_import[0].version
    for draw in range(2 * DRAWS):
        rng = np.random.default_rng(draw)
        held = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer} | dict(feeds)
        for node in model.graph.node:
            read = oracles.reads(node, held)
            typed = oracles.evaluate(node, read, opset)
            exact, sums = oracles.exact(node, read, opset, typed), _summed(node, read, opset, typed)
            for name, y, t, off in zip(node.output, exact, typed, sums, strict=True):
                if t.dtype.name in DRIFT:
                    y = y.astype(np.float64)
                    off = np.maximum(off, np.abs(y) * DRIFT[t.dtype.name] * 4)
                    y = y + off * rng.choice((-1.0, 1.0), y.shape)
                held[name] = oracles.rounded(y, t.dtype)
                if held[name].shape == base[name].shape:
                    a, b = held[name].astype(np.float64), base[name].astype(np.float64)
                    step = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b))
                    np.maximum(spread[name], np.where(np.isnan(step), np.inf, 4 * step), out=spread[name])
    return spread


def _words(got: Array, want: Array, bad: Array, feeds: Mapping[str, Array]) -> str:
    at = tuple(int(i) for i in np.argwhere(bad)[0]) if bad.ndim else ()
    read = ", ".join(f"{x.dtype}{list(x.shape)}" for x in feeds.values())
    same = [repr(x[at].item()) for x in feeds.values() if x.shape == got.shape]
    of = f" of {', '.join(same)}" if same else ""
    held = [x.astype(np.float64) for x in feeds.values() if x.dtype.name in DRIFT]
    none = "; reads NaN" if any(np.isnan(x).any() for x in held) else ""
    none += "; reads infinities" if any(np.isinf(x).any() for x in held) else ""
    return (
        f"{int(bad.sum())} of {bad.size} differ, at {list(at)} {got[at]!r} for {want[at]!r}{of}; "
        f"reads {read}{none}"
    )


def _ort_says(model: ModelProto, feeds: Mapping[str, Array]) -> str:
    """ONNX Runtime's result for a whole model: equal to the reference, different, or its error."""
    result = oracles.onnxruntime(model, feeds)
    if isinstance(result, str):
        return result
    base, spread = oracles.chain(model, feeds), _spread(model, feeds)
    for x in model.graph.output:
        a, b = result[x.name], base[x.name]
        if a.shape != b.shape or not _equal(a, b, b, spread[x.name] * 4).all():
            return "differs from the reference"
    return "as the reference"


def _in_float32(
    node: NodeProto, feeds: Mapping[str, Array], opset: int, got: Array, expected: Array, name: str
) -> bool:
    """Whether ONNX Runtime, which does not support it in float64, agrees in float32, and not with
    `wanted`."""
    narrow = {n: x.astype(np.float32) if x.dtype == np.float64 else x for n, x in feeds.items()}
    model = oracles.alone(node, narrow, oracles.evaluate(node, narrow, opset), opset)
    actual = oracles.onnxruntime(model, narrow)
    if isinstance(actual, str) or actual[name].shape != got.shape:
        return False
    room = DRIFT["float32"] * 16 * np.abs(got).max(initial=0)
    return bool((np.abs(actual[name] - got) <= room).all() and (np.abs(actual[name] - expected) > room).any())


def _ort_of(node: NodeProto, held: Mapping[str, Array], opset: int, name: str) -> str:
    """ONNX Runtime's result for one node: with which result it agrees."""
    feeds = oracles.reads(node, held)
    typed = oracles.evaluate(node, feeds, opset)
    expected = oracles.exact(node, feeds, opset, typed)
    model = oracles.alone(node, feeds, typed, opset)
    actual = oracles.onnxruntime(model, feeds)
    n = list(node.output).index(name)
    if isinstance(actual, str):
        same = held[name].dtype == np.float64 and _in_float32(
            node, feeds, opset, held[name], expected[n], name
        )
        return "as AnyRT, in float32" if same else actual
    got, theirs = held[name], actual[name]
    if theirs.shape != typed[n].shape:
        return f"shape {theirs.shape}" + (", as ours" if theirs.shape == got.shape else "")
    extra = room(node, feeds, opset, typed, expected)[n]
    if _equal(theirs, expected[n], typed[n], extra).all():
        return "as the reference"
    ours = (
        got.shape == theirs.shape and got.dtype == theirs.dtype and _equal(got, theirs, theirs, extra).all()
    )
    return "as AnyRT" if ours else "as neither"
