"""Normalisations of ONNX models, compared with formulas in float64 and ONNX's reference."""

from __future__ import annotations

import numpy as np
import pytest

RNG = np.random.default_rng(11)
KINDS = [("f4", 1e-5), ("f8", 1e-9), ("f2", 5e-3)]


def random(kind, *shape):
    """Random numbers around 1."""
    return (1 + RNG.standard_normal(shape)).astype(kind)


def channels(kind="f4", n=4):
    """Scale, shift, mean and variance for each of `n` channels."""
    return {k: np.abs(random(kind, n)) + 0.5 for k in ("s", "b", "m", "v")}


@pytest.mark.parametrize(("kind", "tol"), KINDS)
@pytest.mark.parametrize("shape", [(2, 4), (2, 4, 5), (2, 4, 3, 5), (0, 4, 3, 3)])
def test_batches_are_normalised_by_given_statistics(run, kind, tol, shape):
    x, c = random(kind, *shape), channels(kind)
    s, b, m, v = (a.astype("f8").reshape(4, *(1,) * (len(shape) - 2)) for a in c.values())
    got = run("BatchNormalization", {"x": x}, c, dynamic=("x",))
    assert got.dtype == x.dtype
    np.testing.assert_allclose(got, (x - m) / np.sqrt(v + 1e-5) * s + b, rtol=tol, atol=10 * tol)


def test_training_gives_running_statistics(run):
    x, c = random("f4", 3, 4, 5), channels()
    y, mean, variance = run("BatchNormalization", {"x": x} | c, outputs=3, training_mode=1, momentum=0.75)
    own, spread = x.mean((0, 2)), x.var((0, 2))
    s, b = (c[k].reshape(4, 1) for k in "sb")
    expected = (x - own.reshape(4, 1)) / np.sqrt(spread.reshape(4, 1) + 1e-5) * s + b
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(mean, 0.75 * c["m"] + 0.25 * own, rtol=1e-5)
    np.testing.assert_allclose(variance, 0.75 * c["v"] + 0.25 * spread, rtol=1e-5)


def test_old_training_has_five_outputs_and_old_inference_one(run):
    x, c = random("f4", 3, 4, 5), channels()
    outputs = run("BatchNormalization", {"x": x}, c, opset=9, outputs=5)
    np.testing.assert_allclose(outputs[3], x.mean((0, 2)), rtol=1e-5)
    one = run("BatchNormalization", {"x": x}, c, opset=7)
    assert one.shape == x.shape
    assert not np.allclose(one, outputs[0])


