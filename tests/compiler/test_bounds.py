"""Bounds on a kernel's results: tight for known numbers, unbounded otherwise."""

import numpy as np

from anyrt.compiler.bounds import Bounded, bounded, differing, exact
from anyrt.compiler.verify import reference
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import DataType
from anyrt.ir.graph import Value, apply
from anyrt.prims import build as b
from anyrt.prims.mended import Mended

F = DataType.FLOAT
X = b.param("x", (4,), F)


def bound(value: Value, *numbers: float) -> Bounded:
    return reference(value, {X: np.float32(numbers)}, {})


def differ(value: Value, numbers: list[float], got: list[float]) -> list[bool]:
    return differing(np.array(got, np.float32), bound(value, *numbers), value.dtype).tolist()


def test_moved_elements_must_agree_in_every_bit():
    assert differ(b.slice_(X, (3,), (4,), (-1,)), [1, 2, 3, 4], [4, 3, 2, 1.0000001]) == [False] * 3 + [True]


def test_a_rounded_result_may_differ_by_its_last_place():
    third = b.map_("div", X, b.scalar(3.0, X))
    near, far = np.float32(1 / 3), np.float32(1 / 3) * np.float32(1 + 4e-7)
    assert differ(third, [1] * 4, [near, np.nextafter(near, np.float32(1)), far, -near]) == [0, 0, 1, 1]


def test_cancellation_leaves_as_little_as_it_has():
    lost = b.map_("sub", b.map_("exp", X), b.scalar(float(np.exp(2.0)), X))
    assert differ(lost, [2] * 4, [0, 5e-7, 1e-3, -1e-3]) == [False, False, True, True]


def test_a_comparison_of_equals_that_were_computed_is_left_open():
    close = b.map_("lt", b.map_("mul", X, b.scalar(1 / 3, X)), b.scalar(1.0, X))
    result = differing(np.array([1, 0, 0, 1], bool), bound(close, 3, 3, 2, 4), DataType.BOOL)
    assert result.tolist() == [False, False, True, True]


def test_beyond_float32_anything_goes():
    assert differ(b.map_("exp", X), [89, 88, -200, 0], [np.inf, np.inf, 0, 1]) == [False, True, False, False]


def test_a_value_that_a_kernel_may_have_recomputed_is_one_of_two_numbers():
    """The first of two maps may overflow in a kernel; then the bound covers both sums, 2 and 200."""
    built, x, w = (
        b.param(n, s, DataType.FLOAT) for n, s in zip("mxw", ((2, 4), (4, 1), (1, 2)), strict=True)
    )
    mended = apply(Mended((0, 1), (1, 2), (2, 0)), built, x, w)
    error = np.array([[np.inf, np.inf, 0, 0], [1, 0, 1, np.inf]])
    args = (
        Bounded(np.float64([[2] * 4, [201] * 4]), error),
        exact(np.ones((4, 1)), F),
        exact(np.float32([[2, 200]]), F),
    )
    got = np.float32([[2, np.nan, 2, 3], [200, np.nan, 200, np.nan]])
    result = differing(got, bounded(mended, args, {}), F)
    assert result.tolist() == [[False, False, False, True], [False, True, False, False]]


def test_products_below_the_normal_range_are_rounded_to_its_steps():
    squares = b.contract("n,n->", X, X)  # each 8.3 steps of 2^-149
    step, got = 2.0**-149, np.array([31, 32, 33, 34, 35, 60])
    result = differing((got * step).astype(np.float32), bound(squares, *[step**0.5 * 8.3**0.5] * 4), X.dtype)
    assert result.tolist() == [False, False, False, False, False, True]


def test_products_of_bfloat16_below_the_normal_range_may_be_0():
    narrow = b.param("x", (2,), DataType.BF16)
    sums = b.contract("n,n->", narrow, narrow, DataType.FLOAT)
    for size, wrong in ((2.0**-64, False), (2.0**-60, True)):
        expected = reference(sums, {narrow: np.array([size, size])}, {})
        assert differing(np.float32(0), expected, DataType.FLOAT).tolist() == wrong


def test_factors_of_bfloat16_below_the_normal_range_may_be_0():
    narrow = b.param("x", (2,), DataType.BF16)
    sums = b.contract("n,n->", narrow, b.const([2.0**100, 1], DataType.BF16), DataType.FLOAT)
    for size, wrong in ((2.0**-127, False), (2.0**-125, True)):
        expected = reference(sums, {narrow: np.array([size, 0])}, {})
        assert differing(np.float32(0), expected, DataType.FLOAT).tolist() == wrong


def test_a_sine_of_an_operand_known_to_a_period_is_between_minus_1_and_1():
    turns = Bounded(np.float64([30.0]), np.float64([2 * np.pi]))
    expected = bounded(b.map_("sin", b.param("x", (1,), DataType.FLOAT)), (turns,), {})
    actual = [differing(np.float32([y]), expected, DataType.FLOAT).all() for y in (-1, 0, 1, 9)]
    assert actual == [False, False, False, True]


def test_nan_must_be_nan():
    assert differ(b.map_("sqrt", X), [-1, -1, 4, 4], [np.nan, 0, 2, np.nan]) == [False, True, False, True]


def test_a_quotient_by_a_possible_0_may_be_nan():
    small = Bounded(np.float64([1e-45, 1.0]), np.float64([1e-45, 1e-7]))
    expected = bounded(b.map_("div", *[b.param("x", (2,), DataType.FLOAT)] * 2), (small, small), {})
    assert differing(np.float32([np.nan, np.nan]), expected, DataType.FLOAT).tolist() == [False, True]


