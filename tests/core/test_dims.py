"""The algebra of dimensions, compared with integer arithmetic over all values of small symbols."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrt.core import dims, sizes
from anyrt.core.dims import Dim, Expr, Sym, add, always_le, floordiv, maximum, minimum, mod, total
from anyrt.core.dimvalues import evaluate, substitute
from anyrt.core.requirement import Relation, Requirement
from tests.sampling import tries

N, M = Sym("n", 1, 4), Sym("m", 0, 3)
ROW, J, K = Sym("i", extent=N.dim), Sym("j", extent=4), Sym("k", extent=M * 2 + 1)


@dataclass(frozen=True)
class Term:
    """An expression in two forms: simplified, and as a function that computes it (None: a divisor is 0)."""

    dim: Dim
    value: Callable[[dict[str, int]], int | None]


def leaf(sym: Sym) -> Term:
    return Term(sym.dim, lambda at: at[sym.name])


def lifted(
    make: Callable[[Dim, Dim], Dim], compute: Callable[[int, int], int | None]
) -> Callable[[Term, Term], Term]:
    def value(a: Term, b: Term, at: dict[str, int]) -> int | None:
        x, y = a.value(at), b.value(at)
        return None if x is None or y is None else compute(x, y)

    return lambda a, b: Term(make(a.dim, b.dim), lambda at: value(a, b, at))


def truncated(a: int, b: int) -> int | None:
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPERATIONS = [
    lifted(dims.add, lambda a, b: a + b),
    lifted(lambda a, b: dims.add(a, dims.mul(b, -1)), lambda a, b: a - b),
    lifted(dims.mul, lambda a, b: a * b),
    lifted(minimum, min),
    lifted(maximum, max),
    lifted(dims.equal, lambda a, b: int(a == b)),
    lifted(floordiv, lambda a, b: a // b if b > 0 else None),
    lifted(mod, lambda a, b: a % b if b > 0 else None),
    lifted(dims.ceildiv, lambda a, b: -(-a // b) if b > 0 else None),
    lifted(dims.tdiv, truncated),
]
LEAVES = st.one_of(
    st.integers(-6, 12).map(lambda c: Term(c, lambda at: c)),
    st.sampled_from([leaf(s) for s in (N, M, ROW, J, K)]),
)
TERMS = st.recursive(
    LEAVES,
    lambda inner: st.builds(lambda f, a, b: f(a, b), st.sampled_from(OPERATIONS), inner, inner),
    max_leaves=10,
)


def environments() -> Iterator[dict[str, int]]:
    for n, m in itertools.product(range(1, 5), range(4)):
        for i, j, k in itertools.product(range(n), range(4), range(2 * m + 1)):
            yield {"n": n, "m": m, "i": i, "j": j, "k": k}


ALL = list(environments())


@settings(max_examples=tries(100))
@given(TERMS)
def test_simplified_expressions_keep_their_value(term: Term):
    for at in ALL[:: 1 if isinstance(term.dim, Expr) else 50]:
        expected = term.value(at)
        if expected is not None:
            assert evaluate(term.dim, at) == expected, (term.dim, at)


@settings(max_examples=tries(75))
@given(TERMS)
def test_bounds_hold_for_every_value(term: Term):
    low, high = dims.bounds(term.dim)
    values = [v for at in ALL if (v := term.value(at)) is not None]
    assert all(low <= v <= high for v in values), (term.dim, low, high, min(values), max(values))


@settings(max_examples=tries(75))
@given(TERMS, TERMS)
def test_always_le_is_never_wrong(a: Term, b: Term):
    if dims.always_le(a.dim, b.dim):
        pairs = [(a.value(at), b.value(at)) for at in ALL]
        assert all(x <= y for x, y in pairs if x is not None and y is not None), (a.dim, b.dim)


def test_quotients_and_extrema_are_compared_by_what_they_are_made_of():
    n, m = Sym("n").dim, Sym("m").dim
    i = Sym("i", extent=(n - 1) // 2 + 1).dim  # windows of one element, stride two
    assert dims.always_le(2 * i + 1, n)
    assert dims.always_le(n - 2, 3 * (n // 3))
    assert not dims.always_le(n - 1, 3 * (n // 3))
    assert dims.always_le(dims.minimum(m, n) - m, 0)
    assert dims.always_le(dims.maximum(m, n), m + n)
    assert not dims.always_le(dims.maximum(m, n), m)


@settings(max_examples=tries(75))
@given(TERMS, st.sampled_from([N, M, ROW, J, K]))
def test_linear_takes_apart_what_adds_up_again(term: Term, sym: Sym):
    parts = dims.linear(term.dim, sym)
    if parts is not None:
        assert not dims.depends(parts[0], sym)
        assert not dims.depends(parts[1], sym)
        assert dims.add(dims.mul(parts[0], sym.dim), parts[1]) == term.dim


@settings(max_examples=tries(50))
@given(TERMS, TERMS)
def test_quotient_and_remainder_make_the_dividend(a: Term, b: Term):
    q, r = dims.divmod_dim(a.dim, b.dim)
    for at in ALL[::7]:
        x, y = a.value(at), b.value(at)
        if x is not None and y is not None and y > 0:
            assert evaluate(q, at) * y + evaluate(r, at) == x
            assert 0 <= evaluate(r, at) < y


@settings(max_examples=tries(50))
@given(TERMS, TERMS, TERMS)
def test_sums_and_products_have_one_form(a: Term, b: Term, c: Term):
    left = dims.mul(dims.add(a.dim, b.dim), c.dim)
    right = dims.add(dims.mul(a.dim, c.dim), dims.mul(b.dim, c.dim))
    assert all(evaluate(left, at) == evaluate(right, at) for at in ALL[::11])
    assert dims.add(a.dim, b.dim) == dims.add(b.dim, a.dim)
    assert dims.mul(a.dim, b.dim) == dims.mul(b.dim, a.dim)


@settings(max_examples=tries(50))
@given(TERMS, TERMS)
def test_cancelled_fractions_have_the_same_quotient(a: Term, b: Term):
    num, den = sizes.cancel(a.dim, b.dim)
    for at in ALL[::7]:
        x, y = a.value(at), b.value(at)
        if x is not None and y is not None and y > 0:
            assert evaluate(num, at) * y == evaluate(den, at) * x
            assert evaluate(den, at) > 0


@settings(max_examples=tries(25))
@given(TERMS, TERMS)
def test_substituting_a_symbol_is_evaluating_it_first(term: Term, other: Term):
    replaced = substitute(term.dim, {M: minimum(maximum(other.dim, 0), 3)})
    for at in ALL[::13]:
        inner = other.value(at)
        if inner is None:
            continue
        outer = {**at, "m": min(max(inner, 0), 3)}
        if outer["k"] <= 2 * outer["m"] and term.value(outer) is not None:
            assert evaluate(replaced, at) == term.value(outer)


def test_a_polynomial_has_one_form():
    n, c = Sym("n"), Sym("c")
    assert (n + 2) * c - 2 * c == c * n
    assert n - n.dim == 0
    assert repr(n * n + 3 * c - 1) == "-1 + 3*c + n*n"


def test_division_by_a_loop_range_vanishes():
    i, j = Sym("i", extent=Sym("n")), Sym("j", extent=4)
    assert (i * 4 + j) // 4 == i.dim
    assert (i * 4 + j) % 4 == j.dim


def test_symbolic_factors_cancel_in_divisions():
    h, o = Sym("h", 1), Sym("o", extent=Sym("h", 1) * 2)
    assert floordiv(o * h, h * 2) == floordiv(o.dim, 2)
    assert mod(o * h, h * 2) == h * mod(o.dim, 2)
    assert floordiv(2 * o * h - h, 4 * h) == floordiv(2 * o - 1, 4)


def test_terms_smaller_than_a_factor_do_not_affect_a_division():
    h, w = Sym("h", 1), Sym("w", 1)
    row, column, channel = Sym("r", extent=h.dim), Sym("c", extent=w.dim), Sym("k", extent=32)
    quotient, rest = dims.divmod_dim(column + row * w + channel * h * w, 4 * h * w)
    assert quotient == channel // 4
    assert rest == column + row * w + (channel % 4) * h * w
    wide = Sym("r", extent=16 * h) * w + column
    assert dims.divmod_dim(wide + 16 * channel * h * w, 64 * h * w)[0] == channel // 4


def test_the_smaller_one_of_a_size_and_a_number_is_the_size_where_it_is_less():
    s = Sym("s").dim
    assert dims.equal(minimum(s, 512), 1) == dims.equal(s, 1)
    assert sizes.choose(dims.equal(s, 1), minimum(s, 512), s) == s
    assert sizes.choose(dims.equal(s, 1), 7, s) != s


def test_factors_that_may_be_negative_do_not_cancel():
    s, n = Sym("s", -3, -1), Sym("n", 1)
    num, den = sizes.cancel(n * s, s * -2)
    assert evaluate(den, {"s": -1, "n": 5}) > 0
    assert evaluate(floordiv(n * s, s * -2), {"s": -1, "n": 5}) == -5 // 2
    assert (num, den) == (n * s, s * -2)


def test_a_constant_moves_out_of_a_division_that_ranges_decide():
    s, j = Sym("s", 3, 6), Sym("j", extent=3)
    assert dims.divmod_dim(s + 1, 4) == (1, s - 3)
    assert dims.divmod_dim(j - 3, 4) == (-1, j + 1)


def test_a_divisor_of_many_terms_divides_its_multiples():
    n, m = Sym("n", 1), Sym("m", 1)
    assert floordiv((n + m) * (n + 3), n + m) == n + 3


def test_factors_that_all_terms_share_are_cancelled():
    n, o = Sym("n"), Sym("o")
    assert sizes.cancel(2 * o * n - n, 4 * n) == (2 * o - 1, 4)


def test_division_by_zero_gives_zero():
    n = Sym("n")
    assert dims.divmod_dim(n.dim, 0) == (0, 0)
    assert dims.divmod_dim(7, 0) == (0, 0)
    assert dims.tdiv(n.dim, 0) == 0


def test_a_reshape_undone_leaves_no_division():
    x = Sym("x", extent=60)
    assert (x // 7) * 7 + x % 7 == x.dim


@pytest.mark.parametrize(
    ("size", "factor", "expected"), [(10, 0.7, 7), (7, 2.0, 14), (5, 0.5, 2), (3, 1 / 3, 1)]
)
def test_scaled_sizes_are_floors_of_float32_products(size: int, factor: float, expected: int):
    n = Sym("n")
    assert dims.scaled(size, factor) == expected
    assert evaluate(dims.scaled(n.dim, factor), {"n": size}) == expected


def test_products_of_sizes_are_never_negative_however_they_are_spelt():
    h, w = (1 + (Sym(name, 0).dim - 1) // 2 for name in "hw")
    assert dims.bounds(4 * h * w + 2 * h + 1)[0] == 1
    assert dims.bounds(h * h * w)[0] == 0 == dims.equal(-1, h * w)
    assert dims.bounds(h * w - h)[0] < 0
    assert dims.bounds(1 + h - w)[0] < 0


def test_bounds_of_scaled_sizes_follow_float32():
    top = (1 << 31) - 1
    low, high = dims.bounds(dims.scaled(Sym("n", 33554435, top).dim, 0.7))
    assert (low, high) == (dims.scaled(33554435, 0.7), dims.scaled(top, 0.7))


def test_whole_scales_are_exact_for_numbers_and_symbols():
    n = Sym("n")
    assert dims.scaled(16777217, 2.0) == evaluate(dims.scaled(n.dim, 2.0), {"n": 16777217}) == 33554434


def test_evaluating_names_the_missing_symbol():
    with pytest.raises(KeyError, match="n"):
        evaluate(Sym("n") + 1, {})


def test_as_symbol_recognises_a_lone_symbol():
    n = Sym("n")
    assert dims.as_symbol(n.dim) == n
    assert [dims.as_symbol(x) for x in (n + 1, 2 * n, n * n, 3)] == [None] * 4


@pytest.mark.parametrize(
    ("relation", "meets", "breaks"),
    [(Relation.EQ, (3, 3), (3, 4)), (Relation.LE, (3, 4), (4, 3)), (Relation.BROADCAST, (1, 4), (2, 4))],
)
def test_requirements_hold_or_not(relation: Relation, meets: tuple[int, int], breaks: tuple[int, int]):
    a, b = Sym("a"), Sym("b")
    asked = Requirement(a.dim, relation, b.dim, "AR103", "layer", "do")
    assert asked.holds(dict(zip("ab", meets, strict=True)))
    assert not asked.holds(dict(zip("ab", breaks, strict=True)))


def test_an_extremum_of_many_sizes_is_as_deep_as_the_logarithm_of_their_number():
    sizes = [Sym(f"n{k}", 1, 9).dim for k in range(80)]
    most = reduce(maximum, sizes)
    assert evaluate(most, {f"n{k}": k % 7 + 1 for k in range(80)}) == 7
    assert evaluate(reduce(minimum, sizes), {f"n{k}": 9 - k % 7 for k in range(80)}) == 3
    ((monomial, _),) = most.terms
    assert monomial[0].depth <= 9


def test_a_sum_of_many_terms_is_that_of_all():
    sizes = [Sym(f"n{k % 3}", 1, 9).dim for k in range(9)]
    assert total(sizes) == reduce(add, sizes)
    assert total([]) == 0


def test_a_sum_of_many_minima_is_compared_in_no_time():
    pairs = [(Sym(f"x{k}", 0, 9), Sym(f"y{k}", 0, 9)) for k in range(40)]
    whole = reduce(add, (minimum(x.dim, y.dim) for x, y in pairs))
    assert not always_le(whole, 200)
    assert always_le(whole, 360)
