"""Resize and padding positions, compared with the formulas of the specification in plain NumPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeRoundMode as Rounding
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.core.enums import SampleMode
from anyrt.prims.taps import Border, Cubic, Linear, Nearest, Taps

LENGTHS = [(3, 6), (6, 3), (5, 8), (8, 5), (4, 4), (2, 9), (1, 5), (7, 2)]


def coordinates(how: Coordinate, n_in: int, n_out: int) -> np.ndarray:
    o = np.arange(n_out)
    return {
        Coordinate.ALIGN_CORNERS: o * (n_in - 1) / max(n_out - 1, 1),
        Coordinate.ASYMMETRIC: o * n_in / n_out,
        Coordinate.HALF_PIXEL: (o + 0.5) * n_in / n_out - 0.5,
    }[how]


@pytest.mark.parametrize("how", Coordinate)
@pytest.mark.parametrize("a", [-0.75, -0.1, 0.0, 0.3])
@pytest.mark.parametrize("exclude", [False, True])
def test_a_tap_that_may_weigh_nothing_is_reported(how: Coordinate, a: float, exclude: bool):
    rule = Cubic(how, Selector.FORMULA, a, exclude)
    for n_in, n_out in product(range(2, 9), range(1, 20)):
        lands = (rule.table(n_in, n_out)[1] == [0, 1, 0, 0]).all(axis=1).any()
        silence = (0, None, None, 0) if lands else (None,) * 4
        assert rule.silence(n_in, n_out) == (silence if a < 0 else (0, 1, 2, 3)), (n_in, n_out)


def test_sizes_that_are_open_decide_by_their_ratio():
    n, rule = Sym("n", 1, 99).dim, Cubic(Coordinate.HALF_PIXEL, Selector.FORMULA, -0.75, False)
    assert rule.silence(n, 2 * n) == rule.silence(64, 128) == (None,) * 4
    assert rule.silence(n, 3 * n) == rule.silence(n, 128) == (0, None, None, 0)


def test_align_corners_applies_to_nearest_too():
    rule = Nearest(Coordinate.ALIGN_CORNERS, Selector.FORMULA, Rounding.FLOOR)
    assert rule.table(3, 6)[0].ravel().tolist() == [0, 0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        (Rounding.FLOOR, [0, 0, 1, 1]),
        (Rounding.CEIL, [0, 1, 1, 1]),
        (Rounding.HALF_UP, [0, 1, 1, 1]),
        (Rounding.HALF_DOWN, [0, 0, 1, 1]),
    ],
)
def test_ties_round_as_named(rounding: Rounding, expected: list[int]):
    rule = Nearest(Coordinate.ASYMMETRIC, Selector.FORMULA, rounding)  # at 0, 0.5, 1, 1.5
    assert rule.table(2, 4)[0].ravel().tolist() == expected


@pytest.mark.parametrize("how", Coordinate)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_linear_is_interpolation_between_clamped_neighbours(how: Coordinate, lengths: tuple[int, int]):
    x = np.random.default_rng(0).normal(size=lengths[0])
    expected = np.interp(coordinates(how, *lengths), np.arange(lengths[0]), x)
    got = Taps(0, lengths[1], Linear(how, Selector.FORMULA)).ref((x,), (lengths[1],))
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize("how", Coordinate)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("exclude", [False, True])
def test_cubic_is_the_kernel_of_the_specification(how: Coordinate, lengths: tuple[int, int], exclude: bool):
    x, a = np.random.default_rng(0).normal(size=lengths[0]), -0.75
    expected = []
    for at in coordinates(how, *lengths):
        near = np.floor(at) + np.arange(-1, 3)
        d = np.abs(at - near)
        w = np.where(d <= 1, ((a + 2) * d - (a + 3)) * d**2 + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a)
        if exclude:
            w = np.where((near >= 0) & (near < lengths[0]), w, 0)
            w = w / w.sum()
        expected.append(w @ x[near.clip(0, lengths[0] - 1).astype(int)])
    got = Taps(0, lengths[1], Cubic(how, Selector.FORMULA, a, exclude)).ref((x,), (lengths[1],))
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("how", "selector", "expected"),
    [
        (Coordinate.ALIGN_CORNERS, Selector.FORMULA, 10.0),
        (Coordinate.ASYMMETRIC, Selector.FORMULA, 10.0),
        (Coordinate.HALF_PIXEL, Selector.FORMULA, 25.0),
        (Coordinate.HALF_PIXEL, Selector.UPPER, 10.0),
        (Coordinate.ALIGN_CORNERS, Selector.UPPER, 10.0),
    ],
)
def test_a_single_output_pixel(how: Coordinate, selector: Selector, expected: float):
    x = np.array([10.0, 20.0, 30.0, 40.0])
    assert Taps(0, 1, Linear(how, selector)).ref((x,), (1,)).tolist() == [expected]


@pytest.mark.parametrize(
    ("mode", "n_in", "expected"),
    [
        (SampleMode.WRAP, 3, [0, 1, 2, 0, 1, 2, 0, 1]),
        (SampleMode.CLAMP, 3, [0, 0, 0, 0, 1, 2, 2, 2]),
        (SampleMode.REFLECT, 3, [1, 2, 1, 0, 1, 2, 1, 0]),
        (SampleMode.REFLECT, 1, [0] * 8),
    ],
)
def test_positions_outside_come_back_in(mode: SampleMode, n_in: int, expected: list[int]):
    assert Border(mode, -3, 1).table(n_in, 8)[0].ravel().tolist() == expected


def test_unweighed_taps_keep_nan_and_integers():
    rule = Border(SampleMode.CLAMP, 0, 1)
    assert Taps(0, 3, rule).ref((np.array([7, 2**62]),), (3,)).tolist() == [7, 2**62, 2**62]
    assert np.isnan(Taps(0, 1, rule).ref((np.array([np.nan]),), (1,))).all()


@pytest.mark.parametrize("rule", [Linear, lambda *how: Cubic(*how, -0.75, exclude_outside=False)])
def test_an_element_that_weighs_nothing_is_not_read(rule):
    x = np.array([1, 2, np.inf, 4, np.nan])
    got = Taps(0, 9, rule(Coordinate.ALIGN_CORNERS, Selector.FORMULA)).ref((x,), (9,))
    assert [str(got[k]) for k in (0, 2, 4, 6, 8)] == ["1.0", "2.0", "inf", "4.0", "nan"]
