"""Codes that are dequantized, moved or compared, and quantized to the same codes again."""

import numpy as np
import pytest

from anyrt.compiler import native
from anyrt.compiler.trial import constant_offsets
from anyrt.core.dtype import is_float
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, walk
from anyrt.ir.interpret import interpret
from anyrt.passes import PASSES
from anyrt.passes.keep_codes import keep_codes
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests.native import verify
from tests.targets import host

F, I8 = DataType.FLOAT, DataType.INT8
SHAPE = (1, 16, 4, 4)  # every code once


def dequantised(q, scale, zero):
    steps = b.cast(q, F)
    return b.map_("mul", b.map_("sub", steps, b.scalar(zero, steps)), b.scalar(scale, steps))


def quantised(x, scale, zero):
    steps = b.map_("round", b.map_("div", x, b.scalar(scale, x)))
    steps = b.map_("add", steps, b.scalar(zero, steps))
    least, most = b.scalar(-128, steps), b.scalar(127, steps)
    kept = b.map_("select", b.map_("lt", least, steps), steps, least)
    return b.cast(b.map_("select", b.map_("lt", kept, most), kept, most), I8)


def pooled(x, border):
    """The maximum of each element and the next one."""
    y = b.pad(x, (0, 0, 0, 0), (0, 0, 0, 1), border)
    at = [b.slice_(y, (0, 0, 0, k), SHAPE, (1, 1, 1, 1)) for k in (0, 1)]
    return b.map_("max", *at)


def turned(x, border):
    return b.reshape(b.transpose(b.pad(x, (0, 0, 1, 0), (0, 0, 0, 0), border), (0, 2, 1, 3)), (5, 64))


def graph_of(moves, border, scales=(0.05, 0.05), zeros=(-7, -7)):
    q = b.param("q", SHAPE, I8)
    y = quantised(moves(dequantised(q, scales[0], zeros[0]), border), scales[1], zeros[1])
    return Graph((("q", q),), (("y", y),))


def numbers(graph):
    return [v for v in walk(v for _, v in graph.outputs) if is_float(v.dtype)]


CASES = [(pooled, -np.inf), (pooled, 0.0), (turned, 0.0), (turned, 0.05 * 30), (lambda x, border: x, 0.0)]


@pytest.mark.parametrize(("moves", "border"), CASES)
def test_codes_stay_codes_between_equal_scales(moves, border):
    graph = graph_of(moves, border)
    kept = keep_codes(graph)
    assert numbers(graph)
    assert not numbers(kept)
    codes = np.random.default_rng(0).permutation(np.arange(-128, 128)).astype(np.int8).reshape(SHAPE)
    expected = interpret(graph, {"q": codes})["y"]
    np.testing.assert_array_equal(interpret(kept, {"q": codes})["y"], expected)
    lowered = native.lower(kept, constant_offsets(kept), Sizes({}), strategies=host().strategies)
    assert verify(lowered, host(), [{}]) == ()


@pytest.mark.parametrize(
    ("moves", "border", "scales", "zeros"),
    [
        (pooled, -np.inf, (0.05, 0.06), (-7, -7)),
        (pooled, -np.inf, (0.05, 0.05), (-7, 0)),
        (pooled, np.inf, (0.05, 0.05), (-7, -7)),
        (pooled, 0.02, (0.05, 0.05), (-7, -7)),  # lies between two codes
        (pooled, 0.0, (-0.05, -0.05), (-7, -7)),  # the largest number is the least code
        (pooled, 0.0, (1e-45, 1e-45), (-7, -7)),
    ],
)
def test_others_are_made_numbers(moves, border, scales, zeros):
    graph = graph_of(moves, border, scales, zeros)
    kept = keep_codes(graph)
    codes = np.arange(-128, 128).astype(np.int8).reshape(SHAPE)
    np.testing.assert_array_equal(interpret(kept, {"q": codes})["y"], interpret(graph, {"q": codes})["y"])
    assert kept is graph or scales[0] == 1e-45


def test_it_is_done_before_products_ask_for_codes():
    names = [p.name for p in PASSES]
    assert names.index("keep codes") < names.index("contract codes")
