"""Products with weights of a softmax: which of them hide the values that masks exclude."""

import math

import numpy as np
import pytest

from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, walk
from anyrt.ir.interpret import interpret
from anyrt.passes.hide_values import hide_values
from anyrt.prims import build as b
from anyrt.prims.contract import Contract

F = DataType.FLOAT
SEEN = np.tri(5) > 0


def product(mask=None, turned=False, number=-math.inf):
    """softmax(q · kᵀ) · v of five tokens, or its transpose; `mask`: a function applied to the scores."""
    q, k, v = (b.param(n, (5, 4), F) for n in "qkv")
    scores = b.contract("mk,nk->mn", q, k)
    scores = scores if mask is None else mask(scores, number)
    powers = b.map_("exp", b.map_("sub", scores, b.reduce_("max", scores, (1,))))
    weights = b.map_("div", powers, b.reduce_("sum", powers, (1,)))
    y = b.contract("nk,mn->mk", v, weights) if turned else b.contract("mn,nk->mk", weights, v)
    return Graph((("q", q), ("k", k), ("v", v)), (("y", y),))


def select(scores, number):
    return b.map_("select", b.const(SEEN, DataType.BOOL), scores, b.scalar(number, scores))


def add(scores, number):
    return b.map_("add", scores, b.const(np.where(SEEN, 0.5, number), F))


def hides(graph):
    return [v.op.hides for v in walk(v for _, v in graph.outputs) if isinstance(v.op, Contract)]


@pytest.mark.parametrize(("mask", "number"), [(None, 0.0), (select, -30.0), (add, -30.0)])
def test_masks_that_exclude_nothing_hide_nothing(mask, number):
    graph = product(mask, number=number)
    assert hide_values(graph) is graph


def times(scores, number):
    unseen = b.map_("sub", b.scalar(1.0, scores), b.cast(b.const(SEEN, DataType.BOOL), F))
    return b.map_("add", scores, b.map_("mul", unseen, b.scalar(number, scores)))


@pytest.mark.parametrize("number", [-1e4, -1e9, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize("mask", [select, add, times])
def test_numbers_that_leave_no_weight_hide_values_as_infinity_does(mask, number):
    result, rng = hide_values(product(mask, number=number)), np.random.default_rng(0)
    feeds = {n: rng.standard_normal((5, 4)).astype(np.float32) for n in "qkv"}
    clean = interpret(result, feeds)["y"]
    feeds["v"][3:] = np.nan
    y = interpret(result, feeds)["y"]
    np.testing.assert_array_equal(y[:3], clean[:3])
    assert np.isnan(y[3:]).all()


@pytest.mark.parametrize("mask", [select, add])
@pytest.mark.parametrize("turned", [False, True])
def test_keys_and_values_that_are_excluded_reach_no_row(mask, turned):
    result, rng = hide_values(product(mask, turned)), np.random.default_rng(0)
    feeds = {n: rng.standard_normal((5, 4)).astype(np.float32) for n in "qkv"}
    clean = interpret(result, feeds)["y"]
    feeds["k"][3:], feeds["v"][3:] = np.nan, np.inf
    y = interpret(result, feeds)["y"]
    assert hides(result) == [False, True]
    np.testing.assert_array_equal(y[:3], clean[:3])
    assert np.isnan(y[3:]).all()


def test_masks_of_many_sums_are_looked_through_once():
    """Each of sixty sums adds a mask to itself: there are 2⁶⁰ paths through them."""

    def doubled(scores, number):
        mask = b.const(np.where(SEEN, 0.0, number), F)
        for _ in range(60):
            mask = b.map_("add", mask, mask)
        return b.map_("add", scores, mask)

    assert hides(hide_values(product(doubled))) == [False, True]
