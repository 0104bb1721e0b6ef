"""Stores other than plain vectors: non-temporal ones, and ones that interleave a few innermost elements."""

import re
from dataclasses import replace

import pytest

from anyrt.backends.cpu.processors import Level
from anyrt.core.dims import Sym
from anyrt.core.dimvalues import evaluate
from anyrt.core.dtype import storage_bytes
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.kernelread import parse_kernels
from anyrt.ir.kerneltext import print_kernels
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import choose, host

SMALL = replace(REFERENCE, last_bytes=4)
LEVELS = [None, Level.AVX2.value, Level.SSE2.value]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.HALF, DataType.INT8])
@pytest.mark.parametrize("length", [5, 517, 1024, 4099])
def test_nontemporal_stores_write_the_same(dtype, length):
    x = b.param("x", (3, length), dtype)
    graph = Graph((("x", x),), (("y", b.slice_(x, (0, 1), (3, length - 1), (1, 1))),))
    lowered = native.lower(graph, {}, Sizes(), machine=SMALL)
    assert " nontemporal" in print_kernels(lowered.module.kernels)
    assert verify(lowered, host(), [{}]) == ()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.HALF, DataType.INT8])
@pytest.mark.parametrize("shape", [(64, 128), (67, 130)])
def test_tiles_are_written_past_the_caches_sooner_than_rows(dtype, shape):
    x = b.param("x", shape, dtype)
    outputs = (("across", b.transpose(x, (1, 0))), ("along", b.slice_(x, (0, 0), (9, shape[1]), (1, 1))))
    machine = replace(REFERENCE, last_bytes=2 * storage_bytes(dtype, shape[0] * shape[1]))
    lowered = native.lower(Graph((("x", x),), outputs), {}, Sizes(), machine=machine)
    text = print_kernels(lowered.module.kernels).splitlines()
    assert [line.split()[1] for line in text if line.endswith("nontemporal 1")] == ["out_across"]
    assert verify(lowered, host(), [{}]) == ()


@pytest.mark.parametrize(("turned", "least"), [(False, 100), (True, 80)])
def test_open_sizes_decide_while_running(turned, least):
    n = Sym("x.0", 1, 200)
    x = b.param("x", (n.dim, 64), DataType.FLOAT)
    y = b.transpose(x, (1, 0)) if turned else b.map_("neg", x)
    symbols = (Symbol(n, "x", 0),)
    graph, machine = Graph((("x", x),), (("y", y),), {}, symbols), replace(REFERENCE, last_bytes=40960)
    lowered = native.lower(graph, {}, Sizes({"x.0": 10}), machine=machine)
    sizes = [{"x.0": k} for k in (1, 50, least - 1, least, 163, 200)]
    out = next(buffer for buffer in lowered.module.places if buffer.name == "out_y")
    assert [evaluate(out.nontemporal, s) for s in sizes] == [0, 0, 0, 1, 1, 1]
    text = print_kernels(lowered.module.kernels)
    assert print_kernels(parse_kernels(text)) == text
    code = native.text(lowered, host())
    flags = re.findall(r"br i1 (%[\w.]+), label %past", code)
    assert flags
    assert all(f"{flag} = and i1 " in code for flag in flags)
    assert verify(lowered, host(), sizes) == ()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.UINT8])
def test_pixels_are_written_past_the_caches(channels, dtype, level):
    x = b.param("x", (2, channels, 40, 64), dtype)
    graph = Graph((("x", x),), (("y", b.transpose(x, (0, 2, 3, 1))),))
    lowered = native.lower(graph, {}, Sizes(), machine=SMALL)
    assert "!nontemporal" in native.text(lowered, choose(level))
    assert verify(lowered, choose(level), [{}]) == ()


def test_open_sizes_that_are_always_small_ask_nothing():
    n = Sym("x.0", 1, 200)
    x = b.param("x", (n.dim, 64), DataType.FLOAT)
    graph = Graph((("x", x),), (("y", b.map_("neg", x)),), {}, (Symbol(n, "x", 0),))
    assert " nontemporal" not in print_kernels(native.lower(graph, {}, Sizes({"x.0": 10})).module.kernels)


@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.HALF, DataType.UINT8])
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_a_few_channels_are_interleaved(dtype, channels):
    x = b.param("x", (2, channels, 7, 31), dtype)
    lowered = native.lower(Graph((("x", x),), (("y", b.transpose(x, (0, 2, 3, 1))),)), {}, Sizes())
    assert "for tile" in print_kernels(lowered.module.kernels)
    assert verify(lowered, host(), [{}]) == ()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.BF16, DataType.UINT8, DataType.INT64])
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_a_few_channels_are_taken_apart(level, dtype, channels):
    x = b.param("x", (2, 47, 67, channels), dtype)
    lowered = native.lower(Graph((("x", x),), (("y", b.transpose(x, (0, 3, 1, 2))),)), {}, Sizes())
    assert f"for serial i2 0.. < {channels}" in print_kernels(lowered.module.kernels)
    assert verify(lowered, choose(level), [{}]) == ()
