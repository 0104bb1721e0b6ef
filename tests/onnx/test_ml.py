"""Operators of ai.onnx.ml, compared with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from anyrt.onnx.backend import prepare
from tests.onnx.conftest import of_node
from tests.sampling import sample

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ"]

RNG = np.random.default_rng(11)
ENDS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]


def random(*shape):
    """Random numbers around 0."""
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture
def same(run):
    """Run a node in AnyRT and in ONNX Runtime, and compare."""

    def same_(op, inputs, outputs=1, **attrs):
        got = run(op, inputs, outputs=outputs, domain="ai.onnx.ml", dynamic=attrs.pop("dynamic", ()), **attrs)
        names = [f"y{k}" for k in range(outputs)]
        model = of_node(
            helper.make_node(op, list(inputs), names, domain="ai.onnx.ml", **attrs), inputs, {}, 17
        )
        model.ir_version = 8
        expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, dict(inputs))
        for a, b in zip(got if outputs > 1 else (got,), expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)

    return same_


@pytest.mark.parametrize(("op", "attrs"), [
    ("Binarizer", {"threshold": 0.3}),
    ("Scaler", {"offset": [0.5, 1, 0, 2], "scale": [2.0, 3, 1, 0.5]}),
    ("Normalizer", {"norm": "MAX"}),
    ("Normalizer", {"norm": "L1"}),
    ("Normalizer", {"norm": "L2"}),
    ("LinearRegressor", {"coefficients": [0.5, 1, -1, 2, 1, 0, 0, 3], "intercepts": [1.0, -2], "targets": 2}),
])  # fmt: skip
def test_features_are_scaled_and_weighed(same, op, attrs):
    same(op, {"x": random(5, 4)}, dynamic=("x",), **attrs)


def test_values_are_put_in_the_place_of_others(same):
    x = random(3, 4)
    x[1, 2] = np.nan
    same("Imputer", {"x": x}, imputed_value_floats=[1.0, 2, 3, 4], replaced_value_float=float("nan"))
    n = {"x": RNG.integers(0, 3, (3, 4))}
    same("Imputer", n, imputed_value_int64s=[7], replaced_value_int64=1)


def test_features_stand_side_by_side(same):
    same("FeatureVectorizer", {"a": random(3, 2), "b": random(3, 4)}, inputdimensions=[2, 4])
    same("ArrayFeatureExtractor", {"x": random(3, 4), "at": np.int64([2, 0])})


def test_categories_are_encoded(same):
    n = {"x": RNG.integers(0, 5, (3, 4))}
    same("OneHotEncoder", n, cats_int64s=[3, 1, 7], zeros=1)
    same("LabelEncoder", n, keys_int64s=[3, 1], values_floats=[0.5, 2.5], default_float=-7.0)
    same("LabelEncoder", n, keys_int64s=[3, 1], values_int64s=[30, 10], default_int64=-1)
    x = {"x": np.float32([1.5, np.nan, 2.5])}
    same("LabelEncoder", x, keys_floats=[float("nan"), 1.5], values_int64s=[9, 8])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("classes", [2, 3])
def test_the_class_of_the_largest_sum_is_returned(same, end, classes):
    coefficients, intercepts = random(4 * classes).tolist(), random(classes).tolist()
    same("LinearClassifier", {"x": random(6, 4)}, 2, coefficients=coefficients, intercepts=intercepts,
         classlabels_ints=list(range(5, 5 + classes)), post_transform=end)  # fmt: skip


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vectors_are_weighed(same, kernel):
    same("SVMRegressor", {"x": random(6, 4)}, kernel_type=kernel, kernel_params=[0.3, 0.5, 3.0], n_supports=5,
         coefficients=random(5).tolist(), support_vectors=random(20).tolist(), rho=[0.7])  # fmt: skip


def forest(trees, features, modes, depth=3):
    """Attributes of nodes of complete trees, and the indices of their leaves."""
    inner, every = 2**depth - 1, 2 ** (depth + 1) - 1
    here = [k % every for k in range(trees * every)]
    kinds = [modes[k % len(modes)] if h < inner else "LEAF" for k, h in enumerate(here)]
    attrs = {
        "nodes_treeids": [k // every for k in range(trees * every)], "nodes_nodeids": here,
        "nodes_featureids": RNG.integers(0, features, len(here)).tolist(), "nodes_modes": kinds,
        "nodes_values": np.round(random(len(here)), 1).tolist(),
        "nodes_truenodeids": [2 * h + 1 if h < inner else 0 for h in here],
        "nodes_falsenodeids": [2 * h + 2 if h < inner else 0 for h in here],
        "nodes_missing_value_tracks_true": RNG.integers(0, 2, len(here)).tolist(),
    }  # fmt: skip
    return attrs, [(k // every, h) for k, h in enumerate(here) if h >= inner]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("fold", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("mode", sample(MODES, 2))
def test_leaves_of_all_trees_are_folded(same, fold, mode):
    attrs, leaves = forest(3, 3, [mode], depth=2)
    x = np.round(random(9, 3), 1)
    x[0, 1] = np.nan
    attrs |= {"target_treeids": [t for t, _ in leaves], "target_nodeids": [n for _, n in leaves]}
    attrs |= {"target_ids": [0] * len(leaves), "target_weights": random(len(leaves)).tolist(), "n_targets": 1}
    attrs |= {"aggregate_function": fold, "base_values": [0.5], "dynamic": ("x",)}
    same("TreeEnsembleRegressor", {"x": x}, **attrs)


def test_trees_may_compare_in_several_ways_for_several_targets(same):
    attrs, leaves = forest(3, 3, ["BRANCH_LEQ", "BRANCH_GT", "BRANCH_NEQ"])
    leaves = leaves * 2
    attrs |= {"target_treeids": [t for t, _ in leaves], "target_nodeids": [n for _, n in leaves]}
    attrs |= {"target_ids": [k * 2 // len(leaves) for k in range(len(leaves))]}
    attrs |= {"target_weights": random(len(leaves)).tolist(), "n_targets": 2}
    same("TreeEnsembleRegressor", {"x": np.round(random(9, 3), 1)}, **attrs)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("end", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("kind", ["three", "positive", "mixed"])
def test_trees_vote_for_classes(same, end, kind):
    attrs, leaves = forest(3, 3, ["BRANCH_LEQ"], depth=2)
    count = 3 if kind == "three" else 1
    leaves = leaves * count
    weights = random(len(leaves)) if kind != "positive" else np.abs(random(len(leaves))) / 3
    attrs |= {"class_treeids": [t for t, _ in leaves], "class_nodeids": [n for _, n in leaves]}
    attrs |= {"class_ids": [k * count // len(leaves) for k in range(len(leaves))]}
    attrs |= {"class_weights": weights.tolist()}
    attrs |= {"classlabels_int64s": [4, 7, 9][: max(count, 2)], "post_transform": end}
    same("TreeEnsembleClassifier", {"x": random(9, 3)}, 2, **attrs)


# The float32 roundings of each lie between these two.
NEAR = np.array([[1 / 3 - 1e-12], [1 / 3], [1 / 3 + 1e-12]])
STUMP = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
    "nodes_values_as_tensor": numpy_helper.from_array(np.array([1 / 3, 0, 0])),
}  # fmt: skip


def test_trees_compare_float64_as_it_is(same):
    weights = numpy_helper.from_array(np.array([1.0, 2.0]))
    names = ("treeids", "nodeids", "ids")
    attrs = STUMP | dict(zip([f"target_{n}" for n in names], [[0, 0], [1, 2], [0, 0]], strict=True))
    same("TreeEnsembleRegressor", {"x": NEAR}, target_weights_as_tensor=weights, n_targets=1, **attrs)
    attrs = STUMP | dict(zip([f"class_{n}" for n in names], [[0, 0], [1, 2], [0, 1]], strict=True))
    same("TreeEnsembleClassifier", {"x": NEAR}, 2, class_weights_as_tensor=weights,
         classlabels_int64s=[3, 5, 7], **attrs)  # fmt: skip


@pytest.mark.parametrize("mode", range(7))
def test_trees_with_leaves_beside_nodes_compute_float64(mode):
    table = numpy_helper.from_array
    members = {"membership_values": table(np.array([1 / 3, np.nan]))} if mode == 6 else {}
    node = helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, aggregate_function=1,
        post_transform=0,
        nodes_modes=table(np.array([mode], np.uint8)), nodes_featureids=[0], tree_roots=[0],
        nodes_splits=table(np.array([1 / 3])), nodes_truenodeids=[0], nodes_falsenodeids=[1],
        nodes_trueleafs=[1], nodes_falseleafs=[1], leaf_targetids=[0, 0],
        leaf_weights=table(np.array([1 / 7, 1e300])), **members,
    )  # fmt: skip
    model = of_node(node, {"x": NEAR}, {}, 21)
    model.opset_import[1].version = 5
    (got,) = prepare(model).run({"x": NEAR})
    less, same, more = NEAR < 1 / 3, NEAR == 1 / 3, NEAR > 1 / 3
    yes = (less | same, less, more | same, more, same, ~same, same)[mode]
    np.testing.assert_array_equal(got, np.where(yes, 1 / 7, 1e300))


@pytest.mark.parametrize(("op", "attrs", "expected"), [
    ("Scaler", {"offset": [1.0], "scale": [2.0**30]}, [[2.0**-10]]),
    ("LinearRegressor", {"coefficients": [2.0**30], "intercepts": [-(2.0**30)], "targets": 1}, [[2.0**-10]]),
    ("SVMRegressor", {"kernel_type": "LINEAR", "n_supports": 1, "coefficients": [2.0**30],
                      "support_vectors": [1.0], "rho": [-(2.0**30)]}, [[2.0**-10]]),
])  # fmt: skip
def test_numbers_of_float64_are_rounded_at_the_end(run, op, attrs, expected):
    got = run(op, {"x": np.array([[1 + 2.0**-40]])}, domain="ai.onnx.ml", **attrs)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, expected)
