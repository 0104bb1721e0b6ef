"""Broadcast dimensions: the value of those that broadcast, one canonical form, and a bounded length."""

from itertools import permutations, product

import numpy as np
import pytest

from anyrt.core.dimbroadcast import broadcast, broadcast_all
from anyrt.core.dims import Sym, always_le, maximum, minimum
from anyrt.core.dimvalues import evaluate, substitute

A, B, C = (Sym(name, 0, 9).dim for name in "abc")
SOME = Sym("s", 1, 9).dim  # never 0


def many(count):
    return [Sym(f"x{k}").dim for k in range(count)]


@pytest.mark.parametrize("size", [0, 1, 2, 7])
@pytest.mark.parametrize("count", [2, 3, 6])
def test_the_size_is_that_of_numpy(size, count):
    actual = broadcast_all(many(count))
    for chosen in product((size, 1), repeat=count):
        (expected,) = np.broadcast_shapes(*((n,) for n in chosen))
        assert evaluate(actual, {f"x{k}": n for k, n in enumerate(chosen)}) == expected


def test_every_order_gives_one_form():
    results = {broadcast(broadcast(a, b), broadcast(b, c)) for a, b, c in permutations((A, B, C))}
    assert len(results) == 1


def test_a_size_that_was_met_before_changes_nothing():
    met = broadcast(broadcast(A, SOME), B)
    assert broadcast(met, SOME) == broadcast(A, met) == broadcast(met, met) == met


def test_sizes_that_become_one_size_are_that_size():
    met = broadcast_all([A, B, C, SOME])
    assert substitute(2 * met + 1, {next(iter(s.terms))[0][0]: B for s in (A, C, SOME)}) == 2 * B + 1


def test_a_size_that_cannot_be_0_is_not_compared_with_0():
    assert broadcast(SOME, Sym("t", 1, 4).dim) == maximum(SOME, Sym("t", 1, 4).dim)
    assert always_le(broadcast(A, B), 9)


def test_other_extrema_are_not_taken_for_broadcasts():
    other = maximum(A, B) * minimum(C, 1)
    assert evaluate(broadcast(other, other), {"a": 3, "b": 2, "c": 5}) == 3
    assert substitute(other, {next(iter(C.terms))[0][0]: B}) == maximum(A, B) * minimum(B, 1)


def test_twice_as_many_sizes_are_about_twice_as_long():
    once, twice = (len(repr(broadcast_all(many(count)))) for count in (20, 40))
    assert twice < 2.5 * once
