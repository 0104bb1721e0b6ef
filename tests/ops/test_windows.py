"""Positions of windows: every padding mode compared with counting, with numbers and with symbols."""

from itertools import product

import numpy as np
import pytest

from anyrt.core.dims import Sym, always_le
from anyrt.core.dimvalues import evaluate
from anyrt.core.enums import DataType, PaddingMode
from anyrt.core.errors import AnyrtError
from anyrt.ir.graph import Graph
from anyrt.ir.interpret import interpret
from anyrt.ops._windows import Slide, Span, per_axis, slide, slides, spans, spread, windows
from anyrt.prims.build import param
from tests.messages import diagnostic

N = Sym("x.0", 0, 99)
SLIDES = [Slide(*each) for each in product((1, 2, 3, 5), (1, 2, 3), (1, 2))]


def counted(mode, size, by, before, after):
    """The number of windows that fit, counted one by one."""
    if mode in (PaddingMode.SAME_UPPER, PaddingMode.SAME_LOWER):
        return len(range(0, size, by.stride))
    room = size + before + after
    whole = sum(start + by.reach <= room for start in range(0, room, by.stride))
    rest = (whole - 1) * by.stride + by.reach < room
    return whole + (mode is PaddingMode.EXPLICIT_ROUND_UP and rest)


@pytest.mark.parametrize("by", SLIDES, ids=str)
@pytest.mark.parametrize("mode", PaddingMode)
def test_windows_are_as_many_as_counting_finds_and_lie_inside_the_padded_input(mode, by):
    sizes = [n for n in range(1, 12) if n + 3 >= by.reach]
    for size, open_ in product(sizes, (False, True)):
        span = slide(mode, N.dim if open_ else size, by, 1, 2)
        results = [evaluate(d, {"x.0": size}) for d in (span.before, span.after, span.overhang, span.count)]
        before, after, overhang, count = results
        assert count == counted(mode, size, by, 1, 2)
        needed = (count - 1) * by.stride + by.reach
        assert needed <= before + size + after + overhang
        assert min(results) >= 0
        assert overhang in (0, needed - before - size - after)


def test_same_puts_the_odd_element_after_or_before():
    spans_ = [slide(mode, 8, Slide(3, 2), 9, 9) for mode in (PaddingMode.SAME_UPPER, PaddingMode.SAME_LOWER)]
    assert spans_ == [Span(0, 1, 0, 4), Span(1, 0, 0, 4)]


def test_symbols_leave_nothing_to_check_behind_the_last_window_of_round_up():
    span = slide(PaddingMode.EXPLICIT_ROUND_UP, N.dim, Slide(3, 2), 1, 1)
    assert always_le(2 * (span.count - 1) + 3, N.dim + span.before + span.after + span.overhang)


@pytest.mark.parametrize(
    ("mode", "by", "expected"),
    [
        (PaddingMode.EXPLICIT_ROUND_DOWN, Slide(4, 2), Span(1, 2, 0, 2 * N.dim - 1)),
        (PaddingMode.EXPLICIT_ROUND_UP, Slide(3, 2, 2), Span(1, 2, 0, 2 * N.dim)),
        (PaddingMode.SAME_UPPER, Slide(5, 2), Span(1, 2, 0, 2 * N.dim)),
        (PaddingMode.SAME_LOWER, Slide(5, 2), Span(2, 1, 0, 2 * N.dim)),
        (PaddingMode.SAME_UPPER, Slide(2, 3), Span(0, 0, 0, 3 * N.dim - 1)),
    ],
)
def test_deconvolution_cuts_its_padding_off(mode, by, expected):
    assert spread(mode, N.dim, by, 1, 2) == expected


@pytest.mark.parametrize("groups", [1, 3])
def test_windows_are_those_of_numpy(groups):
    x, by = param("x", (2, 6, 5, 7), DataType.FLOAT), (Slide(2, 2), Slide(3, 1, 2))
    at, rules = spans("there", PaddingMode.EXPLICIT_ROUND_UP, x.shape[2:], by, (1, 0), (0, 1))
    values = np.arange(420, dtype=np.float32).reshape(x.shape)
    graph = Graph((("x", x),), (("y", windows("there", x, by, at, -1.0, groups)),))
    (got,) = interpret(graph, {"x": values}).values()
    padded = np.pad(values, ((0, 0), (0, 0), (1, 0), (0, 1)), constant_values=-1.0)
    expected = np.lib.stride_tricks.sliding_window_view(padded, (2, 5), (2, 3))[:, :, ::2, :, :, ::2]
    split = (2, 6) if groups == 1 else (2, 3, 2)
    assert rules == ()
    assert np.array_equal(got, expected.reshape(*split, *expected.shape[2:]))


def test_a_window_larger_than_its_input_is_rejected_when_sizes_are_known():
    explicit, by = PaddingMode.EXPLICIT_ROUND_DOWN, (Slide(3, 1, 2),)
    with pytest.raises(AnyrtError, match="AR126"):
        spans("there", explicit, (3,), by, (1,), (0,))
    _, (rule,) = spans("there", explicit, (N.dim,), by, (1,), (0,))
    assert [rule.holds({"x.0": n}) for n in (3, 4)] == [False, True]


def test_the_error_for_a_too_large_window_has_the_largest_size():
    few, by = Sym("x.0", 1, 4), (Slide(6, 1),)
    with pytest.raises(AnyrtError, match=diagnostic("AR126", "there", 6, 5, 0, 5)):
        spans("there", PaddingMode.EXPLICIT_ROUND_DOWN, (few.dim,), by, (1,), (0,))


def test_padding_that_makes_too_many_elements_is_rejected():
    x, by = param("x", (1, 1, 9), DataType.FLOAT), (Slide(1, 2**30),)
    at, _ = spans("there", PaddingMode.EXPLICIT_ROUND_DOWN, (9,), by, (2**31 - 1,), (0,))
    with pytest.raises(AnyrtError, match="AR111"):
        windows("there", x, by, at)


def test_attributes_hold_one_number_for_each_axis():
    assert slides("there", (3, 2), (2, 1), None) == (Slide(3, 2), Slide(2))
    assert per_axis("there", "pre_padding", None, 2, 0) == (0, 0)
    for value, code in (((1,), "AR108"), ((1, 0), "AR304"), ((1, 2**31), "AR304")):
        with pytest.raises(AnyrtError, match=code):
            slides("there", (3, 2), value)
