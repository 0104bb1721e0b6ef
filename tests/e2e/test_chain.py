"""Normalization, Scale, Activation, Resize, Shuffle: few passes over memory, and a build report with the
reasons."""

import json

import numpy as np

import anyrt as trt


def in_float64(x, gain, bias, factors):
    """The chain by its definition, in float64."""
    mean, variance = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    y = np.tanh(((x - mean) / np.sqrt(variance + 1e-5) * gain + bias) * factors[:, None, None])
    for axis in (2, 3):
        length = y.shape[axis]
        place = np.clip((np.arange(2 * length) + 0.5) / 2 - 0.5, 0, length - 1)
        low = np.floor(place).astype(int)
        part = (place - low).reshape([-1 if a == axis else 1 for a in range(4)])
        high = np.minimum(low + 1, length - 1)
        y = np.take(y, low, axis) * (1 - part) + np.take(y, high, axis) * part
    return y.transpose(0, 2, 3, 1)


def test_five_layers_are_two_passes_over_memory(net, engine_of, random):
    x = net.add_input("x", trt.float32, (-1, 8, -1, -1))
    gain, bias = (net.add_input(n, trt.float32, (1, 8, 1, 1)) for n in ("gain", "bias"))
    factors = np.linspace(0.5, 2, 8, dtype=np.float32)
    y = net.add_normalization(x, gain, bias, 0b1100).get_output(0)
    y = net.add_scale(y, trt.ScaleMode.CHANNEL, scale=factors).get_output(0)
    resize = net.add_resize(net.add_activation(y, trt.ActivationType.TANH).get_output(0))
    resize.resize_mode, resize.scales = trt.InterpolationMode.LINEAR, (1, 1, 2, 2)
    resize.coordinate_transformation = trt.ResizeCoordinateTransformation.HALF_PIXEL
    shuffle = net.add_shuffle(resize.get_output(0))
    shuffle.first_transpose = (0, 2, 3, 1)
    sizes = {"x": [(1, 8, 1, 1), (1, 8, 128, 128), (3, 8, 256, 256)]}
    engine = engine_of(net, shuffle.get_output(0), **sizes, gain=[(1, 8, 1, 1)] * 3, bias=[(1, 8, 1, 1)] * 3)
    for shape in ((1, 8, 1, 1), (2, 8, 31, 17), (3, 8, 64, 128)):
        feeds = {"x": random.standard_normal(shape, np.float32)}
        feeds |= {n: random.uniform(0.5, 2, (1, 8, 1, 1)).astype(np.float32) for n in ("gain", "bias")}
        want = in_float64(*(a.astype(np.float64) for a in feeds.values()), factors)
        np.testing.assert_allclose(engine.run(**feeds)["y"], want, rtol=1e-5, atol=1e-5)
    shown = engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON)
    report = json.loads(shown)["Report"].splitlines()
    kernels = [line for line in report if "; reads " in line]
    assert len(kernels) == 2
    assert "[Shuffle]" in kernels[1]
    assert "stored in memory instead of fused:" in report


def test_normalizations_with_transposes_between_them_find_their_statistics(net, engine_of, random):
    one, zero = (net.add_constant((1, 32, 1, 1), np.full(32, k, np.float32)).get_output(0) for k in (1, 0))
    x = net.add_input("x", trt.float32, (1, 32, 16, 16))
    value = x
    want = wide = random.standard_normal((1, 32, 16, 16)).astype(np.float64)
    for turned in ((0, 2, 3, 1), (0, 3, 1, 2)) * 2:
        norm = net.add_normalization_v2(value, one, zero, 0b1100)
        norm.num_groups = 8
        y = norm.get_output(0)
        y = net.add_elementwise(
            y, net.add_activation(y, trt.ActivationType.SIGMOID).get_output(0), trt.ElementWiseOperation.PROD
        )
        shuffle = net.add_shuffle(y.get_output(0))
        shuffle.first_transpose, shuffle.reshape_dims = turned, (1, 32, 16, 16)
        value = net.add_elementwise(value, shuffle.get_output(0), trt.ElementWiseOperation.SUM).get_output(0)
        groups = want.reshape(8, -1)
        centred = groups - groups.mean(1, keepdims=True)
        y = (centred / np.sqrt(groups.var(1, keepdims=True) + 1e-5)).reshape(want.shape)
        want = want + (y / (1 + np.exp(-y))).transpose(turned).reshape(want.shape)
    got = engine_of(net, value).run(x=wide.astype(np.float32))["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
