"""The object that stands for an attention, and the two layers of it that a network shows."""

import numpy as np
import pytest

import anyrt as trt

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


def test_an_input_that_is_not_there_is_refused(net, attention, log):
    other = net.add_input("other", F, (1, 2, 5, 4))
    assert (attention.set_input(0, other), attention.get_output(0).shape) == (True, (1, 2, 5, 4))
    assert (attention.set_input(7, other), "AR312" in log.lines[0]) == (False, True)


def test_a_mistake_names_the_attention_and_the_line(net, attention, log):
    attention.name, attention.causal = "heads", True
    attention.mask = net.add_input("mask", trt.bool, (1, 1, 3, 3))
    assert attention.get_output(0).shape.rank == -1
    assert "[AR310] heads (test_attention.py:" in log.lines[0]
    assert "got a mask and UPPER_LEFT, wanted a mask or a causal kind" in log.lines[0]


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
