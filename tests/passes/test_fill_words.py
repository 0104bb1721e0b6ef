"""Channels and terms that do not fill words are padded with zeros; sums stay the same."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.dims import Sym
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, walk
from anyrt.ir.interpret import interpret
from anyrt.passes.fill_words import fill_words
from anyrt.prims import build as b
from anyrt.prims.contract import Contract
from anyrt.prims.pad import Pad
from anyrt.prims.view import Axis

LOG = trt.Logger(trt.Logger.ERROR)
I8, BF16, F = DataType.INT8, DataType.BF16, DataType.FLOAT


def x(*shape, dtype=I8):
    return b.param("x", shape, dtype)


def w(*shape, dtype=I8):
    return b.const((np.arange(np.prod(shape)) * 7 % 15 - 7).reshape(shape), dtype)


def summed(labels, left, right):
    """Sums of products; bytes are summed as int32."""
    return b.contract(labels, left, right, DataType.INT32 if left.dtype is I8 else None)


def windows(image, border=1, start=0):
    """(C, H) in windows of three: (C, H, 3)."""
    padded = b.pad(image, (0, border), (0, border), 0.0)
    shape = (image.shape[0] - start, image.shape[1] + 2 * border - 2, 3)
    return b.windows(padded, (Axis(start, 0), Axis(0, 1, 1, ((2, 1),))), shape)


def contracted(graph):
    """The contractions of a graph."""
    (results,) = [v for v in walk(v for _, v in graph.outputs) if isinstance(v.op, Contract)]
    return results


def same(y):
    """The graph after the pass; checks that its outputs are unchanged."""
    (image,) = (v for v in walk([y]) if getattr(v.op, "name", None) == "x")
    graph = Graph((("x", image),), (("y", y),))
    after = fill_words(graph)
    feeds = {"x": np.random.default_rng(5).integers(-9, 9, image.shape).astype(numpy_dtype(image.dtype))}
    before, now = (interpret(g, feeds, {})["y"] for g in (graph, after))
    np.testing.assert_array_equal(before, now)
    return after


SUMS = {
    "an image": (summed("cpu,kcu->kp", windows(x(3, 9)), w(8, 3, 3)), [(4, 9, 3), (8, 4, 3)]),
    "an image without a border": (
        summed("cpu,kcu->kp", windows(x(3, 9), 0), w(8, 3, 3)),
        [(4, 7, 3), (8, 4, 3)],
    ),
    "some channels of more": (
        summed("cpu,kcu->kp", windows(x(4, 9), start=1), w(8, 3, 3)),
        [(4, 9, 3), (8, 4, 3)],
    ),
    "a product": (summed("mk,kn->mn", x(4, 7), w(7, 16)), [(4, 8), (8, 16)]),
    "the constant first": (summed("nk,mk->mn", w(16, 7), x(4, 7)), [(16, 8), (4, 8)]),
    "halves": (
        summed("mk,kn->mn", x(4, 7, dtype=BF16), w(7, 16, dtype=BF16)),
        [(4, 8), (8, 16)],
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_terms_fill_words_and_sums_stay_the_same(name):
    y, expected = SUMS[name]
    assert [a.shape for a in contracted(same(y)).args] == expected


LEFT = {
    "whole words": summed("mk,kn->mn", x(4, 8), w(8, 16)),
    "one channel, of which three quarters would be zeros": summed(
        "cpu,kcu->kp", windows(x(1, 9)), w(32, 1, 3)
    ),
    "float32": summed("mk,kn->mn", x(4, 7, dtype=F), w(7, 16, dtype=F)),
    "a few weights": summed("mk,kn->mn", x(4, 7), w(7, 2)),
    "two axes of terms": summed("mkj,kjn->mn", x(4, 3, 3), w(3, 3, 16)),
}


@pytest.mark.parametrize("name", LEFT)
def test_others_stay_as_they_are(name):
    graph = Graph((), (("y", LEFT[name]),))
    assert fill_words(graph) is graph


def test_a_border_is_widened_and_no_second_one_made():
    after = same(summed("cpu,kcu->kp", windows(x(3, 9)), w(8, 3, 3)))
    (pad,) = [v.op for v in walk([contracted(after).args[0]]) if isinstance(v.op, Pad)]
    assert (pad.lo, pad.hi) == ((0, 1), (1, 1))


def test_an_infinite_border_is_not_spread_over_the_channel_of_zeros():
    x = b.param("x", (3, 9), BF16)
    padded = b.pad(x, (0, 1), (0, 1), float("-inf"))
    seen = b.windows(padded, (Axis(0, 0), Axis(0, 1, 1, ((2, 1),))), (3, 9, 3))
    y = summed("cpu,kcu->kp", seen, w(8, 3, 3, dtype=BF16))
    graph, feeds = Graph((("x", x),), (("y", y),)), {"x": np.ones((3, 9), numpy_dtype(BF16))}
    before, now = (interpret(g, feeds, {})["y"] for g in (graph, fill_words(graph)))
    assert np.isfinite(before[:, 1:-1]).all()
    np.testing.assert_array_equal(before[:, 1:-1], now[:, 1:-1])


def test_weights_that_are_refitted_are_filled_up_again():
    old, new = (np.random.default_rng(n).standard_normal((8, 3, 3, 3)).astype(np.float32) for n in (1, 2))
    engines = [quantised(weights) for weights in (old, new)]
    refitter = trt.Refitter(engines[0], LOG)
    assert refitter.set_named_weights("w", trt.Weights(new))
    assert refitter.refit_cuda_engine()
    image = {"x": np.random.default_rng(3).standard_normal((2, 3, 9, 9)).astype(np.float32)}
    np.testing.assert_array_equal(engines[0].run(**image)["y"], engines[1].run(**image)["y"])


def test_terms_that_data_count_are_left_as_they_are():
    image = b.param("x", (5, Sym("count", most=20).dim), I8)
    graph = Graph((("x", image),), (("y", summed("mk,kn->mn", image, w(15, 8))),))
    assert fill_words(graph) is graph


def quantised(weights):
    """An engine that convolves codes of an image with codes of refittable weights."""
    builder = trt.Builder(LOG)
    net = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))

    def number(x):
        return net.add_constant((), np.array(x, np.float32)).get_output(0)

    def coded(tensor, step):
        codes = net.add_quantize(tensor, number(step), trt.int8).get_output(0)
        return net.add_dequantize(codes, number(step), trt.float32).get_output(0)

    kernel = net.add_constant(weights.shape, weights)
    kernel.name = "w"
    net.set_weights_name(kernel.weights, "w")
    image = coded(net.add_input("x", trt.float32, (2, 3, 9, 9)), 0.03)
    layer = net.add_convolution_nd(image, 8, (3, 3), trt.Weights(), trt.Weights())
    layer.set_input(1, coded(kernel.get_output(0), 0.02))
    layer.padding_nd = (1, 1)
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    config = builder.create_builder_config()
    net.mark_weights_refittable("w")
    config.set_flag(trt.BuilderFlag.REFIT_INDIVIDUAL)
    return builder.build_engine_with_config(net, config)
