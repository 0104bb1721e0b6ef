"""Operators that move elements, compared with NumPy, with static and dynamic dimensions."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

import anyrt as trt
from anyrt.onnx.backend import prepare
from anyrt.onnx.session import load

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
DYNAMIC = pytest.mark.parametrize("dynamic", [(), ("x",)], ids=["static", "dynamic"])


def ints(*x: int) -> np.ndarray:
    return np.array(x, np.int64)


@pytest.mark.sampled(2)
@DYNAMIC
def test_a_slice_whose_ends_and_steps_are_inputs_is_numpys(run, dynamic):
    inputs = {"x": X, "starts": ints(-1, 1), "ends": ints(-99, 99), "axes": ints(2, 1), "steps": ints(-2, 1)}
    np.testing.assert_array_equal(run("Slice", inputs, dynamic=dynamic), X[:, 1:, ::-2])


@DYNAMIC
def test_ends_of_a_slice_may_lie_at_the_end_of_int64(run, dynamic):
    far = np.iinfo(np.int64)
    inputs = {"starts": ints(-1, 1), "ends": ints(far.min, far.max), "axes": ints(2, 1), "steps": ints(-2, 1)}
    np.testing.assert_array_equal(run("Slice", {"x": X}, inputs, dynamic=dynamic), X[:, 1:, ::-2])


def test_data_dependent_dimensions_are_tiled():
    nodes = [
        helper.make_node("Compress", ["x", "kept"], ["some"], axis=1),
        helper.make_node("Tile", ["some", "times"], ["y"]),
    ]
    sides = [
        [helper.make_tensor_value_info("x", 1, [2, 3]), helper.make_tensor_value_info("kept", 9, [3])],
        [helper.make_tensor_value_info("y", 1, None)],
    ]
    times = helper.make_tensor("times", 7, [2], [2, 3])
    session = prepare(helper.make_model(helper.make_graph(nodes, "tile", *sides, [times])))
    for kept in ([True, False, True], [False] * 3):
        x = X[:, :, 0]
        (got,) = session.run([x, np.array(kept)])
        np.testing.assert_array_equal(got, np.tile(x[:, kept], (2, 3)))


@pytest.mark.parametrize("far", [2**63 - 1, 2**40])
def test_ends_that_a_run_gives_may_lie_as_far_as_an_int64_says(run, far):
    inputs = {"x": X, "starts": np.int64([-far - 1]), "ends": np.int64([far])}
    np.testing.assert_array_equal(run("Slice", inputs, dynamic=("x",)), X)
    inputs = {"x": X, "starts": np.int64([far]), "ends": np.int64([-far - 1])}
    assert run("Slice", inputs).shape == (0, *X.shape[1:])


def test_a_slice_of_opset_9_has_its_places_as_attributes(run):
    y = run("Slice", {"x": X}, opset=9, starts=[1, -9], ends=[9, -1], axes=[1, 2])
    np.testing.assert_array_equal(y, X[:, 1:, :-1])


@pytest.mark.sampled(3)
@DYNAMIC
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_a_pad_with_borders_from_an_input_is_numpys(run, mode, dynamic):
    y = run("Pad", {"x": X, "pads": ints(0, 2, 1, 1, 0, 3)}, dynamic=dynamic, mode=mode)
    np.testing.assert_array_equal(y, np.pad(X, ((0, 1), (2, 0), (1, 3)), mode))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_a_pad_of_axes_that_a_run_decides_is_numpys(run, mode):
    inputs = {"x": X, "pads": ints(2, 0, 1, 3), "axes": ints(-1, 0)}
    y = run("Pad", inputs, order=["x", "pads", "", "axes"], mode=mode)
    np.testing.assert_array_equal(y, np.pad(X, ((0, 3), (0, 0), (2, 1)), mode))


def test_a_pad_takes_away_where_borders_are_negative(run):
    y = run("Pad", {"x": X}, {"pads": ints(-1, 2), "value": np.float32(7), "axes": ints(-1)})
    np.testing.assert_array_equal(y, np.pad(X[:, :, 1:], ((0, 0), (0, 0), (0, 2)), constant_values=7))


def test_axes_that_a_run_decides_are_squeezed_and_put_back(run):
    x = X.reshape(2, 1, 3, 1, 4)
    np.testing.assert_array_equal(run("Squeeze", {"x": x, "axes": ints(-2, 1)}), X)
    np.testing.assert_array_equal(run("Unsqueeze", {"x": X, "axes": ints(3, -4)}), x)


@pytest.mark.parametrize("axes", [[0], [-2, -1], [2, 0, 1]])
def test_a_squeeze_of_all_axes_that_a_run_decides_was_rejected(run, axes):
    y = run("Squeeze", {"x": np.full([1] * len(axes), 7, np.uint8), "axes": ints(*axes)})
    assert (y.shape, y.tolist()) == ((), 7)


@DYNAMIC
def test_parts_of_a_split_are_alike_but_for_the_last(run, dynamic):
    parts = run("Split", {"x": X}, outputs=3, axis=2, num_outputs=3, dynamic=dynamic)
    assert [p.shape for p in parts] == [(2, 3, 2), (2, 3, 2), (2, 3, 0)]
    np.testing.assert_array_equal(np.concatenate(parts, 2), X)


@DYNAMIC
def test_a_tensor_is_expanded_to_sizes_of_an_input_and_its_own(run, dynamic):
    x = X[:, :1]
    y = run("Expand", {"x": x, "sizes": ints(5, 1, 3, 1)}, dynamic=dynamic)
    np.testing.assert_array_equal(y, np.broadcast_to(x, (5, 2, 3, 4)))


@DYNAMIC
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks_of_channels_become_pixels(agrees, mode, dynamic):
    x = np.random.default_rng(0).normal(size=(2, 8, 3, 5)).astype(np.float32)
    agrees("DepthToSpace", {"x": x}, dynamic=dynamic, blocksize=2, mode=mode)
    agrees("SpaceToDepth", {"x": x[:, :, :2, :4]}, dynamic=dynamic, blocksize=2)


@DYNAMIC
def test_the_middle_is_cut_out_or_surrounded(agrees, dynamic):
    agrees("CenterCropPad", {"x": X, "shape": ints(5, 2)}, dynamic=dynamic, axes=[1, -1])


@pytest.mark.parametrize(("start", "limit", "delta"), [(2, 11, 3), (11, 2, -4), (3, 3, 1), (5, 2, 1)])
def test_a_range_between_integers_of_the_run(agrees, start, limit, delta):
    inputs = {"start": np.int64(start), "limit": np.int64(limit), "delta": np.int64(delta)}
    agrees("Range", {n: np.array(x) for n, x in inputs.items()})


@DYNAMIC
def test_triangles_begin_at_a_diagonal_of_the_run(agrees, dynamic):
    for upper in (0, 1):
        agrees("Trilu", {"x": X, "k": np.array(-1)}, dynamic=dynamic, upper=upper)


def test_a_reshape_of_nothing_infers_a_size(run):
    x = np.zeros((0, 3), np.float32)
    assert run("Reshape", {"x": x, "sizes": ints(-1, 3)}).shape == (0, 3)


def test_a_sequence_stays_one_through_identity():
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("Identity", ["s"], ["t"]),
        helper.make_node("ConcatFromSequence", ["t"], ["y"], axis=0),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, X.shape)],
        [helper.make_empty_tensor_value_info("y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    np.testing.assert_array_equal(prepare(model).run([X])[0], np.concatenate([X, X]))


def test_runs_find_the_sizes_of_a_slice_that_would_be_long_as_arithmetic():
    places = [helper.make_tensor_value_info(name, 7, [3]) for name in "seat"]
    nodes = [helper.make_node("Slice", ["x", *"seat"], ["y"])]
    inputs = [helper.make_tensor_value_info("x", 1, list("nhw")), *places]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network = builder.create_network()
    assert trt.OnnxParser(network, builder.logger).parse(model.SerializeToString())
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    assert len(bytes(plan)) < 150_000  # 240 000 with the arithmetic


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_borders_surround_what_data_count(mode):
    keep, around = helper.make_node("Compress", ["x", "c"], ["t"]), helper.make_node("Pad", ["t", "p"], ["y"])
    around.attribute.append(helper.make_attribute("mode", mode))
    info = [helper.make_tensor_value_info(n, kind, ["n"]) for n, kind in (("x", 1), ("c", 9))]
    out = [helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(
        [keep, around], "g", info, out, [numpy_helper.from_array(np.int64([2, 1]), "p")]
    )
    session = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    x, c = np.float32([1, 2, 3, 4, 5]), np.array([True, False, True, True, False])
    assert session.run({"x": x, "c": c})["y"].tolist() == np.pad(x[c], (2, 1), mode).tolist()