@pytest.mark.parametrize(("kind", "tol"), KINDS)
@pytest.mark.parametrize("shape", [(2, 4, 6), (2, 4, 3, 5), (1, 4, 2, 3, 2)])
def test_instances_are_normalised_alone(run, kind, tol, shape):
    x, c, axes = random(kind, *shape), channels(kind), tuple(range(2, len(shape)))
    s, b = (c[k].astype("f8").reshape(4, *(1,) * len(axes)) for k in "sb")
    wide = x.astype("f8")
    expected = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + 1e-5) * s + b
    got = run("InstanceNormalization", {"x": x}, {k: c[k] for k in "sb"}, dynamic=("x",))
    np.testing.assert_allclose(got, expected, rtol=tol, atol=10 * tol)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("kind", "tol"), KINDS)
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("opset", [18, 21])
def test_scales_were_those_of_groups(run, kind, tol, groups, opset):
    x, n = random(kind, 2, 4, 3, 5), 4 if opset == 21 else groups
    s, b = random(kind, n), random(kind, n)
    apart = x.astype("f8").reshape(2, groups, -1)
    y = (apart - apart.mean(2, keepdims=True)) / np.sqrt(apart.var(2, keepdims=True) + 1e-5)
    each = [np.repeat(v.astype("f8"), 4 // n).reshape(4, 1, 1) for v in (s, b)]
    got = run(
        "GroupNormalization", {"x": x}, {"s": s, "b": b}, opset=opset, num_groups=groups, dynamic=("x",)
    )
    np.testing.assert_allclose(got, y.reshape(x.shape) * each[0] + each[1], rtol=tol, atol=10 * tol)


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("kind", "tol"), KINDS)
@pytest.mark.parametrize("axis", [1, -1, -2])
@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("outputs", [1, 3])
def test_layers_are_normalised_from_an_axis_on(agrees, kind, tol, axis, shift, outputs):
    x = random(kind, 2, 3, 4)
    more = {"s": random(kind, *x.shape[axis:])} | ({"b": random(kind, *x.shape[axis:])} if shift else {})
    if outputs == 1 or kind == "f4":
        agrees(
            "LayerNormalization",
            {"x": x},
            more,
            axis=axis,
            outputs=outputs,
            tol=max(tol, 1e-5),
            dynamic=("x",),
        )


@pytest.mark.parametrize(("kind", "tol"), KINDS)
@pytest.mark.parametrize("axis", [0, -1])
def test_roots_of_mean_squares(run, kind, tol, axis):
    x = random(kind, 3, 4)
    s, axes = random(kind, *x.shape[axis:]), (0, 1) if axis == 0 else (1,)
    expected = x / np.sqrt(np.mean(x.astype("f8") ** 2, axes, keepdims=True) + 1e-5) * s
    got = run("RMSNormalization", {"x": x}, {"s": s}, opset=23, axis=axis, dynamic=("x",))
    np.testing.assert_allclose(got, expected, rtol=tol, atol=tol)


@pytest.mark.parametrize(("kind", "last"), [("f4", 4e-7), ("f8", 1e-10)])
@pytest.mark.parametrize("stash", [None, 1, 10, 16, 11])
@pytest.mark.parametrize("op", ["LayerNormalization", "GroupNormalization"])
def test_moments_have_the_digits_that_the_node_asks_for(run, op, stash, kind, last):
    grouped = op == "GroupNormalization"
    x = random("f8", 2, 4, 60).astype(kind) + np.array(1e4, kind)  # means lose four digits
    s = np.ones(4 if grouped else 60, kind)
    rows = x.astype("f8").reshape(2, 2 if grouped else 4, -1)
    centred = rows - rows.mean(-1, keepdims=True)
    expected = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)).reshape(x.shape)
    more = ({} if stash is None else {"stash_type": stash}) | ({"num_groups": 2} if grouped else {})
    off = np.abs(run(op, {"x": x}, {"s": s, "b": 0 * s}, opset=23, **more) - expected).max()
    assert (off < last) == (stash == 11 or (stash is None and kind == "f8"))
    assert off < 1e-2


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, -1])
def test_rows_without_a_norm_stay(run, p, axis):
    x = np.float32([[3, 0, 4], [0, 0, 0]])
    norm = np.linalg.norm(x, p, axis, keepdims=True)
    np.testing.assert_allclose(run("LpNormalization", {"x": x}, p=p, axis=axis), x / np.maximum(norm, 1e-30))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("size", [1, 3, 4, 16, 17])
@pytest.mark.parametrize("shape", [(2, 7, 3, 5), (2, 7, 3), (1, 7)])
def test_channels_around_may_be_of_any_number(run, size, shape):
    x = random("f4", *shape)
    before, after = (size - 1) // 2, size // 2
    sums = [np.sum(x[:, max(c - before, 0) : c + after + 1] ** 2, 1) for c in range(7)]
    expected = x / (1 + 0.5 / size * np.stack(sums, 1)) ** 0.75
    got = run("LRN", {"x": x}, size=size, alpha=0.5, dynamic=("x",))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_means_and_variances_over_some_axes(agrees):
    agrees("MeanVarianceNormalization", {"x": random("f4", 2, 3, 4, 5)}, tol=1e-5)
    agrees("MeanVarianceNormalization", {"x": random("f4", 2, 3)}, axes=[1], tol=1e-5, dynamic=("x",))
