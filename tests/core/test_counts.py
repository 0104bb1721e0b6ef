"""Bounds of data-dependent dimensions."""

from anyrt.core.counts import count, highest
from anyrt.core.dims import Sym, floordiv, mul


def test_a_quotient_of_what_may_be_negative_has_the_bound_of_its_quotients():
    result = count("found", 9)
    windows = floordiv(result.dim + -1, 2)  # windows of size 3 with stride 2 and padding 1, minus one
    assert highest(windows) == 4
    assert highest(mul(windows, 48) + 48) == 5 * 48


def test_a_factor_that_may_be_negative_is_bounded_by_the_bounds_of_the_others():
    result, n = count("found", 9), Sym("n", 1, 8)
    assert highest(mul(floordiv(result.dim + -1, 2), n.dim)) == mul(n.dim, 4)
    assert highest(mul(result.dim + -1, result.dim)) == 81
