"""Refits of weights of every type and role: the outputs equal those of a build with the new weights, bit for
bit."""

import ml_dtypes
import numpy as np
import pytest

import anyrt as trt

Flag, E, NONE = trt.BuilderFlag, trt.ElementWiseOperation, trt.MatrixOperation.NONE
RNG = np.random.default_rng(11)


def draw(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def constant(net, name, array, shape=None):
    layer = net.add_constant(array.shape if shape is None else shape, weights_of(array))
    layer.name = name
    return layer.get_output(0)


def weights_of(array):
    if array.dtype != ml_dtypes.bfloat16:
        return array
    return trt.Weights(trt.bfloat16, array.ctypes.data, array.size)


def times(net, a, b):
    return net.add_matrix_multiply(a, NONE, b, NONE).get_output(0)


def product(net, w, dtype):
    """A product and a sum in one type."""
    x = net.add_input("x", dtype, (4, 64))
    return net.add_elementwise(times(net, x, constant(net, "k", w["k"])), constant(net, "b", w["b"]), E.SUM)


def half(net, w):
    return product(net, w, trt.float16)


def brain(net, w):
    return product(net, w, trt.bfloat16)


def coded(net, w):
    """Codes of inputs and of weights, with their scales; weights may be codes already."""
    x = net.add_input("x", trt.float32, (4, 64))
    step, steps = constant(net, "step", w["step"], ()), constant(net, "steps", w["steps"])
    codes = net.add_quantize(x, step, trt.int8).get_output(0)
    held = constant(net, "k", w["k"])
    if w["k"].dtype == np.float32:
        quantized = net.add_quantize(held, steps, trt.int8)
        quantized.axis = 1
        held = quantized.get_output(0)
    worth = net.add_dequantize(held, steps, trt.float32)
    worth.axis = 1
    return net.add_matrix_multiply(
        net.add_dequantize(codes, step, trt.float32).get_output(0), NONE, worth.get_output(0), NONE
    )


def looped(net, w):
    """A product inside a loop."""
    loop, x = net.add_loop(), net.add_input("x", trt.float32, (4, 64))
    loop.add_trip_limit(constant(net, "turns", np.int32([3]), ()), trt.TripLimit.COUNT)
    state = loop.add_recurrence(x)
    output = net.add_elementwise(
        times(net, state.get_output(0), constant(net, "k", w["k"])), constant(net, "b", w["b"]), E.PROD
    )
    state.set_input(1, net.add_activation(output.get_output(0), trt.ActivationType.TANH).get_output(0))
    return loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE)


def chosen(net, w):
    """One of two products, selected by a bool."""
    flag, x = net.add_input("flag", trt.bool, ()), net.add_input("x", trt.float32, (4, 64))
    choice = net.add_if_conditional()
    choice.set_condition(flag)
    inside = choice.add_input(x).get_output(0)
    return choice.add_output(
        times(net, inside, constant(net, "k", w["k"])), times(net, inside, constant(net, "b", w["b"]))
    )


def turned(net, w):
    """A deconvolution, and a convolution of each channel by itself."""
    x = net.add_input("x", trt.float32, (1, 16, 9, 9))
    wide = net.add_deconvolution_nd(x, 12, (4, 4), w["k"])
    wide.name, wide.stride_nd = "k", (2, 2)
    each = net.add_convolution_nd(wide.get_output(0), 12, (3, 3), w["b"])
    each.name, each.num_groups = "b", 12
    return each


def powers(net, w):
    """A power, whose exponent is part of the network, a gather from a table, and a quotient."""
    x = net.add_input("x", trt.float32, (4, 64))
    at = constant(net, "at", np.int32([1, 3, 0, 2]))
    rows = net.add_gather(constant(net, "k", w["k"]), at, 0).get_output(0)
    size = net.add_unary(net.add_elementwise(x, rows, E.SUM).get_output(0), trt.UnaryOperation.ABS)
    root = net.add_elementwise(size.get_output(0), constant(net, "e", np.float32([[0.5]])), E.POW)
    return net.add_elementwise(root.get_output(0), constant(net, "b", w["b"]), E.DIV)


def nibbles():
    return RNG.integers(-8, 8, (64, 40)).astype(ml_dtypes.int4)


def packed(net, w):
    x = net.add_input("x", trt.float32, (4, 64))
    worth = net.add_dequantize(constant(net, "k", w["k"]), constant(net, "steps", w["steps"]), trt.float32)
    worth.axis = 1
    return net.add_matrix_multiply(x, NONE, worth.get_output(0), NONE)


def steps(count):
    return (np.abs(draw(count)) * 0.05 + 0.01).astype(np.float32)


def bytes_of(*shape):
    return RNG.integers(-127, 128, shape).astype(np.int8)


B16 = ml_dtypes.bfloat16
X = {"x": draw(4, 64)}
KINDS = {
    "half": (half, lambda: {"k": draw(64, 40, dtype="f2"), "b": draw(1, 40, dtype="f2")}),
    "bfloat16": (brain, lambda: {"k": draw(64, 40, dtype=B16), "b": draw(1, 40, dtype=B16)}),
    "scales": (coded, lambda: {"k": draw(64, 40), "step": steps(1), "steps": steps(40)}),
    "codes": (coded, lambda: {"k": bytes_of(64, 40), "step": steps(1), "steps": steps(40)}),
    "int4": (packed, lambda: {"k": nibbles(), "steps": steps(40)}),
    "loop": (looped, lambda: {"k": draw(64, 64), "b": draw(1, 1)}),
    "branch": (chosen, lambda: {"k": draw(64, 40), "b": draw(64, 40)}),
    "windows": (turned, lambda: {"k": draw(16, 12, 4, 4), "b": draw(12, 1, 3, 3)}),
    "powers": (powers, lambda: {"k": draw(4, 64), "b": draw(1, 64)}),
}
FEEDS = {
    "half": {"x": X["x"].astype("f2")},
    "bfloat16": {"x": X["x"].astype(B16)},
    "branch": {**X, "flag": np.array(True)},
    "windows": {"x": draw(1, 16, 9, 9)},
}


