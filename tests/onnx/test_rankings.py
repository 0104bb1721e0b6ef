"""Rankings, cumulative folds and softmaxes of ONNX models, compared with NumPy and ONNX's reference."""

from __future__ import annotations

import numpy as np
import pytest

RNG = np.random.default_rng(7)
KINDS = ["f4", "f2", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]


def numbers(kind, *shape):
    """A few distinct numbers, and the greatest of integers."""
    x = RNG.integers(0, 9, shape).astype(kind)
    if x.dtype.kind in "iu":
        x.reshape(-1)[1] = np.iinfo(kind).max
    return x


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
def test_extremes_lie_at_the_first_or_the_last_place(run, name, kind, last):
    x = numbers(kind, 3, 7)
    result = (np.argmax if name == "ArgMax" else np.argmin)(x[:, ::-1] if last else x, 1)
    got = run(name, {"x": x}, axis=-1, keepdims=0, select_last_index=last, dynamic=("x",))
    np.testing.assert_array_equal(got, 6 - result if last else result)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
def test_nan_is_behind_all_others_and_still_at_a_place_that_is_there(run, kind, name, last):
    x = np.array([[np.nan, 2, 2, np.nan], [np.nan] * 4], kind)
    outputs = run(name, {"x": x}, axis=1, keepdims=0, select_last_index=last)
    assert outputs[0] == 1 + last
    assert 0 <= outputs[1] < 4


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "f8"])
@pytest.mark.parametrize("largest", [0, 1])
def test_the_largest_of_every_type_are_in_order(run, kind, largest):
    x = numbers(kind, 2, 9)
    values, at = run("TopK", {"x": x}, {"k": np.int64([4])}, outputs=2, largest=largest)
    order = np.sort(x, 1)[:, ::-1] if largest else np.sort(x, 1)
    np.testing.assert_array_equal(values, order[:, :4])
    np.testing.assert_array_equal(np.take_along_axis(x, at, 1), values)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("rank", "axis"), [(rank, axis) for rank in (5, 6, 7, 8) for axis in range(rank)])
def test_extremes_are_found_along_every_axis_of_every_rank(run, rank, axis):
    x = RNG.permutation(2 * 3**3 * 2 ** (rank - 4)).reshape(2, 3, 3, 3, *(2,) * (rank - 4)).astype(np.float32)
    np.testing.assert_array_equal(run("ArgMax", {"x": x}, axis=axis, keepdims=0), np.argmax(x, axis))
    np.testing.assert_array_equal(run("ArgMin", {"x": x}, axis=axis, keepdims=0), np.argmin(x, axis))
    values, at = run("TopK", {"x": x}, {"k": np.int64([2])}, outputs=2, axis=axis)
    np.testing.assert_array_equal(at, np.argsort(-x, axis).take([0, 1], axis))
    np.testing.assert_array_equal(values, np.take_along_axis(x, at, axis))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_how_many_may_come_from_data(agrees, axis):
    x = RNG.permutation(120).reshape(4, 5, 6).astype(np.float32)
    agrees("TopK", {"x": x, "k": np.int64([3])}, outputs=2, axis=axis)
    agrees("TopK", {"x": x}, {"k": np.int64([4])}, outputs=2, axis=axis, dynamic=("x",))


def test_any_number_of_elements_is_chosen(run):
    x = RNG.permutation(9000).reshape(2, 4500).astype(np.float32)
    for k in 0, 1, 4000, 4500:
        values, at = run("TopK", {"x": x}, {"k": np.int64([k])}, outputs=2)
        np.testing.assert_array_equal(values, np.sort(x, 1)[:, ::-1][:, :k])
        np.testing.assert_array_equal(np.take_along_axis(x, at, 1), values)


def test_how_many_was_an_attribute(run):
    values, at = run("TopK", {"x": np.float32([3, 1, 2])}, outputs=2, opset=7, k=2)
    assert (values.tolist(), at.tolist()) == ([3, 2], [0, 2])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("opset", [7, 13])
def test_softmaxes_took_all_axes_from_one_on_for_one(run, name, axis, opset):
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    flat = (
        x.reshape(np.prod(x.shape[:axis] or (1,)) if axis >= 0 else 6, -1)
        if opset < 13
        else np.moveaxis(x, axis, -1)
    )
    powers = np.exp(flat - flat.max(-1, keepdims=True))
    y = powers / powers.sum(-1, keepdims=True)
    expected = {"Softmax": y, "LogSoftmax": np.log(y), "Hardmax": y == y.max(-1, keepdims=True)}[name]
    expected = expected.reshape(x.shape) if opset < 13 else np.moveaxis(expected, -1, axis)
    got = run(name, {"x": x}, opset=opset, axis=axis, dynamic=("x",))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["f8", "f2"])
@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmaxes_in_other_types(agrees, name, kind):
    agrees(name, {"x": RNG.standard_normal((3, 5)).astype(kind)}, tol=2e-3)
    agrees("Softmax", {"x": np.zeros((0, 5), kind)}, opset=11)


def test_the_first_of_equal_ones_is_the_hard_maximum(run):
    assert run("Hardmax", {"x": np.float32([[1, 3, 3], [2, 2, 0]])}).tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize("dynamic", [(), ("x",)])
@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
def test_of_nothing_there_is_no_largest(run, name, dynamic):
    assert run(name, {"x": np.zeros((2, 0), np.float32)}, dynamic=dynamic).shape == (2, 0)


@pytest.mark.parametrize("name", ["CumSum", "CumProd"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_axes_of_cumulative_folds_come_from_anywhere(run, name, known, axis):
    x, at = {"x": RNG.standard_normal((2, 3, 4)).astype(np.float32)}, {"axis": np.int32(axis)}
    got = run(name, x, at, opset=26) if known else run(name, x | at, opset=26, dynamic=("x",))
    fold = np.cumsum if name == "CumSum" else np.cumprod
    np.testing.assert_allclose(got, fold(x["x"], axis), rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("kind", ["f8", "i4", "i8", "u4", "u8"])
def test_cumulative_folds_from_either_end(agrees, kind, exclusive, reverse):
    x, flags = np.array([1, 2, 3, 4]).astype(kind), {"exclusive": exclusive, "reverse": reverse}
    for name in "CumSum", "CumProd":
        agrees(name, {"x": x}, {"axis": np.int64(0)}, opset=26, **flags)
