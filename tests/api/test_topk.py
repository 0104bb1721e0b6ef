"""TopK: order of ties and NaN, k from a tensor, rejected arguments; the largest element of windows."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.errors import ShapeError
from tests.messages import diagnostic

MAX, MIN = trt.TopKOperation.MAX, trt.TopKOperation.MIN


def built(net, *outputs, **ranges):
    for name, tensor in zip("vi", outputs, strict=False):
        tensor.name = name
        net.mark_output(tensor)
    config, profile = net.builder.create_builder_config(), net.builder.create_optimization_profile()
    for name, values in ranges.items():
        set_range = profile.set_shape if name == "x" else profile.set_shape_input
        set_range(name, *values)
    if ranges:
        config.add_optimization_profile(profile)
    return net.builder.build_engine_with_config(net, config)


def test_the_first_of_equals_is_first_and_nan_is_last(net):
    layer = net.add_topk(net.add_input("x", trt.float32, (7,)), MAX, 7, 1)
    engine = built(net, layer.get_output(0), layer.get_output(1))
    result = engine.run(x=np.float32([np.nan, 0, -0.0, 2, -np.inf, np.nan, 2]))
    assert result["i"].tolist() == [3, 6, 1, 2, 4, 0, 5]


def test_the_smallest_come_in_ascending_order_and_nan_is_last(net):
    layer = net.add_topk(net.add_input("x", trt.float32, (5,)), MIN, 5, 1)
    engine = built(net, layer.get_output(1))
    assert engine.run(x=np.float32([np.nan, 1, np.inf, -1, 1]))["v"].tolist() == [3, 1, 4, 2, 0]


def test_long_rows_in_order_take_every_path(net):
    layer = net.add_topk(net.add_input("x", trt.float32, (2, 3000)), MAX, 120, 0b10)
    engine = built(net, layer.get_output(1))
    up = np.arange(3000, dtype=np.float32)
    result = engine.run(x=np.stack([up, -up]))["v"]
    assert (result == [np.arange(2999, 2879, -1), np.arange(120)]).all()


def test_k_comes_from_an_input(net):
    layer = net.add_topk(net.add_input("x", trt.int32, (4,)), MAX, 1, 1)
    layer.set_input(1, net.add_input("k", trt.int32, ()))
    engine = built(net, layer.get_output(0), k=([1], [2], [4]))
    x = np.int32([5, 9, 7, 1])
    assert [engine.run(x=x, k=np.int32(n))["v"].tolist() for n in (1, 3)] == [[9], [9, 7, 5]]


def test_more_than_there_are_is_rejected_by_the_name_of_its_layer(net):
    layer = net.add_topk(net.add_input("x", trt.float32, (2,)), MAX, 1, 1, trt.int64)
    layer.set_input(1, net.add_input("k", trt.int32, ()))
    engine = built(net, layer.get_output(1), k=([1], [2], [4]))
    with pytest.raises(ShapeError, match=diagnostic("AR132", "(Unnamed Layer* 0) [TopK]", 3, "k[0] = 3", 2)):
        engine.run(x=np.float32([1, 2]), k=np.int32(3))


def chosen(net, rows=2):
    """The largest elements of each row of x; their number is the largest element of n."""
    most = net.add_reduce(net.add_input("n", trt.float32, (3,)), trt.ReduceOperation.MAX, 1, False)
    layer = net.add_topk(net.add_input("x", trt.float32, (rows, 5)), MAX, 1, 0b10)
    layer.set_input(1, net.add_cast(most.get_output(0), trt.int32).get_output(0))
    return layer


def test_k_is_computed_from_data(net):
    layer = chosen(net)
    assert layer.get_output(0).shape == (2, -1)
    engine, x = built(net, layer.get_output(0), layer.get_output(1)), np.float32([[1, 5, 2, 4, 3], [0] * 5])
    for n in (1, 3, 5):
        result = engine.run(x=x, n=np.float32([n, -7, 0]))
        assert result["v"].tolist() == [[5, 4, 3, 2, 1][:n], [0] * n]
        assert result["i"].tolist() == [[1, 3, 4, 2, 0][:n], list(range(n))]


@pytest.mark.parametrize("n", [0, 6, -1, 10**9, -(2**31)])
def test_k_computed_from_data_must_be_of_this_axis(net, n):
    engine = built(net, chosen(net).get_output(1))
    with pytest.raises(ShapeError, match=diagnostic("AR132", "[TopK]", f"k = {n}", 1, 5)):
        engine.run(x=np.zeros((2, 5), np.float32), n=np.full(3, n, np.float32))


def test_layers_behind_compute_with_as_many_as_were_found(net):
    layer = chosen(net)
    total = net.add_reduce(layer.get_output(0), trt.ReduceOperation.SUM, 0b10, False).get_output(0)
    result = built(net, total).run(x=np.float32([[1, 5, 2, 4, 3], [1] * 5]), n=np.float32([2, 3, 1]))
    assert result["v"].tolist() == [12, 3]


def test_all_of_them_are_a_sort(net):
    layer = net.add_topk(net.add_input("x", trt.float32, (9000,)), MIN, -1, 1)
    engine = built(net, layer.get_output(0), layer.get_output(1))
    x = np.random.default_rng(1).integers(-50, 50, 9000).astype(np.float32)
    outputs = engine.run(x=x)
    assert (outputs["v"] == np.sort(x)).all()
    assert (outputs["i"] == np.argsort(x, kind="stable")).all()


def test_the_place_of_the_largest_of_each_window(net):
    layer = net.add_pooling_nd(net.add_input("x", trt.float32, (1, 3, 4)), trt.PoolingType.MAX, (2, 2))
    assert (layer.num_outputs, layer.get_output(1)) == (1, None)
    layer.stride_nd, layer.indices_type = (1, 2), trt.int32
    assert (layer.num_outputs, layer.get_output(1).shape, layer.get_output(1).dtype) == (
        2,
        (1, 2, 2),
        trt.int32,
    )
    engine = built(net, layer.get_output(0), layer.get_output(1))
    result = engine.run(x=np.float32([[[1, 5, np.nan, 2], [5, 0, 3, 9], [7, 8, 8, 9]]]))
    assert result["i"].tolist() == [[[1, 2], [9, 7]]]
    assert np.array_equal(result["v"], [[[5, np.nan], [8, 9]]], equal_nan=True)