def built(log, describe, w, *flags, winograd="auto"):
    builder = trt.Builder(log)
    net, config = builder.create_network(), builder.create_builder_config()
    config.winograd = winograd
    for flag in flags:
        config.set_flag(flag)
    output = describe(net, w).get_output(0)
    output.name = "y"
    net.mark_output(output)
    return builder.build_engine_with_config(net, config)


def refit(engine, log, w, validates=True):
    refitter = trt.Refitter(engine, log)
    refitter.weights_validation = validates
    for layer, role in zip(*refitter.get_all(), strict=True):
        assert refitter.set_weights(layer, role, weights_of(w[layer]))
    return refitter.refit_cuda_engine()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("flags", [(Flag.REFIT,), (Flag.REFIT, Flag.STRIP_PLAN)], ids=["refit", "strip"])
@pytest.mark.parametrize("kind", KINDS)
def test_bits_are_those_of_a_build_with_the_new_weights(log, kind, flags):
    describe, weights = KINDS[kind]
    engine, new, feeds = built(log, describe, weights(), *flags), weights(), FEEDS.get(kind, X)
    assert refit(engine, log, new)
    y = engine.run(**feeds)["y"]
    for again in ((), (Flag.REFIT,)):
        assert np.array_equal(y, built(log, describe, new, *again).run(**feeds)["y"])
    assert log.lines == []


def windows(net, w):
    layer = net.add_convolution_nd(net.add_input("x", trt.float32, (1, 32, 20, 20)), 32, (3, 3), w["k"])
    layer.name = "k"
    return layer


@pytest.mark.parametrize("tiles", ["F(2,3)", "F(4,3)"])
@pytest.mark.parametrize("worst", [np.nan, np.inf, 1e25])
def test_tiles_of_windows_have_the_sums_of_new_weights_that_are_large_or_no_numbers(log, tiles, worst):
    new, x = {"k": draw(32, 32, 3, 3)}, draw(1, 32, 20, 20)
    new["k"][17, 3, 1, 2], x[0, 3, 5, 5] = worst, 1e18
    engine = built(log, windows, {"k": draw(32, 32, 3, 3)}, Flag.REFIT, winograd=tiles)
    assert refit(engine, log, new, worst != 1e25)
    got, expected = engine.run(x=x)["y"], built(log, windows, new, winograd="off").run(x=x)["y"]
    assert not np.isfinite(expected).all()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_allclose(got, expected, rtol=1e-3)


def test_new_weights_that_are_too_large_for_tiles_are_rejected_where_they_are_validated(log):
    engine = built(log, windows, {"k": draw(32, 32, 3, 3)}, Flag.REFIT, winograd="F(4,3)")
    assert not refit(engine, log, {"k": 1e25 * draw(32, 32, 3, 3)})
    assert "AR843" in log.lines[-1]


@pytest.mark.parametrize("tiles", ["F(2,3)", "F(4,3)", "off"])
def test_tiles_of_windows_are_transformed_again(log, tiles):
    old, new, x = {"k": draw(32, 32, 3, 3)}, {"k": draw(32, 32, 3, 3)}, draw(1, 32, 20, 20)
    engine = built(log, windows, old, Flag.REFIT, winograd=tiles)
    assert refit(engine, log, new)
    expected = built(log, windows, new, winograd=tiles).run(x=x)["y"]
    assert np.array_equal(engine.run(x=x)["y"], expected)


def test_exponents_stay_as_they_are_and_are_no_weights_to_refit(log):
    describe, weights = KINDS["powers"]
    assert trt.Refitter(built(log, describe, weights(), Flag.REFIT), log).get_all()[0] == ["k", "b"]


@pytest.mark.parametrize("precision", [Flag.FP16, Flag.BF16, Flag.INT8])
def test_layers_in_other_precisions_are_refitted_where_they_may(log, precision):
    def describe(net, w):
        x = net.add_input("x", trt.float32, (4, 64))
        x.dynamic_range = (-4, 4)
        return net.add_matrix_multiply(x, NONE, constant(net, "k", w["k"]), NONE)

    old, new = {"k": draw(64, 40)}, {"k": draw(64, 40)}
    engine = built(log, describe, old, Flag.REFIT, precision)
    assert refit(engine, log, new)
    held = trt.Refitter(engine, log).get_all()[0]  # codes of weights are fixed in the engine
    expected = built(log, describe, new if held else old, precision).run(**X)["y"]
    assert np.array_equal(engine.run(**X)["y"], expected)


@pytest.mark.rare
@pytest.mark.parametrize("layers", [100, 200])
def test_long_chains_are_refitted(log, layers):
    def describe(net, w):
        y = net.add_input("x", trt.float32, (4, 64))
        for k in range(layers):
            y = times(net, y, constant(net, f"k{k}", w[f"k{k}"]))
        return net.add_identity(y)

    old, new = ({f"k{k}": draw(64, 64) / 8 for k in range(layers)} for _ in range(2))
    engine = built(log, describe, old, Flag.REFIT)
    assert refit(engine, log, new)
    assert np.array_equal(engine.run(**X)["y"], built(log, describe, new).run(**X)["y"])
