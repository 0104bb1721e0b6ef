"""Dimensions as text: exact round trips, and errors with positions for any other text."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyrt.core import dims
from anyrt.core.dims import Dim, Expr, Fn, Sym
from anyrt.core.dimtext import parse_dim, print_dim
from anyrt.core.dimvalues import substitute
from anyrt.core.errors import NotSupportedError, PlanError
from tests.messages import diagnostic

SYMBOLS = {s.name: s for s in (Sym("n"), Sym("x:0#1"), Sym("max"), Sym('a "b"\\'), Sym("größe", 1, 8))}
OPERATIONS = [dims.add, dims.mul, dims.minimum, dims.maximum, dims.floordiv, dims.mod, dims.tdiv, dims.equal]
SIZES = st.recursive(
    st.integers(-9, 99) | st.sampled_from([s.dim for s in SYMBOLS.values()]),
    lambda inner: (
        st.builds(lambda f, a, b: f(a, b), st.sampled_from(OPERATIONS), inner, inner)
        | st.builds(dims.scaled, inner, st.sampled_from([0.5, 1.7, 0.1]))
    ),
    max_leaves=8,
)


@given(SIZES)
def test_printed_text_parses_back(size: Dim):
    assert parse_dim(print_dim(size), SYMBOLS, "here") == size


def test_names_that_are_no_words_are_quoted():
    assert print_dim(Sym("x:0#1") * 3 + Sym("max")) == 'max + 3*"x:0#1"'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "n n",
        "(n)",
        "unknown",
        "min(n)",
        "min(n, 1, 2)",
        "scale(n, -1)",
        "scale(n, inf)",
        "1.5",
        '"n',
        "99999999999999999999",
        "9223372036854775807*9223372036854775807",
        "*".join(["n"] * 65),
        "min(n, " * 65 + "1" + ")" * 65,
        "n & 1",
        '"\\x"',
        "@0",
        "@0=n",
        "@-=max(n, 1)",
        "max(@0, @0=max(n, 1))",
    ],
)
def test_bad_text_is_rejected_with_its_place(text: str):
    with pytest.raises(PlanError, match=r"AR605.*output y, line 1"):
        parse_dim(text, SYMBOLS, "output y")


@given(st.text(alphabet='n"max(),*+-0123456789. einf', max_size=30))
def test_any_text_parses_or_is_rejected(text: str):
    with contextlib.suppress(PlanError):
        size = parse_dim(text, SYMBOLS, "x")
        assert parse_dim(print_dim(size), SYMBOLS, "x") == size


@pytest.mark.parametrize("text", [3, None, "1 + " * 20000 + "1"])
def test_invalid_or_too_long_text_is_rejected(text: object):
    with pytest.raises(PlanError, match=diagnostic("AR605", "output y", 65536)):
        parse_dim(text, SYMBOLS, "output y")


def doubled(levels: int) -> Dim:
    """A dimension in which each function occurs twice in the next one."""
    size: Dim = SYMBOLS["n"].dim
    for _ in range(levels):
        size = Expr((((Fn("max", (size, dims.add(size, 1))),), 1),))
    return size


def test_a_function_that_stands_in_several_places_is_written_once():
    text = print_dim(doubled(12))
    assert len(text) < 512
    assert parse_dim(text, SYMBOLS, "here") == doubled(12)
    assert print_dim(parse_dim(text, SYMBOLS, "here")) == text


def test_short_sizes_are_written_whole():
    assert print_dim(doubled(2)) == "max(max(n, 1 + n), 1 + max(n, 1 + n))"


def test_sizes_that_differ_deep_inside_have_keys_that_differ():
    a, b = (substitute(doubled(10), {SYMBOLS["n"]: Sym(name).dim}) for name in ("n", "m"))
    keys = [next(f.key for m, _ in x.terms for f in m) for x in (a, b)]
    assert keys[0] != keys[1]
    assert max(map(len, keys)) < 100


def test_a_few_characters_that_stand_for_millions_are_rejected():
    text = "@0=max(n, 1 + n)"
    for k in range(1, 30):
        text = f"@{k}=max({text}, 1 + @{k - 1})"
    with pytest.raises(PlanError, match=diagnostic("AR605", "output y", 1572853)):
        parse_dim(text, SYMBOLS, "output y")
    with pytest.raises(NotSupportedError, match=diagnostic("AR901", "sizes", 1572853, 1048576)):
        doubled(30)
