"""Grid sampling: dynamic dimensions, positions far outside, NaN, mistakes."""

import re

import numpy as np
import pytest

import anyrt as trt
from tests.messages import diagnostic

CLAMP, FILL, REFLECT = trt.SampleMode.CLAMP, trt.SampleMode.FILL, trt.SampleMode.REFLECT
NEAREST, LINEAR, CUBIC = trt.InterpolationMode.__members__.values()
FAR = np.float32([-np.inf, -3e38, -1e9, -1.5, 1.5, 1e9, 3e38, np.inf, np.nan])


def sampling(net, image, grid, **attributes):
    """The layer between inputs x and g and the output y."""
    layer = net.add_grid_sample(net.add_input("x", trt.float32, image), net.add_input("g", trt.float32, grid))
    for name, value in attributes.items():
        setattr(layer, name, value)
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    return layer


def built(net, config=None):
    return net.builder.build_engine_with_config(net, config or net.builder.create_builder_config())


def across(values):
    """A grid (1, 1, n, 2) with these x, at the vertical centre."""
    return np.stack([values, 0 * np.nan_to_num(values)], -1).astype(np.float32)[None, None]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("mode", "how", "expected"),
    [
        (FILL, NEAREST, [0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (FILL, LINEAR, [0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (CLAMP, NEAREST, [1, 1, 1, 1, 4, 4, 4, 4, 1]),
        (CLAMP, LINEAR, [1, 1, 1, 1, 4, 4, 4, 4, 1]),
        (CLAMP, CUBIC, [1, 1, 1, 1, 4, 4, 4, 4, 1]),
        (FILL, CUBIC, [0, 0, 0, -0.09375, -0.375, 0, 0, 0, 0]),
        (REFLECT, LINEAR, [1, None, None, 1.5, 3.5, None, None, 1, 1]),
        (REFLECT, NEAREST, [1, None, None, 1, 3, None, None, 1, 1]),
    ],
)
def test_positions_far_outside_read_nothing_outside(net, mode, how, expected):
    sampling(net, (1, 1, 1, 4), (1, 1, 9, 2), sample_mode=mode, interpolation_mode=how)
    x = np.float32([1, 2, 3, 4]).reshape(1, 1, 1, 4)
    y = built(net).run(x=x, g=across(FAR))["y"].reshape(-1)
    for got, reference in zip(y, expected, strict=True):
        assert 1 <= got <= 4 if reference is None else got == reference


def test_a_nan_at_the_edge_does_not_show_outside(net):
    sampling(net, (1, 1, 1, 4), (1, 1, 3, 2))
    x = np.float32([np.nan, 2, 3, np.nan]).reshape(1, 1, 1, 4)
    assert built(net).run(x=x, g=across(np.float32([-2, 0, 2])))["y"].reshape(-1).tolist() == [0, 2.5, 0]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", [CLAMP, FILL, REFLECT])
@pytest.mark.parametrize("how", [LINEAR, CUBIC])
def test_elements_with_zero_weight_may_be_infinite(net, how, mode):
    sampling(net, (1, 1, 4, 9), (1, 1, 2, 2), sample_mode=mode, interpolation_mode=how, align_corners=True)
    x = np.full((1, 1, 4, 9), np.inf, np.float32)
    x[0, 0, [0, 3], [0, 8]] = 1, 2
    corners = np.float32([[-1, -1], [1, 1]]).reshape(1, 1, 2, 2)
    assert built(net).run(x=x, g=corners)["y"].reshape(-1).tolist() == [1, 2]


def test_open_sizes_of_two_and_more_read_neighbours_at_once(net):
    sampling(net, (1, 3, -1, -1), (1, 1, 2, 2), sample_mode=CLAMP)
    profile, config = net.builder.create_optimization_profile(), net.builder.create_builder_config()
    profile.set_shape("x", (1, 3, 2, 2), (1, 3, 8, 8), (1, 3, 9, 9))
    config.add_optimization_profile(profile)
    engine, grid = built(net, config), np.float32([[0, 0], [9, -9]]).reshape(1, 1, 2, 2)
    for h, w in ((2, 2), (4, 8), (8, 6)):
        x = np.arange(3 * h * w, dtype=np.float32).reshape(1, 3, h, w)
        middle = x[:, :, h // 2 - 1 : h // 2 + 1, w // 2 - 1 : w // 2 + 1].mean((2, 3))
        assert np.array_equal(
            engine.run(x=x, g=grid)["y"], np.stack([middle, x[:, :, 0, -1]], -1)[:, :, None]
        )


def test_open_sizes_of_images_and_grids(net):
    sampling(net, (-1, 2, -1, -1), (-1, -1, -1, 2), sample_mode=CLAMP, align_corners=True)
    profile, config = net.builder.create_optimization_profile(), net.builder.create_builder_config()
    profile.set_shape("x", (0, 2, 1, 1), (2, 2, 5, 5), (4, 2, 9, 9))
    profile.set_shape("g", (0, 0, 1, 2), (2, 3, 3, 2), (4, 9, 9, 2))
    config.add_optimization_profile(profile)
    engine = built(net, config)
    for n, h, w in ((2, 5, 7), (1, 1, 1), (3, 9, 2), (0, 4, 4)):
        x = np.arange(n * 2 * h * w, dtype=np.float32).reshape(n, 2, h, w)
        ends = np.float32([[[-1, -1], [1, -1]], [[-1, 1], [1, 1]]])
        y = engine.run(x=x, g=np.broadcast_to(ends, (n, 2, 2, 2)).copy())["y"]
        assert np.array_equal(y, x[:, :, [0, -1]][..., [0, -1]])
        assert engine.run(x=x, g=np.zeros((n, 0, 3, 2), np.float32))["y"].shape == (n, 2, 0, 3)


def test_a_grid_that_the_network_computes_rotates_an_image(net):
    x = net.add_input("x", trt.float32, (1, 3, 8, 8))
    angles = np.float32([[0, 1], [-1, 0]])  # a quarter of a turn
    centres = np.stack(np.meshgrid(*[np.arange(-7, 8, 2, dtype=np.float32) / 8] * 2), -1).reshape(64, 2)
    a, b = (net.add_constant(m.shape, np.ascontiguousarray(m)).get_output(0) for m in (centres, angles))
    none = trt.MatrixOperation.NONE
    turned = net.add_shuffle(net.add_matrix_multiply(a, none, b, none).get_output(0))
    turned.reshape_dims = (1, 8, 8, 2)
    layer = net.add_grid_sample(x, turned.get_output(0))
    double = net.add_elementwise(layer.get_output(0), layer.get_output(0), trt.ElementWiseOperation.SUM)
    double.get_output(0).name = "y"
    net.mark_output(double.get_output(0))
    image = np.arange(192, dtype=np.float32).reshape(1, 3, 8, 8)
    got = built(net).run(x=image)["y"]
    assert np.allclose(got, 2 * np.rot90(image, 1, (2, 3)), atol=1e-3)


@pytest.mark.parametrize(("how", "most"), [(NEAREST, 0), (LINEAR, 4e-3), (CUBIC, 6e-3)])
def test_halves_count_positions_in_float32(net, how, most):
    x, g = net.add_input("x", trt.float16, (1, 1, 1, 3000)), net.add_input("g", trt.float16, (1, 1, 50, 2))
    layer = net.add_grid_sample(x, g)
    layer.interpolation_mode, layer.get_output(0).name = how, "y"
    net.mark_output(layer.get_output(0))
    image = np.sin(np.arange(3000) / 9).astype(np.float16).reshape(1, 1, 1, 3000)
    grid = across(np.linspace(-0.99, 0.99, 50)).astype(np.float16)
    y = built(net).run(x=image, g=grid)["y"].reshape(-1)
    at = ((grid[0, 0, :, 0].astype(np.float64) + 1) * 3000 - 1) / 2
    expected = image.reshape(-1)[np.rint(at).astype(int)] if how is NEAREST else np.sin(at / 9)
    assert np.abs(y - expected).max() <= most


def test_errors_name_the_layer(net, log):
    sampling(net, (1, 1, 3, 3), (1, 3, 3, 3))
    assert built(net) is None
    place = "(Unnamed Layer* 0) [GridSample] (test_grid_sample.py:"
    assert re.search(diagnostic("AR123", place, "grid", (1, 3, 3, 3), 2, 3), log.lines[0])
