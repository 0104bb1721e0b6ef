"""The object that represents an attention, and its two layers in a network."""

import re

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.errors import ShapeError
from tests.messages import diagnostic

F, SOFTMAX = trt.float32, trt.AttentionNormalizationOp.SOFTMAX
UPPER, LOWER, FREE = trt.CausalMaskKind.UPPER_LEFT, trt.CausalMaskKind.LOWER_RIGHT, trt.CausalMaskKind.NONE


@pytest.fixture
def attention(net):
    x = net.add_input("x", F, (1, 2, 3, 4))
    return net.add_attention(x, x, x, SOFTMAX, False)


def test_a_network_shows_two_layers_that_know_their_attention(net, attention):
    begin, end = net
    assert (type(begin), type(end)) == (trt.IAttentionInputLayer, trt.IAttentionOutputLayer)
    assert (begin.attention, end.attention) == (attention, attention)
    assert isinstance(begin, trt.IAttentionBoundaryLayer)
    assert (begin.get_input(1), end.get_output(0)) == (attention.get_input(1), attention.get_output(0))
    assert (begin.type, end.type) == (trt.LayerType.ATTENTION_INPUT, trt.LayerType.ATTENTION_OUTPUT)


def test_it_begins_with_the_documented_values(attention):
    assert (attention.norm_op, attention.causal, attention.causal_kind) == (SOFTMAX, False, FREE)
    assert (attention.mask, attention.normalization_quantize_scale) == (None, None)
    assert (attention.query_lengths, attention.key_value_lengths) == (None, None)
    assert (attention.decomposable, attention.num_ranks, attention.metadata) == (False, 1, "")
    assert (attention.num_inputs, attention.num_outputs, attention.get_output(1)) == (3, 1, None)


def test_causal_and_causal_kind_are_one_setting(attention):
    attention.causal = True
    assert attention.causal_kind is UPPER
    attention.causal_kind = LOWER
    assert (attention.causal, attention.causal_kind) == (True, LOWER)
    attention.causal = False
    assert attention.causal_kind is FREE


def test_a_mask_is_the_fourth_input(net, attention):
    mask = net.add_input("mask", trt.bool, (1, 1, 3, 3))
    attention.mask = mask
    assert (attention.mask, attention.get_input(3), attention.num_inputs) == (mask, mask, 4)
    with pytest.raises(TypeError, match="AR311"):
        attention.mask = np.ones((1, 1, 3, 3), bool)


def test_lengths_of_keys_are_the_seventh_input(net, attention):
    attention.key_value_lengths = lengths = net.add_input("lengths", trt.int32, (1,))
    assert (net.get_layer(0).get_input(6), attention.num_inputs) == (lengths, 7)


def test_an_input_that_is_not_there_is_rejected(net, attention, log):
    other = net.add_input("other", F, (1, 2, 5, 4))
    assert (attention.set_input(0, other), attention.get_output(0).shape) == (True, (1, 2, 5, 4))
    assert (attention.set_input(7, other), "AR312" in log.lines[0]) == (False, True)


def test_a_mistake_names_the_attention_and_the_line(net, attention, log):
    attention.name, attention.causal = "heads", True
    attention.mask = net.add_input("mask", trt.bool, (1, 1, 3, 3))
    assert attention.get_output(0).shape.rank == -1
    assert re.search(diagnostic("AR310", "heads (test_attention.py:", "UPPER_LEFT"), log.lines[0])


def test_what_is_kept_reads_back(attention):
    attention.decomposable, attention.num_ranks, attention.metadata = True, 2, "m"
    assert (attention.decomposable, attention.num_ranks, attention.metadata) == (True, 2, "m")
    assert repr(attention).startswith("<IAttention '(Unnamed Layer* 0) [Attention]': (1, 2, 3, 4)")


