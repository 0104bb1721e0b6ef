"""Fourier transforms, windows and mel weights of ONNX models, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from anyrt.onnx.backend import prepare
from tests.onnx.conftest import of_node

RNG = np.random.default_rng(13)


def random(*shape):
    """Random numbers around 0."""
    return RNG.standard_normal(shape).astype(np.float32)


def parts(x):
    """A complex array as real and imaginary parts on a last axis."""
    return np.stack([x.real, x.imag], -1)


def close(got, expected):
    """Compare, up to the rounding of sums in float32."""
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("where", ["attribute", "constant", "run"])
@pytest.mark.parametrize("complex_", [False, True])
def test_transforms_along_axes_from_anywhere(run, axis, where, complex_):
    x = random(3, 8, 2 if complex_ else 1)
    z = x[..., 0] + 1j * (x[..., 1] if complex_ else 0)
    expected, at = parts(np.fft.fft(z, axis=axis % 3)), {"axis": np.int64(axis)}
    if where == "attribute":
        return close(run("DFT", {"x": x}, opset=17, axis=axis), expected)
    arguments = ({"x": x} | at, {}) if where == "run" else ({"x": x}, at)
    return close(run("DFT", *arguments, order=["x", "", "axis"]), expected)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("length", [5, 6, 8, 12])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("onesided", [0, 1])
def test_signals_are_cut_or_lengthened(run, length, known, onesided):
    x, n = {"x": random(2, 8, 1)}, {"n": np.int64(length)}
    got = run("DFT", x, n, onesided=onesided) if known else run("DFT", x | n, onesided=onesided)
    close(got, parts((np.fft.rfft if onesided else np.fft.fft)(x["x"][..., 0], length)))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("length", [None, 7, 8, 14])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("onesided", [0, 1])
def test_inverse_transforms_give_signals_back(run, length, known, onesided):
    x, n = random(2, 5, 2), {} if length is None else {"n": np.int64(length)}
    more = {"inverse": 1, "onesided": onesided}
    got = run("DFT", {"x": x}, n, **more) if known else run("DFT", {"x": x} | n, **more)
    z = x[..., 0] + 1j * x[..., 1]
    close(got, np.fft.irfft(z, length)[..., None] if onesided else parts(np.fft.ifft(z, length)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sizes", [(2, 8), (1, 9), (3, 1)])
@pytest.mark.parametrize("more", [{}, {"onesided": 1}, {"inverse": 1}])
def test_sizes_of_signals_may_be_open(sizes, more):
    x = random(*sizes, 2 if "inverse" in more else 1)
    model = of_node(helper.make_node("DFT", ["x"], ["y"], **more), {"x": x}, {}, 21, dynamic=("x",))
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = x.shape[2]
    z = x[..., 0] + 1j * x[..., -1] if "inverse" in more else x[..., 0]
    functions = {"": np.fft.fft, "onesided": np.fft.rfft, "inverse": np.fft.ifft}
    close(prepare(model).run([x])[0], parts(functions["".join(more)](z)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("more", [{"onesided": 1}, {"inverse": 1}, {"inverse": 1, "onesided": 1}])
def test_a_run_decides_the_axis_of_every_transform(run, axis, more):
    x, inputs = random(6, 5, 2 if "inverse" in more else 1), {"axis": np.int64(axis)}
    z = x[..., 0] + 1j * x[..., 1] if "inverse" in more else x[..., 0]
    function = np.fft.irfft if len(more) == 2 else np.fft.ifft if "inverse" in more else np.fft.rfft
    expected = function(z, axis=axis)
    got = run("DFT", {"x": x} | inputs, order=["x", "", "axis"], **more)
    close(got, expected[..., None] if len(more) == 2 else parts(expected))


def test_long_transforms_and_those_of_nothing(run):
    x = random(1, 1000, 1)
    expected = parts(np.fft.rfft(x[..., 0].astype(np.float64)))
    np.testing.assert_allclose(run("DFT", {"x": x}, onesided=1), expected, rtol=1e-3, atol=2e-3)
    assert run("DFT", {"x": x[:0]}).shape == (0, 1000, 2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("windowed", [True, False])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("onesided", [0, 1])
def test_frames_overlap_and_have_a_window(run, windowed, known, onesided):
    x, w = random(2, 50, 1), random(16) if windowed else np.ones(16, np.float32)
    steps = {"step": np.int64(6)}
    rest = {"w": w} if windowed else {"n": np.int64(16)}
    order = ["x", "step", "w"] if windowed else ["x", "step", "", "n"]
    arguments = ({"x": x}, steps | rest) if known else ({"x": x} | steps | rest, {})
    got = run("STFT", *arguments, order=order, onesided=onesided)
    frames = np.stack([x[:, i : i + 16, 0] * w for i in range(0, 35, 6)], 1)
    close(got, parts((np.fft.rfft if onesided else np.fft.fft)(frames)))


@pytest.mark.parametrize("known", [True, False])
def test_mel_weights_are_triangles(agrees, known):
    sizes = {"bins": np.int64(8), "n": np.int64(64), "rate": np.int64(8000)}
    edges = {"low": np.float32(0), "high": np.float32(4000)}
    agrees("MelWeightMatrix", {} if known else sizes | edges, sizes | edges if known else {})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("known", [True, False])
def test_windows_of_any_size(agrees, name, periodic, known):
    size = {"n": np.int32(10)}
    agrees(name, {} if known else size, size if known else {}, periodic=periodic, tol=1e-5)


@pytest.mark.parametrize(("name", "terms"), [
    ("HannWindow", (0.5, -0.5, 0)),
    ("HammingWindow", (25 / 46, -21 / 46, 0)),
    ("BlackmanWindow", (0.42, -0.5, 0.08)),
])  # fmt: skip
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("known", [True, False])
def test_windows_of_float64_are_computed_in_it(run, name, terms, periodic, known):
    size = {"n": np.int64(10)}
    got = run(name, {} if known else size, size if known else {}, periodic=periodic, output_datatype=11)
    angle = 2 * np.pi * np.arange(10) / (9 + periodic)
    expected = sum(c * np.cos(k * angle) for k, c in enumerate(terms))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=0, atol=2.0**-51)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("inverse", [0, 1])
def test_long_transforms_of_float64_are_computed_in_it(run, known, inverse):
    x, n, axis = RNG.standard_normal((1, 300, 2)), {"n": np.int64(300)}, {"axis": np.int64(1)}
    arguments = ({"x": x}, n | axis) if known else ({"x": x} | n, axis)
    got = run("DFT", *arguments, order=["x", "n", "axis"], inverse=inverse)
    both = (np.fft.ifft if inverse else np.fft.fft)(x[..., 0] + 1j * x[..., 1])
    np.testing.assert_allclose(got, np.stack([both.real, both.imag], -1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("known", [True, False])
def test_mel_weights_of_float64_are_computed_in_it(agrees, known):
    sizes = {"bins": np.int64(8), "n": np.int64(64), "rate": np.int64(8000)}
    edges = {"low": np.float32(0), "high": np.float32(4000)}
    arguments = ({}, sizes | edges) if known else (sizes | edges, {})
    agrees("MelWeightMatrix", *arguments, output_datatype=11, tol=1e-15)
