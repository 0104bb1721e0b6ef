"""While a row is folded for the second time, a later one is prefetched."""

import re
from dataclasses import replace

import pytest

from anyrt.backends.cpu.processors import Level
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.kernelread import parse_kernels
from anyrt.ir.kerneltext import print_kernels
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import choose

N = Sym("x.0", 1, 400)


def squares_around_mean(x):
    centred = b.map_(
        "sub", x, b.map_("mul", b.reduce_("sum", x, [1]), b.scalar(0.125, b.reduce_("sum", x, [1])))
    )
    return centred, b.reduce_("sum", b.map_("square", centred), [1])


def normalised(x):
    centred, total = squares_around_mean(x)
    return b.map_("div", centred, total)


def folded_once(x):
    return b.map_("sub", x, b.reduce_("sum", x, [1]))


def lowered(make, least=1, shape=(130, 600), dtype=DataType.FLOAT):
    """The kernels for a machine whose caches near a core hold less than `least` bytes."""
    x = b.param("x", shape, dtype)
    symbols = (Symbol(N, "x", 0),) if N.dim in shape else ()
    graph, machine = Graph((("x", x),), (("y", make(x)),), {}, symbols), replace(REFERENCE, l2_bytes=least)
    return native.lower(graph, {}, Sizes({N.name: 200}), machine=machine)


def fetches(lowering):
    return re.findall("fetch (.*)", print_kernels(lowering.module.kernels))


def test_the_second_fold_asks_for_the_next_two_rows():
    lowering = lowered(normalised, 4 * 130 * 600)
    assert [re.sub(r"([ir])\d+", r"\1", x) for x in fetches(lowering)] == ["in_x[1200 + 600*i + r]"] * 2
    assert len(set(fetches(lowering))) == 2
    assert "call void @llvm.prefetch" in native.text(lowering, choose(None))
    text = print_kernels(lowering.module.kernels)
    assert print_kernels(parse_kernels(text)) == text


@pytest.mark.parametrize(
    ("make", "least"), [(normalised, 4 * 130 * 600 + 1), (folded_once, 1)], ids=["small", "it stores"]
)
def test_others_do_not_ask(make, least):
    assert fetches(lowered(make, least)) == []


def powers(x):
    risen = b.map_("exp", b.map_("sub", x, b.reduce_("max", x, [1])))
    return b.map_("div", risen, b.reduce_("sum", risen, [1]))


def test_a_loop_that_keeps_its_row_in_scratch_asks_for_later_ones():
    (result,) = fetches(lowered(powers, 2 * 4 * 130 * 600))
    assert re.sub(r"([ir])\d+", r"\1", result) == "in_x[1200 + 600*i + r]"


def test_a_long_row_asks_for_the_next_one_block_by_block():
    (result,) = fetches(lowered(powers, 1 << 20, (16, 50000)))
    assert re.sub(r"([bir])\d+", r"\1", result) == "in_x[50000 + 32768*b + 50000*i + i]"


def test_rows_that_fit_into_the_caches_are_not_prefetched():
    assert fetches(lowered(powers, 2 * 4 * 130 * 600 + 1)) == []


def test_rows_of_an_item_ask_for_those_of_the_next():
    (result,) = fetches(lowered(powers, shape=(1300, 64)))
    assert re.sub(r"([ir])\d+", r"\1", result) == "in_x[512 + 64*i + r]"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("level", [None, Level.AVX2.value, Level.SSE2.value])
@pytest.mark.parametrize("shape", [(130, 600), (131, 777), (N.dim, 600)])
def test_prefetches_do_not_change_the_results(shape, level):
    lowering = lowered(normalised, shape=shape)
    assert fetches(lowering)
    assert (
        verify(lowering, choose(level), [{N.name: n} for n in ((1, 2, 77) if N.dim in shape else (1,))]) == ()
    )
