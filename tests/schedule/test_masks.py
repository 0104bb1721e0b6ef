"""Columns that masks hide from all rows of a tile: detected at run time, and skipped by its loops."""

import math
from dataclasses import replace

import numpy as np
import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, Symbol, walk
from anyrt.ir.kerneltext import print_kernels
from anyrt.passes import PASSES
from anyrt.prims import build as b
from anyrt.prims.const import Param
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import host

N = Sym("k.2", 0, 300)
SMALL = replace(REFERENCE, l2_bytes=1 << 15)  # so that a few rows count as many
F, BF16, HALF, BOOL = DataType.FLOAT, DataType.BF16, DataType.HALF, DataType.BOOL
ENDLESS = -math.inf


def lowered(hide, mask, rows=40, keys=100, dtype=F, least=None, cores=2):
    """softmax(hide(q · kᵀ, mask)) · v of three heads; `least`: a lower bound of the largest score."""
    q, k, v = (b.param(n, (1, 3, size, 16), dtype) for n, size in (("q", rows), ("k", keys), ("v", keys)))
    s = hide(b.contract("bhmd,bhnd->bhmn", q, k, F), mask)
    most = b.reduce_("max", s, (3,))
    most = most if least is None else b.map_("max", most, b.scalar(least, most))
    e = b.map_("exp", b.map_("sub", s, most))
    y = b.contract("bhmn,bhnd->bhmd", b.cast(b.map_("div", e, b.reduce_("sum", e, (3,))), dtype), v)
    inputs = {v.op.name: v for v in walk([y]) if isinstance(v.op, Param)}
    symbols = (Symbol(N, "k", 2),) if keys == N.dim else ()
    graph = Graph(tuple(inputs.items()), (("y", y),), {}, symbols)
    for step in PASSES:
        graph = step.run(graph)
    machine = replace(SMALL, cores=cores)
    return native.lower(graph, constant_offsets(graph), Sizes({N.name: 90}), machine=machine)


def shown(s, mask):
    return b.map_("select", mask, s, b.scalar(ENDLESS, s))


def hidden(s, mask):
    return b.map_("select", mask, b.scalar(ENDLESS, s), s)


def added(s, mask):
    return b.map_("add", s, b.cast(mask, F))


def between(first, behind, shape=(1, 1, 1, 100)):
    """A condition that holds for some columns."""
    at = np.arange(shape[-1])
    return np.broadcast_to((first <= at) & (at < behind), shape)


def text(built):
    return print_kernels([built.schedules[0].launches[0].kernel])


def findings(built, sizes=None):
    return [(m.kernel, m.finding) for m in verify(built, host(), [sizes or {}])]


RANGES = {"half": (0, 50), "end": (70, 100), "middle": (33, 64), "last": (99, 100), "most": (1, 100)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", RANGES)
def test_columns_outside_of_what_a_mask_shows_are_in_no_loop(name):
    lowering = lowered(shown, b.const(between(*RANGES[name]), BOOL), least=-3e38)
    assert "< tile.columns {" in text(lowering)
    assert findings(lowering) == []


@pytest.mark.parametrize("dtype", [F, HALF, BF16])
def test_infinity_that_is_added_hides_in_every_type(dtype):
    mask = b.const(np.where(between(20, 60), 0.5, ENDLESS), dtype)
    lowering = lowered(added, mask, dtype=dtype)
    assert "tile.first" in text(lowering)
    assert findings(lowering) == []


def test_rows_without_any_key_are_nan():
    """NaN, in rows next to others that see some keys, and in tiles that see none."""
    mask = np.array(between(20, 60, (1, 1, 40, 100)))
    mask[..., ::3, :] = False
    mask[..., 14:, :] = False
    assert findings(lowered(shown, b.const(mask, BOOL))) == []


def test_a_mask_may_select_hidden_elements():
    lowering = lowered(hidden, b.const(~between(64, 96), BOOL))
    assert "tile.first" in text(lowering)
    assert findings(lowering) == []


def test_each_head_has_columns_of_its_own():
    mask = np.concatenate([between(*x) for x in ((0, 10), (40, 90), (0, 0))], axis=1)
    for cores in (1, 8):
        assert findings(lowered(shown, b.const(mask, BOOL), rows=120, least=-3e38, cores=cores)) == []


def test_keys_of_an_open_number_are_looked_at_as_far_as_they_go():
    mask = b.map_(
        "lt", b.iota((1, 1, 1, N.dim), 3, DataType.INT32), b.param("mask", (1, 1, 1, 1), DataType.INT32)
    )
    lowering = lowered(shown, mask, keys=N.dim)
    assert "tile.columns" in text(lowering)
    assert [findings(lowering, {N.name: n}) for n in (0, 1, 31, 32, 33, 200)] == [[]] * 6


def test_rows_that_are_hidden_wholly_leave_one_block():
    mask = np.zeros((1, 1, 40, 1), bool)
    mask[..., 3, :] = True
    lowering = lowered(shown, b.const(mask, BOOL), least=-3e38)
    assert "tile.first" in text(lowering)
    assert findings(lowering) == []


def test_large_negative_numbers_hide_nothing_for_certain():
    lowering = lowered(
        lambda s, mask: b.map_("select", mask, s, b.scalar(-1e4, s)), b.param("mask", (1, 1, 40, 100), BOOL)
    )
    assert "tile.first" not in text(lowering)
    assert findings(lowering) == []


def test_from_each_end_blocks_are_looked_at_until_one_shows_something():
    lowering = lowered(shown, b.param("mask", (1, 1, 1, 96), BOOL), keys=96)
    assert text(lowering).count("store tile.any[0]") == 2
    assert "if eq(tile.first[0], " in text(lowering)
    assert "if eq(tile.behind[0], " in text(lowering)
    assert findings(lowering) == []
