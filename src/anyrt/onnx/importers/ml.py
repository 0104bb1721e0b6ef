"""Operators of ai.onnx.ml on tensors: scalers, encoders, linear models, support vectors.

Inputs of float64 are computed in float64, even if ONNX specifies results of float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from anyrt.api.compose.normalizations import wide
from anyrt.api.compose.sizes import length, volume
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import ActivationType, DataType, ReduceOperation, TopKOperation, UnaryOperation
from anyrt.core.errors import GraphError
from anyrt.onnx.node import Importer, Node, importer
from anyrt.ops._record import Array

FLOAT, INT64 = DataType.FLOAT, DataType.INT64
ml: Callable[..., Callable[[Importer], Importer]] = partial(importer, domain="ai.onnx.ml")


def table(node: Node, name: str, x: Tensor) -> Tensor:
    """An attribute of floats, in the type of `x`."""
    return node.constant(np.array(node.attr(name, ()), np.float32), x.dtype)


@ml("ArrayFeatureExtractor")
def array_feature_extractor(node: Node) -> Tensor:
    """Elements of the last axis at the given positions."""
    x, at = node.input(0), node.input(1)
    y = node.gather(x, at.cast(INT64).reshape((-1,)), x.rank - 1)
    return y.unsqueeze(0) if x.rank == 1 else y


@ml("Binarizer")
def binarizer(node: Node) -> Tensor:
    """1 if an element is larger than a threshold, otherwise 0."""
    x = node.input(0)
    return (x > node.attr("threshold", 0.0)).cast(x.dtype)


@ml("Scaler")
def scaler(node: Node) -> Tensor:
    """(x − offset) · scale of each feature."""
    x = wide(node.input(0))
    return ((x - table(node, "offset", x)) * table(node, "scale", x)).cast(FLOAT)


@ml("Normalizer")
def normalizer(node: Node) -> Tensor:
    """Rows divided by their largest magnitude, their sum of magnitudes, or their length."""
    x, norm = wide(node.input(0)), node.attr("norm", "MAX")
    axis = [x.rank - 1]
    if norm == "L2":
        by = node.unary(UnaryOperation.SQRT, node.reduce(ReduceOperation.SUM, x * x, axis))
    elif norm in ("L1", "MAX"):
        op = ReduceOperation.SUM if norm == "L1" else ReduceOperation.MAX
        by = node.reduce(op, node.unary(UnaryOperation.ABS, x) if norm == "L1" else x, axis)
    else:
        raise node.unsupported(f"norm {norm}", "use MAX, L1 or L2")
    return (x / node.where_(by.equal(0.0), node.like(1.0, by), by)).cast(FLOAT)


@ml("Imputer")
def imputer(node: Node) -> Tensor:
    """A value that replaces another value, or NaN."""
    x = node.input(0)
    kind = "float" if x.is_float else "int64"
    value = np.array(node.attr(f"imputed_value_{kind}s", ()), np.float64)
    put = node.constant(value, x.dtype)
    old = node.attr("replaced_value_float", 0.0) if x.is_float else node.attr("replaced_value_int64", 0)
    missing = node.unary(UnaryOperation.ISNAN, x) if np.isnan(old) else x.equal(old)
    return node.where_(missing, put, x)


@ml("FeatureVectorizer")
def feature_vectorizer(node: Node) -> Tensor:
    """All features of the inputs side by side."""
    parts = [x.cast(FLOAT) for x in node.present()]
    parts = [x.unsqueeze(1) if x.rank == 1 else x.reshape([length(x, 0), volume(x, range(1, x.rank))])
             for x in parts]  # fmt: skip
    return node.concat(parts, 1)


@ml("OneHotEncoder")
def one_hot_encoder(node: Node) -> Tensor:
    """One-hot encoding by categories, along a new last axis."""
    x = node.input(0)
    if not node.has("cats_int64s"):
        raise node.unsupported("strings as categories", "encode them outside the model")
    kinds = node.constant(np.array(node.attr("cats_int64s", ())), INT64)
    return x.cast(INT64).unsqueeze(x.rank).equal(kinds).cast(FLOAT)


@ml("LabelEncoder")
def label_encoder(node: Node) -> Tensor:
    """The value for the key that an element equals, or a default."""
    x = node.input(0)
    keys, values, other = _entries(node, "keys"), _entries(node, "values"), _default(node)
    row = node.constant(keys, x.dtype)
    same = x.unsqueeze(x.rank).equal(row)
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        nan = node.unary(UnaryOperation.ISNAN, row)
        same = same | (node.unary(UnaryOperation.ISNAN, x).unsqueeze(x.rank) & nan)
    at = same.cast(INT64) * node.constant(np.arange(1, keys.size + 1), INT64)
    place = node.reduce(ReduceOperation.MAX, at, [x.rank], keep=False)
    of = np.concatenate([np.array([other]).astype(values.dtype), values])
    return node.gather(node.constant(of), place, 0)


def _entries(node: Node, what: str) -> Array:
    """Keys or values, in the type of their attribute."""
    if node.has(f"{what}_tensor"):
        return node.array(f"{what}_tensor").reshape(-1)
    for kind, dtype in (("int64s", np.int64), ("floats", np.float32)):
        if node.has(f"{what}_{kind}"):
            return np.array(node.attr(f"{what}_{kind}", ()), dtype)
    raise node.unsupported(f"strings as {what}", "encode them outside the model")


def _default(node: Node) -> object:
    if node.has("default_tensor"):
        return node.array("default_tensor").reshape(-1)[0]
    floats = node.has("values_floats") or (
        node.has("values_tensor") and node.array("values_tensor").dtype.kind == "f"
    )
    return node.attr("default_float", -0.0) if floats else node.attr("default_int64", -1)


# ---- scores ---------------------------------------------------------------------------------------


def finished(node: Node, y: Tensor, how: str | None = None) -> Tensor:
    """Scores, (N, classes), with `post_transform` applied."""
    how = node.attr("post_transform", "NONE") if how is None else how
    if how == "LOGISTIC":
        return node.layer("add_activation", y, ActivationType.SIGMOID)
    if how == "SOFTMAX":
        return node.layer("add_softmax", y, axes=2)
    if how == "SOFTMAX_ZERO":
        most = node.reduce(ReduceOperation.MAX, y, [1])
        small = node.unary(UnaryOperation.ABS, y) < 1e-7
        powers = node.unary(UnaryOperation.EXP, y - most)
        sums = node.reduce(ReduceOperation.SUM, node.where_(small, node.like(0.0, y), powers), [1])
        least = y * node.unary(UnaryOperation.EXP, 0.0 - most)
        return node.where_(small, least, powers) / sums
    if how != "NONE":
        raise node.unsupported(f"post_transform {how}", "use NONE, LOGISTIC, SOFTMAX or SOFTMAX_ZERO")
    return y


def labels(node: Node) -> Array:
    """The integer labels of the classes."""
    names = ("classlabels_int64s", "classlabels_ints")
    for name in names:
        if node.has(name):
            return np.array(node.attr(name, ()), np.int64)
    raise node.unsupported("strings as labels", "use integers")


def best(node: Node, scores: Tensor, of: Array) -> Tensor:
    """The label of the largest score, the first of equal scores."""
    layer = node.add("add_topk", scores, TopKOperation.MAX, 1, 2, INT64)
    return node.gather(node.constant(of), node.tensor(layer.get_output(1)).reshape((-1,)), 0)


def judged(node: Node, scores: Tensor, of: Array, positive: bool) -> list[Tensor]:
    """Labels and scores. For one score and two classes, positive: the score is the probability of the second
    class, otherwise its decision value."""
    if scores.sizes[1] != 1 or of.size != 2:
        return [best(node, scores, of), finished(node, scores).cast(FLOAT)]
    limit = 0.5 if positive else 0.0
    label = node.gather(node.constant(of), (scores > limit).cast(INT64).reshape((-1,)), 0)
    if node.attr("post_transform", "NONE") == "LOGISTIC":
        return [label, finished(node, node.concat([0.0 - scores, scores], 1)).cast(FLOAT)]
    return [label, node.concat([(1.0 if positive else 0.0) - scores, scores], 1).cast(FLOAT)]


def rows(node: Node) -> Tensor:
    """The input as (N, features) of FLOAT or DOUBLE."""
    x = wide(node.input(0))
    return x.unsqueeze(0) if x.rank == 1 else x


def linear(node: Node, x: Tensor, outputs: int) -> Tensor:
    """Products with coefficients, and intercepts."""
    weights = np.array(node.attr("coefficients", ()), np.float32)
    if outputs < 1 or weights.size % outputs:
        raise GraphError("AR417", node.where, f"{weights.size} coefficients", f"a multiple of {outputs}")
    y = node.matmul(x, node.constant(weights.reshape(outputs, -1), x.dtype), turn_b=True)
    return y + table(node, "intercepts", x) if node.attr("intercepts", ()) else y


@ml("LinearRegressor")
def linear_regressor(node: Node) -> Tensor:
    """Weighted sums of features."""
    return finished(node, linear(node, rows(node), node.attr("targets", 1))).cast(FLOAT)


@ml("LinearClassifier")
def linear_classifier(node: Node) -> list[Tensor]:
    """The class whose weighted sum is the largest, and all sums."""
    of = labels(node)
    outputs = len(node.attr("intercepts", ())) or of.size
    return judged(node, linear(node, rows(node), outputs), of, positive=False)


# ---- support vectors ------------------------------------------------------------------------------


def kernel(node: Node, x: Tensor, vectors: Array) -> Tensor:
    """The kernel function of rows and support vectors, (N, vectors)."""
    gamma, offset, degree = (*node.attr("kernel_params", (0.0,) * 3), 0.0, 0.0, 0.0)[:3]
    named = node.attr("kernel_type", "LINEAR")
    if named == "RBF":
        apart = x.unsqueeze(1) - node.constant(vectors[None], x.dtype)
        squares = node.reduce(ReduceOperation.SUM, apart * apart, [2], keep=False)
        return node.unary(UnaryOperation.EXP, squares * -gamma)
    y = node.matmul(x, node.constant(vectors, x.dtype), turn_b=True)
    if named == "POLY":
        return (y * gamma + offset) ** degree
    if named == "SIGMOID":
        return node.layer("add_activation", y * gamma + offset, ActivationType.TANH)
    if named != "LINEAR":
        raise node.unsupported(f"kernel {named}", "use LINEAR, POLY, RBF or SIGMOID")
    return y


def _vectors(node: Node, count: int) -> Array:
    vectors = np.array(node.attr("support_vectors", ()), np.float32)
    if count < 1 or vectors.size % count:
        raise GraphError(
            "AR417", node.where, f"{vectors.size} numbers for {count} vectors", f"a multiple of {count}"
        )
    return vectors.reshape(count, -1)


@ml("SVMRegressor")
def svm_regressor(node: Node) -> Tensor:
    """The weighted sum of the kernel functions of a row with the support vectors."""
    count, weights = node.attr("n_supports", 0), np.array(node.attr("coefficients", ()), np.float32)
    x = rows(node)
    alike = kernel(node, x, _vectors(node, count)) if count else x
    y = node.matmul(alike, node.constant(weights[:, None], x.dtype)) + node.attr("rho", (0.0,))[0]
    if node.attr("one_class", 0):
        return node.where_(y > 0.0, node.constant([[1.0]], FLOAT), node.constant([[-1.0]], FLOAT))
    return finished(node, y).cast(FLOAT)
