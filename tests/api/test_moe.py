"""Mixtures of experts: the results for the selected experts equal NumPy's, expert by expert."""

import numpy as np
import pytest

import anyrt as trt
from tests.messages import diagnostic

SILU = trt.MoEActType.SILU


def constant(net, array):
    return net.add_constant(array.shape, array).get_output(0)


def weights(many, hidden, inner):
    draw = np.random.default_rng(many).standard_normal
    shapes = (many, hidden, inner), (many, hidden, inner), (many, inner, hidden)
    return [draw(shape).astype(np.float32) for shape in shapes]


def mixture(net, tokens, chosen, held):
    """A layer over inputs x, experts and scores."""
    x = net.add_input("x", trt.float32, (1, tokens, held[0].shape[1]))
    experts = net.add_input("experts", trt.int32, (1, tokens, chosen))
    layer = net.add_moe(x, experts, net.add_input("scores", trt.float32, (1, tokens, chosen)))
    layer.set_gated_weights(*(constant(net, w) for w in held), SILU)
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    return layer


def expert_by_expert(x, experts, scores, held):
    out = np.zeros_like(x)
    for e, (gate, up, down) in enumerate(zip(*held, strict=True)):
        batch, token, rank = np.nonzero(experts == e)
        own = x[batch, token]
        gated = own @ gate / (1 + np.exp(-(own @ gate)))
        answer = (gated * (own @ up)) @ down
        np.add.at(out, (batch, token), scores[batch, token, rank][:, None] * answer)
    return out


def built(net, *ranges):
    config = net.builder.create_builder_config()
    profile = net.builder.create_optimization_profile()
    for name, *shapes in ranges:
        profile.set_shape(name, *shapes)
    if ranges:
        config.add_optimization_profile(profile)
    return net.builder.build_engine_with_config(net, config)


def drawn(tokens, chosen, many):
    rng = np.random.default_rng(tokens)
    experts = rng.integers(0, many, (1, tokens, chosen)).astype(np.int32)
    x, scores = (rng.standard_normal((1, tokens, n)).astype(np.float32) for n in (16, chosen))
    return {"x": x, "experts": experts, "scores": scores}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("tokens", "chosen", "many"), [(1, 2, 8), (5, 2, 3), (70, 3, 7), (600, 1, 2)])
def test_a_mixture_agrees_with_numpy(net, tokens, chosen, many):
    held, fed = weights(many, 16, 33), drawn(tokens, chosen, many)
    mixture(net, tokens, chosen, held)
    assert np.allclose(built(net).run(**fed)["y"], expert_by_expert(*fed.values(), held), atol=1e-3)


def test_one_engine_takes_any_number_of_tokens(net):
    held = weights(7, 16, 33)
    mixture(net, -1, 3, held)
    sizes = {"x": 16, "experts": 3, "scores": 3}
    engine = built(net, *((name, (1, 0, n), (1, 8, n), (1, 90, n)) for name, n in sizes.items()))
    for tokens in (0, 1, 9, 90):
        fed = drawn(tokens, 3, 7)
        assert np.allclose(engine.run(**fed)["y"], expert_by_expert(*fed.values(), held), atol=1e-3)


def test_an_expert_that_is_not_there_adds_nothing(net):
    held, fed = weights(3, 16, 5), drawn(9, 2, 3)
    fed["experts"][0, :4] = [[3, -1], [1 << 30, 0], [-(1 << 31), 7], [2, 3]]
    mixture(net, 9, 2, held)
    assert np.allclose(built(net).run(**fed)["y"], expert_by_expert(*fed.values(), held), atol=1e-3)


def test_a_bias_and_a_scale_belong_to_their_expert(net):
    one = np.ones((2, 1, 1), np.float32)
    layer = mixture(net, 1, 2, [one] * 3)
    layer.activation_type = trt.MoEActType.NONE
    bias = (np.float32([[0], [8]]), np.float32([[1], [1]]), np.float32([[100], [1000]]))
    layer.set_gated_biases(*(constant(net, b) for b in bias))
    layer.set_quantization_static(constant(net, np.float32([0.25, 16])), trt.fp8)
    fed = {"x": np.float32([[[2]]]), "experts": np.int32([[[0, 1]]]), "scores": np.float32([[[1, 1]]])}
    # Expert 0: 2 · 3 = 6, 24 steps of a quarter; expert 1: 10 · 3 = 30, 1.875 steps of 16.
    assert built(net).run(**{**fed, "x": np.float32([[[2]]])})["y"].tolist() == [[[6 + 100 + 30 + 1000]]]


def test_setters_read_back(net):
    layer = mixture(net, 1, 1, weights(2, 16, 5))
    layer.set_swiglu_params(limit=7.0, alpha=1.702, beta=1.0)
    assert (layer.swiglu_param_limit, layer.swiglu_param_alpha, layer.swiglu_param_beta) == (7, 1.702, 1)
    scale = constant(net, np.array(0.5, np.float32))
    layer.set_quantization_dynamic_dbl_q(scale, trt.fp8, (1, 16), trt.float32)
    assert (layer.quantization_block_shape, layer.dyn_q_output_scale_type) == ((1, 16), trt.float32)
    layer.set_quantization_static(scale, trt.fp8)
    assert (layer.quantization_block_shape.rank, layer.dyn_q_output_scale_type) == (-1, None)
    assert (layer.quantization_to_type, layer.get_input(9), layer.num_inputs) == (trt.fp8, scale, 10)


def test_arguments_of_the_wrong_kind_are_rejected(net):
    layer = mixture(net, 1, 1, weights(2, 16, 5))
    with pytest.raises(
        TypeError, match=diagnostic("AR311", "set_gated_weights: fc_gate_weights", "ndarray", "ITensor")
    ):
        layer.set_gated_weights(np.ones(1), None, None, SILU)
    with pytest.raises(
        TypeError, match=diagnostic("AR311", "set_swiglu_params", "'beta'", "help(layer.set_swiglu_params)")
    ):
        layer.set_swiglu_params(1.0, 2.0)
    assert layer.swiglu_param_limit == np.inf


def test_a_constant_scale_must_be_above_0(net, log):
    layer = mixture(net, 1, 1, weights(2, 16, 5))
    layer.set_quantization_static(constant(net, np.array(0, np.float32)), trt.fp8)
    assert (layer.get_output(0).shape.rank, "AR304" in log.lines[0]) == (-1, True)
