"""Dimensions whose expressions become too long after a few layers."""

import pytest

from anyrt.core import dims
from anyrt.core.dims import Sym
from anyrt.core.dimtext import parse_dim, print_dim
from anyrt.core.errors import NotSupportedError


def squared(n):
    x = Sym("n").dim + Sym("m").dim
    for _ in range(n):
        x = x * x
    return x


def nested(n):
    x = Sym("n").dim
    for k in range(n):
        x = dims.scaled(x, 0.75 + k / 512)
    return x


def doubled(n):
    """Every step reads the dimension twice, so its text doubles."""
    x = Sym("n").dim
    for _ in range(n):
        x = dims.scaled(x, 1.5) + dims.scaled(x, 1.25) * 3
    return x


@pytest.mark.parametrize(("grow", "fits"), [(squared, 6), (nested, 64), (doubled, 11)])
def test_a_size_too_long_to_write_down_is_rejected_where_it_is_made(grow, fits):
    assert parse_dim(print_dim(grow(fits)), {x: Sym(x) for x in "nm"}, "") == grow(fits)
    with pytest.raises(NotSupportedError, match="AR901"):
        grow(200)