def test_a_quotient_by_a_possible_0_is_any_number():
    y = b.param("y", (2,), DataType.FLOAT)
    small = Bounded(np.float64([7e-83, 1.0]), np.float64([1e-44, 1e-44]))
    quotients = [(b.map_(fn, y, y), (small, small)) for fn in ("div", "mod", "floordiv")]
    for built, args in (*quotients, (b.map_("recip", y), (small,))):
        expected = bounded(built, args, {})
        assert differing(np.float32([np.nan, 2]), expected, DataType.FLOAT).tolist() == [False, True]


def test_a_power_of_a_negative_base_may_be_nan_where_the_exponent_may_be_whole():
    bases, exponents = np.float64([-2, -2, 2]), Bounded(np.float64([3, 3, 3]), np.float64([1e-7, 0, 1e-7]))
    xs = (b.param("x", (3,), DataType.FLOAT), b.param("y", (3,), DataType.FLOAT))
    expected = bounded(b.map_("pow", *xs), (Bounded(bases, np.float64(0)), exponents), {})
    assert differing(np.float32([np.nan] * 3), expected, DataType.FLOAT).tolist() == [False, True, True]


def test_a_power_of_an_unbounded_operand_is_unbounded():
    any_number = Bounded(np.float64([np.nan]), np.float64([np.inf]))
    x = b.param("x", (1,), DataType.FLOAT)
    expected = bounded(b.map_("pow", x, x), (any_number, any_number), {})
    assert differing(np.float32([1.0]), expected, DataType.FLOAT).tolist() == [False]


def test_stored_arrays_are_exact():
    assert exact(np.float16([1.5]), DataType.HALF).exact


def test_the_ends_of_a_range_do_not_wrap():
    low = Bounded(np.int8([-8, 7]), np.array([2.0, 2.0]))
    result = differing(np.array([-8, 7]).astype(numpy_dtype(DataType.INT4)), low, DataType.INT4)
    assert result.tolist() == [False, False]


def test_a_remainder_by_a_rounded_divisor_is_any_below_it_where_the_quotient_is_huge():
    left = b.map_("mod", b.scalar(0.5, X), b.map_("mul", X, X))
    small = float(np.float32(1e-4))  # the quotient is 5e7
    assert differ(left, [small] * 4, [0.0, 9e-9, 0.5e-8, 3e-8]) == [False, False, False, True]
    assert differ(left, [0.3] * 4, [0.05, 0.05, 0.06, 0.08]) == [False, False, True, True]


def test_a_remainder_of_many_periods_is_one_number():
    left, by = b.map_("mod", b.scalar(1.0, X), X), np.float32(4.1e-16)
    rest = np.mod(1.0, np.float64(by))
    assert differ(left, [by] * 4, [rest, 1.1 * rest, rest - by, 0.1]) == [False, True, True, True]


def test_nan_that_a_type_without_it_may_have_held_is_left_open_further_on():
    four, feeds = b.cast(b.map_("log", X), DataType.FP4), {X: np.float32([-1, 1, 1, 1])}
    assert np.isinf(reference(four, feeds, {}, {DataType.FP4}).error[0])
    again = reference(b.cast(b.identity(four), DataType.FLOAT), feeds, {}, {DataType.FP4})
    assert np.isinf(again.error).tolist() == [True, False, False, False]


def test_a_number_that_a_narrow_type_may_have_rounded_to_0_is_true_or_false():
    tiny = b.cast(b.map_("mul", X, X), DataType.FP8)
    feeds = {X: np.float32([1e-3, 1, 0.5, 2])}
    for test in (b.cast(tiny, DataType.BOOL), b.map_("ne", tiny, b.scalar(0.0, tiny))):
        assert reference(test, feeds, {}, {DataType.FP8}).error.tolist() == [1, 0, 0, 0]


def test_comparisons_with_nan_that_a_type_without_it_may_have_held_are_left_open():
    four, feeds = b.cast(b.map_("log", X), DataType.FP4), {X: np.float32([-1, 1, 1, 1])}
    for fn in ("lt", "gt", "eq", "ne"):
        test = b.map_(fn, b.scalar(1.0, four), four)
        assert reference(test, feeds, {}, {DataType.FP4}).error[0] == 1


def test_an_uncertain_selection_may_equal_its_operand():
    """The remainder of 75, or of 80 if fp8 rounds it first, is −0 or −1; for 0 the other value is
    selected."""
    narrow = b.param("x", (2,), DataType.UINT64)
    code = b.cast(narrow, DataType.FP8E5M2FNUZ)
    rest = b.map_("mod", code, b.scalar(-1.5, code))
    chosen = b.map_("select", b.cast(rest, DataType.BOOL), rest, b.scalar(0.0, rest))
    expected = reference(chosen, {narrow: np.array([75, 75], np.uint64)}, {})
    got = np.array([-1, -8], numpy_dtype(chosen.dtype))
    assert differing(got, expected, chosen.dtype).tolist() == [False, True]


def test_two_open_bools_may_both_be_the_other_one():
    third = b.map_("mul", X, b.scalar(1 / 3, X))
    sides = [b.map_("lt", third, b.scalar(1.0, X)), b.map_("le", third, b.scalar(1.0 - 1e-8, X))]
    result = differing(np.ones(4, bool), bound(b.map_("and", *sides), 3, 3, 2, 4), DataType.BOOL)
    assert result.tolist() == [False, False, False, True]
