"""Reductions of ONNX models over constant or dynamic axes, compared with NumPy and ONNX's reference."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import anyrt
from tests.messages import diagnostic

NAMES = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"]
X = np.random.default_rng(3).uniform(0.5, 2, (2, 3, 4)).astype(np.float32)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_axes_that_a_run_decides_are_folded_like_known_ones(agrees, name):
    agrees(f"Reduce{name}", {"x": X, "axes": np.int64([1, -1])}, keepdims=0)
    agrees(f"Reduce{name}", {"x": X, "axes": np.int64([-1, 0])}, keepdims=1)
    agrees(f"Reduce{name}", {"x": X}, {"axes": np.int64([0, -1])}, keepdims=0, dynamic=("x",))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("axes", [[0], [2], [-2], [2, 0], [0, 1, 2]])
@pytest.mark.parametrize("keep", [0, 1])
def test_any_axes_may_come_from_data(run, axes, keep):
    got = run("ReduceSum", {"x": X, "axes": np.int64(axes)}, keepdims=keep)
    np.testing.assert_allclose(got, X.sum(tuple(axes), keepdims=bool(keep)), rtol=1e-5)


@pytest.mark.parametrize("axes", [[0], [-3, -2, 0]])
def test_axes_that_a_run_decides_fold_what_is_open_everywhere(run, axes):
    x = np.random.default_rng(4).uniform(0.5, 1.5, (3, 2, 4, 2)).astype(np.float32)
    got = run("ReduceProd", {"x": x, "axes": np.int64(axes)}, dynamic=("x",), keepdims=0)
    np.testing.assert_allclose(got, x.prod(tuple(axes)), rtol=1e-5)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("sizes", "axes"), [((2, 3, 1, 4, 2), [-2, 1]), ((2,) * 6 + (3,), [6, 0, -4])])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("dynamic", [(), ("x",)])
@pytest.mark.parametrize("name", NAMES)
def test_axes_that_a_run_decides_were_rejected_of_more_than_four(agrees, name, sizes, axes, keep, dynamic):
    x = np.random.default_rng(5).uniform(0.5, 2, sizes).astype(np.float32)
    agrees(f"Reduce{name}", {"x": x, "axes": np.int64(axes)}, dynamic=dynamic, keepdims=keep)


def test_means_of_integers_over_five_axes_that_a_run_decides_are_rejected(run):
    with pytest.raises(
        anyrt.errors.NotSupportedError, match=diagnostic("AR901", "y0", "INT32", 5, "ReduceMean")
    ):
        run("ReduceMean", {"x": np.ones((2, 2, 2, 2, 2), np.int32), "axes": np.int64([0, 1])})


@pytest.mark.parametrize("axes", [[-1], [-2, -1]])
def test_axes_that_a_run_decides_of_what_data_count_were_rejected(axes):
    text = f"g (bool[a,b] x, int64[{len(axes)}] d) => (int64[] y) {{ t = NonZero(x)\n y = ReduceMax(t, d) }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    x = np.array([[0, 1, 0], [1, 0, 0]], np.bool_)
    (y,) = anyrt.load(model.SerializeToString()).run({"x": x, "d": np.int64(axes)}).values()
    assert y.tolist() == np.array(np.nonzero(x)).max(tuple(axes), keepdims=True).tolist()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_axes_were_attributes(agrees, name):
    for axes, keep in ([0], 1), ([-1, 0], 0):
        agrees(f"Reduce{name}", {"x": X}, opset=11, axes=axes, keepdims=keep)
    agrees(f"Reduce{name}", {"x": X}, opset=7)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("noop", [0, 1])
def test_no_axes_mean_all_or_none(agrees, name, noop):
    agrees(f"Reduce{name}", {"x": X}, noop_with_empty_axes=noop)
    agrees(f"Reduce{name}", {"x": X, "axes": np.zeros(0, np.int64)}, noop_with_empty_axes=noop)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["i1", "u1", "i4", "i8", "u8", "f2", "f8"])
@pytest.mark.parametrize("name", ["Sum", "Max", "Min", "SumSquare", "L1", "L2"])
def test_folds_in_every_type(run, name, kind):
    x = np.array([[1, 5, 2], [7, 0, 90]]).astype(kind)
    functions = {"Sum": np.sum, "Max": np.max, "Min": np.min, "L1": np.sum}
    square = {"SumSquare": lambda v: v, "L2": np.sqrt}.get(name)
    expected = functions[name](x, 1) if square is None else square(np.sum(np.float64(x) ** 2, 1))
    got = run(f"Reduce{name}", {"x": x}, {"axes": np.int64([1])}, keepdims=0)
    assert got.dtype == x.dtype
    np.testing.assert_allclose(
        got, expected.astype(np.int64).astype(kind) if x.dtype.kind in "iu" else expected, rtol=1e-3
    )


@pytest.mark.parametrize(
    ("name", "empty"),
    [("Sum", 0), ("Prod", 1), ("LogSumExp", -np.inf), ("L2", 0), ("Max", -np.inf), ("Min", np.inf)],
)
def test_folds_of_nothing(run, name, empty):
    got = run(f"Reduce{name}", {"x": X[:, :0]}, {"axes": np.int64([1])}, keepdims=0)
    np.testing.assert_array_equal(got, np.full((2, 4), empty))


@pytest.mark.parametrize("kind", ["i1", "u1", "?", "i2"])
def test_extremes_of_nothing_are_those_of_the_type(run, kind):
    x, at = np.zeros((2, 0), kind), {"axes": np.int64([1])}
    limits = (0, 1) if kind == "?" else (np.iinfo(kind).min, np.iinfo(kind).max)
    results = [run(f"Reduce{name}", {"x": x}, at, keepdims=0) for name in ("Max", "Min")]
    np.testing.assert_array_equal(results, [[limits[0]] * 2, [limits[1]] * 2])


def test_logarithms_of_sums_of_exponentials_do_not_overflow(run):
    x = np.float32([[1000, 1000], [-np.inf, -np.inf], [np.inf, 1], [-1000, 0]])
    got = run("ReduceLogSumExp", {"x": x}, {"axes": np.int64([1])}, keepdims=0)
    np.testing.assert_allclose(got, [1000 + np.log(2), -np.inf, np.inf, 0], rtol=1e-6)


def test_truth_values_have_extremes(run):
    x, at = np.array([[True, False], [False, False], [True, True]]), {"axes": np.int64([1])}
    assert run("ReduceMax", {"x": x}, at, keepdims=0).tolist() == [True, False, True]
    assert run("ReduceMin", {"x": x}, at, keepdims=0).tolist() == [False, False, True]
