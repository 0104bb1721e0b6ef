"""Constants and shapes of ONNX models, compared with NumPy, in old and new spellings."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from anyrt.core.errors import AnyrtError
from anyrt.onnx.backend import prepare
from tests.messages import diagnostic

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def ints(*x: int) -> np.ndarray:
    return np.array(x, np.int64)


@pytest.mark.parametrize("dynamic", [(), ("x",)])
def test_a_reshape_whose_sizes_are_an_input_copies_and_infers(run, dynamic):
    y = run("Reshape", {"x": X, "sizes": ints(0, -1, 2)}, dynamic=dynamic)
    np.testing.assert_array_equal(y, X.reshape(2, 6, 2))


def test_a_zero_of_a_reshape_is_a_size_with_allowzero(run):
    x = np.zeros((0, 3, 4), np.float32)
    assert run("Reshape", {"x": x}, {"sizes": ints(3, 4, 0)}, allowzero=1).shape == (3, 4, 0)
    assert run("Reshape", {"x": x}, {"sizes": ints(0, 12)}).shape == (0, 12)


@pytest.mark.parametrize("dynamic", [(), ("x",)])
@pytest.mark.parametrize("axis", [0, 2, 3, -1])
def test_a_tensor_is_flattened_at_any_axis(run, axis, dynamic):
    for x in (X, X[:, :0]):
        rows = int(np.prod(x.shape[:axis]))
        expected = x.reshape(rows, x.size // rows if rows else int(np.prod(x.shape[axis:])))
        np.testing.assert_array_equal(run("Flatten", {"x": x}, dynamic=dynamic, axis=axis), expected)


@pytest.mark.parametrize(("opset", "axes"), [(11, True), (21, False)])
def test_axes_are_attributes_before_opset_13_and_inputs_after(run, opset, axes):
    arguments = ({}, {"axes": [1]}) if axes else ({"axes": ints(1)}, {})
    assert run("Unsqueeze", {"x": X}, arguments[0], opset=opset, **arguments[1]).shape == (2, 1, 3, 4)
    assert run("Squeeze", {"x": X[:, :1]}, arguments[0], opset=opset, **arguments[1]).shape == (2, 4)


def test_a_squeeze_without_axes_keeps_open_ones_which_must_not_be_1(run):
    with pytest.raises(
        AnyrtError, match=diagnostic("AR410", "y0.5", "x.shape[0] = 1", 1, 0, (-1, -1, -1), 1, "Squeeze")
    ):
        run("Squeeze", {"x": X[:1]}, dynamic=("x",))
    assert run("Squeeze", {"x": X[:1]}).shape == (3, 4)
    assert run("Squeeze", {"x": X}, dynamic=("x",)).shape == (2, 3, 4)


def test_a_shape_is_returned_from_one_axis_to_another(run):
    assert run("Shape", {"x": X}, start=-2).tolist() == [3, 4]
    assert run("Shape", {"x": X}, start=0, end=-1, dynamic=("x",)).tolist() == [2, 3]
    assert run("Shape", {"x": X}, start=2, end=1).tolist() == []


def test_constants_are_numbers_lists_or_tensors(run):
    assert run("Constant", {}, value_ints=[3, 4]).tolist() == [3, 4]
    assert run("Constant", {}, value_float=2.5) == np.float32(2.5)


def test_axes_of_open_sizes_stay_where_a_squeeze_names_none():
    x = X[:, :1]
    sizes = ["n", 1, 4]
    graph = helper.make_graph(
        [helper.make_node("Squeeze", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, sizes)],
        [helper.make_empty_tensor_value_info("y")],
    )
    ready = prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    np.testing.assert_array_equal(ready.run([x])[0], x[:, 0])
    with pytest.raises(
        AnyrtError, match=diagnostic("AR410", "y.5", "x.shape[0] = 1", 1, 0, (-1, 1, 4), 1, "Squeeze")
    ):
        ready.run([x[:1]])


def test_the_first_operator_sets_have_attributes_for_inputs(run):
    assert run("Reshape", {"x": X}, opset=1, shape=[0, -1]).shape == (2, 12)
    assert run("Cast", {"x": X}, opset=1, to="INT32").dtype == np.int32
    assert run("Concat", {"x": X, "z": X}, opset=1).shape == (2, 6, 4)
    assert run("Pad", {"x": X}, opset=1, paddings=[0, 1, 0, 0, 0, 2]).shape == (2, 4, 6)


@pytest.mark.parametrize("op", ["Squeeze", "Unsqueeze"])
def test_an_open_number_of_axes_is_rejected_as_the_rank_would_be_open(op, run, golden_text):
    with pytest.raises(AnyrtError) as caught:
        run(op, {"x": X[:1], "axes": np.int64([0])}, dynamic=("axes",))
    golden_text(caught.value, "axes")