def test_queries_that_see_nothing_give_zeros_and_others_do_not(net):
    q, k, v = (net.add_input(n, F, (1, 1, s, 8)) for n, s in (("q", 2), ("k", 33), ("v", 33)))
    attention = net.add_attention(q, k, v, SOFTMAX, False)
    attention.mask = net.add_input("mask", F, (1, 1, 2, 33))
    attention.get_output(0).name = "y"
    net.mark_output(attention.get_output(0))
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    mask = np.full((1, 1, 2, 33), -np.inf, np.float32)
    mask[..., 1, 30] = 5
    values = np.arange(33 * 8, dtype=np.float32).reshape(1, 1, 33, 8)
    y = engine.run(q=np.ones((1, 1, 2, 8), np.float32), k=values / 9, v=values, mask=mask)["y"]
    assert y.tolist() == [[[[0.0] * 8, values[0, 0, 30].tolist()]]]


def packed(net, query_ends, key_ends):
    """Attention of 5 packed queries over 6 packed keys, all ones: the output is 1 where a query sees a key,
    else 0."""
    q, k = net.add_input("q", F, (5, 1, 2)), net.add_input("k", F, (6, 1, 2))
    layer = net.add_attention(q, k, k, SOFTMAX, False)
    layer.query_form = layer.key_value_form = trt.AttentionIOForm.PACKED_NHD
    layer.query_lengths, layer.key_value_lengths = query_ends(net), key_ends(net)
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    net.get_layer(0).name = "attend"
    return net.builder.build_engine_with_config(net, net.builder.create_builder_config())


def packed_lengths(name):
    return lambda net: net.add_input(name, trt.int32, (3,))


def constant(*ends):
    return lambda net: net.add_constant((3,), np.int32(ends)).get_output(0)


def test_a_run_with_packed_lengths_that_do_not_ascend_or_lie_outside_is_rejected(net, log):
    engine, ones = packed(net, packed_lengths("qe"), packed_lengths("ke")), np.ones((6, 1, 2), np.float32)
    feeds = {"q": ones[:5], "k": ones}
    run = lambda q, k: engine.run(**feeds, qe=np.int32(q), ke=np.int32(k))["y"][:, 0, 0].tolist()  # noqa: E731
    assert run([0, 2, 5], [0, 6, 6]) == [1, 1, 0, 0, 0]
    assert run([1, 1, 3], [0, 0, 4]) == [0, 1, 1, 0, 0]
    for q, k, values in (
        ([0, 2, 6], [0, 3, 6], (6, "query_lengths", 0, 5)),
        ([0, 3, 2], [0, 3, 6], (2, "query_lengths", 0, 5)),
        ([-1, 3, 5], [0, 3, 6], (-1, "query_lengths", 0, 5)),
        ([0, 3, 5], [0, 3, 2**31 - 1], (2**31 - 1, "key_value_lengths", 0, 6)),
        ([0, 3, 5], [-(2**31), 3, 6], (-(2**31), "key_value_lengths", 0, 6)),
    ):
        with trt.strict(), pytest.raises(ShapeError, match=diagnostic("AR133", "attend", *values)):
            run(q, k)


@pytest.mark.parametrize(("ends", "expected"), [((0, 2, 6), "6 <= 5"), ((0, 3, 2), "3 <= 2")])
def test_packed_lengths_that_are_wrong_and_known_are_rejected_before_a_run(ends, expected, net, log):
    with (
        trt.strict(),
        pytest.raises(ShapeError, match=diagnostic("AR133", "attend", "query_lengths", *ends, expected)),
    ):
        packed(net, constant(*ends), packed_lengths("ke"))


def test_a_run_with_lengths_of_padded_keys_outside_is_rejected(net, log):
    x = net.add_input("x", F, (2, 1, 3, 4))
    layer = net.add_attention(x, x, x, SOFTMAX, False)
    layer.key_value_lengths = net.add_input("lengths", trt.int32, (2,))
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    x = np.ones((2, 1, 3, 4), np.float32)
    assert engine.run(x=x, lengths=np.int32([3, 0]))["y"][:, 0, 0, 0].tolist() == [1, 0]
    for n in (4, -1):
        with (
            trt.strict(),
            pytest.raises(ShapeError, match=diagnostic("AR133", "[Attention]", n, 0, 3)),
        ):
            engine.run(x=x, lengths=np.int32([3, n]))
