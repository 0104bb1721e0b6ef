"""Facts about a value's elements, inferred from the graph."""

import numpy as np
import pytest

from anyrt.core.enums import DataType
from anyrt.passes.facts import has_no_sign, number, root_of
from anyrt.prims import build as b

F, H = DataType.FLOAT, DataType.HALF
X = b.param("x", (2, 3), F)
SQUARES = b.map_("square", X)


def held(*numbers: float) -> object:
    return b.const([numbers], F)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (held(2.5, 2.5, 2.5), 2.5),
        (held(2.5, 2.5, 2.0, 2.5), None),
        (b.transpose(b.expand(held(2.5), (4, 1)), (1, 0)), 2.5),
        (b.cast(held(0.1), H), float(np.float16(0.1))),
        (b.const(np.ones((0, 3)), F), None),
        (X, None),
    ],
    ids=["equal", "different", "moved", "rounded", "none", "unknown"],
)
def test_the_number_that_every_element_is(value, expected):
    assert number(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (X, False),
        (SQUARES, True),
        (b.map_("square", b.param("i", (2, 3), DataType.INT32)), False),
        (b.map_("sub", SQUARES, SQUARES), False),
        (b.map_("neg", SQUARES), False),
        (b.map_("sqrt", b.reshape(b.reduce_("sum", SQUARES, (1,)), (2,))), True),
        (b.reduce_("max", SQUARES, (1,)), False),
        (b.map_("add", SQUARES, held(0.0, 1.0, 2.0)), True),
        (b.map_("add", SQUARES, held(0.0, 1.0, -0.0)), False),
        (b.map_("div", SQUARES, b.reshape(b.cast(b.shape_of(X), F), (2, 1))), True),
        (b.map_("max", X, held(0.0)), False),
    ],
    ids=[
        *("input", "square", "integers", "difference", "negated", "root of a sum", "maximum of none"),
        *("constant", "negative constant", "divided by a size", "no minus zero"),
    ],
)
def test_values_that_are_never_below_zero(value, expected):
    assert has_no_sign(value) is expected


def test_a_long_chain_is_not_followed_to_its_end():
    value = SQUARES
    for _ in range(2000):
        value = b.map_("sqrt", value)
    assert not has_no_sign(value)


def test_the_root_behind_moves_casts_and_guards_against_zero():
    root = b.map_("sqrt", b.param("v", (2, 1), H))
    form = b.expand(b.cast(b.map_("max", root, b.scalar(1e-3, root)), F), (2, 3))
    assert root_of(form) == root
    assert root_of(b.map_("add", root, b.scalar(-1.0, root))) is None
