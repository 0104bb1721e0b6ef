"""The strategy of contractions: its tiles for each product, and the agreement of its code with the
interpreter."""

import re
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from anyrt.backends.cpu.emit import emit
from anyrt.backends.cpu.strategies import STRATEGIES, contraction
from anyrt.backends.cpu.strategies.contraction import CONTRACTION
from anyrt.backends.cpu.strategies.tile_choice import best_shape
from anyrt.backends.cpu.strategies.tile_choice import choose as choose_tile
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, Symbol, apply
from anyrt.ir.kerneltext import print_kernels
from anyrt.loops.nest import Names
from anyrt.loops.register_tile import Pack, tiled
from anyrt.passes import PASSES
from anyrt.prims import build as b
from anyrt.prims.pad import Pad
from anyrt.prims.view import Axis
from anyrt.schedule.cost import Sizes
from anyrt.schedule.step import names_of
from tests import native
from tests.native import load, verify
from tests.targets import choose, host

F, BF16, I8, I32 = DataType.FLOAT, DataType.BF16, DataType.INT8, DataType.INT32
HALF = DataType.HALF
N = Sym("x.0", 0, 200)
TILES = replace(REFERENCE, has_tiles=True)


def product(equation, left, right, dtype=F, sums=F, constant=False):
    x, named = b.param("x", left, dtype), {"x": left, "w": right}
    symbols = tuple(Symbol(N, k, s.index(N.dim)) for k, s in named.items() if N.dim in s)[:1]
    data = np.random.default_rng(0).integers(-4, 5, right) if constant else None
    w = b.param("w", right, dtype) if data is None else b.const(data, dtype)
    inputs = (("x", x),) if constant else (("x", x), ("w", w))
    graph = Graph(inputs, (("y", b.contract(equation, x, w, sums)),), {}, symbols)
    for step in PASSES:
        graph = step.run(graph)
    return graph


def convolution(channels, size, outputs, dtype=F, sums=F, depthwise=False, stride=1):
    x = b.param("x", (1, channels, size, size), dtype)
    padded = apply(Pad((0, 0, 1, 1), (0, 0, 1, 1), 0.0), x)
    out = (size - 1) // stride + 1
    axes = [Axis(0, 0), Axis(0, 1), Axis(0, 2, stride, ((4, 1),)), Axis(0, 3, stride, ((5, 1),))]
    windows = b.windows(padded, axes, (1, channels, out, out, 3, 3))
    shape = (channels, 3, 3) if depthwise else (outputs, channels, 3, 3)
    w = b.const(np.random.default_rng(0).integers(-4, 5, shape), dtype)
    y = b.contract("nchwij,cij->nchw" if depthwise else "nchwij,ocij->nohw", windows, w, sums)
    graph = Graph((("x", x),), (("y", y),))
    for step in PASSES:
        graph = step.run(graph)
    return graph


def lowered(graph, machine=REFERENCE, rows=50):
    return native.lower(graph, constant_offsets(graph), Sizes({N.name: rows}), machine=machine)


def text(graph, machine=REFERENCE):
    return print_kernels(lowered(graph, machine).module.kernels[-1:])


@pytest.mark.parametrize(
    ("rows", "lanes", "shape"),
    [(196, 64, (14, 2)), (7, 256, (14, 2)), (3136, 64, (14, 2)), (1, 512, (2, 8)), (64, 16, (30, 1))],
)
def test_tiles_suit_the_sizes(rows, lanes, shape):
    result = best_shape(rows, lanes, 16, REFERENCE)
    assert (result.m, result.registers) == shape


CASES = {
    "odd": product("mk,kn->mn", (37, 19), (19, 45)),
    "turned": product("mk,nk->mn", (70, 33), (50, 33)),
    "batches": product("bmk,bnk->bmn", (3, 20, 8), (3, 21, 8)),
    "collide": product("mk,kn->mn", (64, 1024), (1024, 48)),
    "panels": product("mk,kn->mn", (30, 24), (24, 70), constant=True),
    "open rows": product("mk,kn->mn", (N.dim, 24), (24, 70), constant=True),
    "open sum": product("km,kn->mn", (N.dim, 24), (N.dim, 40)),
    "bytes": product("mk,kn->mn", (40, 36), (36, 50), I8, I32, constant=True),
    "halves": product("mk,nk->mn", (40, 36), (50, 36), BF16),
    "few rows of bytes": product("mk,kn->mn", (2, 128), (128, 80), I8, I32, constant=True),
    "few rows of halves": product("mk,kn->mn", (1, 64), (64, 64), BF16, constant=True),
    "whole tiles of bytes": product("mk,kn->mn", (56, 128), (128, 70), I8, I32, constant=True),
    "few lanes of bytes": product("mk,kn->mn", (32, 64), (64, 10), I8, I32, constant=True),
    "open rows of bytes": product("mk,kn->mn", (N.dim, 64), (64, 70), I8, I32, constant=True),
    "tiles after tiles of bytes": product("mk,kn->mn", (600, 128), (128, 70), I8, I32, constant=True),
    "tiles after tiles of float16": product("mk,kn->mn", (600, 35), (35, 70), HALF, constant=True),
    "open tiles after tiles": product("mk,kn->mn", (N.dim, 64), (64, 70), BF16, constant=True),
    "few rows turned": product("bmk,bnk->bmn", (2, 4, 32), (2, 40, 32)),
    "few rows turned of halves": product("bmk,bnk->bmn", (2, 4, 64), (2, 96, 64), BF16),
    "float16": product("mk,kn->mn", (40, 35), (35, 50), HALF, constant=True),
    "float16 turned": product("mk,nk->mn", (70, 33), (50, 33), HALF),
    "convolution of float16": convolution(16, 9, 40, HALF),
    "one word of halves": product("mk,kn->mn", (40, 2), (2, 50), BF16),
    "one term of float16": product("mk,kn->mn", (40, 1), (1, 50), HALF),
    "odd bytes": product("mk,kn->mn", (40, 35), (35, 50), I8, I32),
    "convolution": convolution(8, 9, 40),
    "small convolution": convolution(16, 7, 33, stride=2),
    "convolution of bytes": convolution(12, 9, 40, I8, I32),
    "few outputs": convolution(16, 36, 3),
    "turns": product("cyx,ckb->kyxb", (24, 5, 36), (24, 33, 2), constant=True),
    "turns of both": product("cyxb,ckb->kyxb", (24, 5, 36, 2), (24, 33, 2)),
    "open turns": product("cyx,ckb->kyxb", (24, 3, 36), (24, N.dim, 2)),
    "turns of rows": product("yxc,ckb->kyxb", (3, 37, 24), (24, 70, 2), constant=True),
    "turns of rows of both": product("yxbc,ckb->kyxb", (3, 16, 2, 24), (24, 64, 2), constant=True),
    "turns of open rows": product("yxc,ckb->kyxb", (3, N.dim, 24), (24, 64, 2), constant=True),
    "two turns": product("kmw,kwn->mn", (24, 30, 2), (24, 2, 40), constant=True),
    "depthwise": convolution(40, 9, 40, depthwise=True),
    "depthwise of bfloat16": convolution(40, 9, 40, BF16, BF16, depthwise=True),
}


@pytest.mark.sampled(14)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("machine", [REFERENCE, TILES], ids=["vectors", "tiles"])
def test_code_agrees_with_the_interpreter(name, machine):
    """A schedule for matrix tiles runs on vectors if the processor has no tiles."""
    graph = CASES[name]
    sizes = [{N.name: n} for n in (0, 1, 13, 33, 197)] if graph.symbols else [{}]
    assert verify(lowered(graph, machine), host(), sizes) == ()


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "name", ["odd", "bytes", "few rows of bytes", "halves", "convolution", "turns of rows"]
)
@pytest.mark.parametrize("level", ["avx2", "sse2"])
def test_other_processors_have_tiles_of_their_own(name, level):
    target = choose(level)
    assert verify(lowered(CASES[name], target.limited(REFERENCE)), target, [{}]) == ()


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", ["odd", "bytes", "halves", "open rows", "turns of rows", "convolution"])
@pytest.mark.parametrize("left_out", names_of(CONTRACTION))
def test_any_step_can_be_left_out(name, left_out):
    """Steps that depend on a missing one report this and leave the kernel unchanged."""
    graph, strategies = CASES[name], STRATEGIES.without(left_out)
    machine = TILES if name == "halves" else REFERENCE
    sizes, blobs = Sizes({N.name: 50}), constant_offsets(graph)
    lowering = native.lower(graph, blobs, sizes, machine=machine, strategies=strategies)
    assert verify(lowering, host(), [{N.name: 13}] if graph.symbols else [{}]) == ()


def tile_of(graph, machine=REFERENCE):
    """The tile chosen for the last product of a graph."""
    results = []

    def seen(kernel, context):
        results.append(choose_tile(kernel, context))
        return results[-1]

    with patch.object(contraction, "choose", seen):
        lowered(graph, machine)
    return results[-1]


def test_rows_that_lie_between_two_lanes_are_stored_with_them():
    result = tile_of(CASES["turns"])
    assert (result.beside, result.across) == (2, ())


def test_results_that_lie_along_the_rows_leave_registers_through_scratch():
    result = tile_of(CASES["convolution"])
    assert result.across == (result.m,)


def test_results_that_alternate_with_those_of_rows_leave_scratch_with_them():
    result = tile_of(CASES["turns of rows of both"])
    assert result.across[0] is result.m
    assert result.turns.extent == 2


def test_lanes_of_low_tiles_are_prefetched_before_they_are_summed():
    assert "fetch const" in text(CASES["turns of rows of both"])
    assert "nearest" not in text(product("mk,kn->mn", (56, 24), (24, 64), constant=True))


def test_windows_of_two_kinds_over_one_image_are_neighbours_among_items():
    x, w = b.param("x", (8, 65, 36), F), b.param("w", (8, 3, 2), F)
    windows = b.windows(x, [Axis(0, 0), Axis(0, 1, 1, ((3, 1),)), Axis(0, 2)], (8, 64, 36, 2))
    result = tile_of(Graph((("x", x), ("w", w)), (("y", b.contract("cyxa,cka->kyax", windows, w, F)),)))
    assert tiled(result, Names(99)).items[-1].extent == 2


def test_positions_are_lanes_where_windows_make_few_outputs():
    assert tile_of(CASES["few outputs"]).m.extent == 3


@pytest.mark.here
def test_vectors_of_several_registers_are_stored_one_by_one():
    listing = native.text(lowered(CASES["convolution"]), choose("avx2"))
    assert "store <16 x float> %" not in listing
    assert "store <8 x float> %" in listing


def test_bytes_and_bfloat16_are_summed_by_words():
    assert "dot4u(" in text(CASES["bytes"])
    assert "dot4(" in text(CASES["bytes"], TILES)
    assert "dot2(" in text(CASES["halves"])
    assert "dot2s(" in text(CASES["odd bytes"])


@pytest.mark.parametrize("machine", [REFERENCE, TILES], ids=["vectors", "tiles"])
def test_constant_words_are_read_where_they_lie(machine):
    result = tile_of(CASES["few rows of bytes"], machine)
    assert (result.pack_n, result.words.parts) == (Pack.NOTHING, 4)


def test_tiles_of_matrices_are_loaded_from_memory_where_all_are_whole():
    listing = text(CASES["whole tiles of bytes"], TILES)
    assert "register 28" in listing
    assert "store rows" not in listing
    assert "store rows" in text(CASES["bytes"], TILES)


def test_as_many_tiles_share_copied_lanes_as_the_second_cache_keeps_rows_of():
    listing = text(product("mk,kn->mn", (3136, 576), (576, 64), HALF, constant=True), TILES)
    assert re.search(r"for serial t\d+ 0.. < min\(6, ", listing)


def test_the_epilogue_of_a_matrix_tile_overlaps_with_the_next_tile():
    kernel = lowered(CASES["tiles after tiles of bytes"], TILES).module.kernels[-1]
    assert re.search(
        r"call void @\S*tdpbssd(.|\n)*store <16 x i32>(.|\n)*tilestored64", emit(kernel, TILES).text
    )


def test_operands_with_adjacent_terms_are_transposed_in_registers_also_for_few_rows():
    assert "for tile k" in text(CASES["few rows turned"])


def test_few_rows_are_lanes_beside_rows_of_words():
    listing = text(CASES["few rows turned of halves"], TILES)
    assert "register 32" in listing
    assert "dot2(word(in_w" in listing


def test_float16_is_summed_in_two_parts_by_tiles_of_matrices():
    assert text(CASES["float16"], TILES).count("add dot2(") == 2
    assert "dot" not in text(CASES["float16"])


def test_infinities_of_float16_have_their_products():
    """Splitting them into parts would give NaN."""
    low = lowered(product("mk,kn->mn", (32, 16), (16, 32), HALF), host().limited(TILES))
    trial, (_, y) = Trial(load(low, host()), {}), low.graph.outputs[0]
    x, w = np.ones((32, 16), np.float16), np.full((16, 32), 1.5, np.float16)
    x[3, 5], x[4, 6] = np.inf, np.nan
    places = {b.name: b for b in low.module.places}
    trial.write(places["in_x"], x, HALF)
    trial.write(places["in_w"], w, HALF)
    trial.run()
    result = trial.read(places["out_y"], y.dtype, y.shape)
    assert result[3].tolist() == [np.inf] * 32
    assert np.isnan(result[4]).all()
    assert result[5].tolist() == [24] * 32


def test_a_padded_operand_is_written_where_windows_read_it_with_channels_innermost():
    listing = print_kernels(lowered(CASES["convolution"]).module.kernels)
    assert listing.count("kernel ") == 3
    assert "select" not in listing


def test_lanes_that_lie_apart_are_copied_for_a_few_rows():
    """Otherwise each row would gather them."""
    few, one = (product("mk,nk->mn", (rows, 64), (96, 64)) for rows in (8, 1))
    assert tile_of(few).pack_n is Pack.EACH
    assert "panel" not in text(one)


def test_each_tile_asks_for_a_part_of_a_later_panel():
    listing = text(product("mk,kn->mn", (56, 64), (64, 512), constant=True))
    at = r"4096 \+ 8\*k\d+ \+ 2048\*p\d+ \+ 4096\*pc\d+ \+ 512\*t\d+ \+ 1024\*tc\d+"
    assert re.search(rf"fetch const\d+\[{at}\]", listing)


def test_many_tiles_ask_for_no_panel():
    assert "fetch const" not in text(product("mk,kn->mn", (560, 64), (64, 512), constant=True))


def test_panels_that_a_cache_does_not_hold_at_once_are_in_like_parts():
    listing = text(product("mk,kn->mn", (560, 1600), (1600, 128), constant=True))
    assert re.findall(r"for serial p\d+ 0\.\. < (.*) \{", listing) == ["2"]


def test_tiles_ask_for_the_rows_that_only_the_next_item_reads():
    listing = text(convolution(64, 56, 64, stride=2))
    at = r"11072 \+ 4\*i\d+ \+ 7424\*i\d+ \+ 768\*k\d+ \+ 4608\*p\d+ \+ 2304\*t\d+"
    assert re.search(rf"fetch v\d+\[{at}\]", listing)


def test_items_that_read_all_rows_ask_for_none():
    assert "fetch v" not in text(convolution(64, 8, 64, stride=2))


def test_strided_results_are_prefetched_unless_their_stores_are_nontemporal():
    assert "fetch out_y" in text(convolution(8, 40, 40))
    assert "fetch out_y" not in text(convolution(3, 1024, 64))


def test_of_rows_that_are_left_of_an_open_number_the_last_one_fills_the_tile():
    low = lowered(CASES["open rows"])
    assert "min(-1 + x.0, " in print_kernels(low.module.kernels)
    assert verify(low, host(), [{N.name: n} for n in (0, 1, 2, 3, 13, 15, 31)]) == ()


def test_rows_that_are_left_and_leave_registers_through_scratch_come_by_four_two_and_one():
    low = lowered(product("mk,kn->nm", (N.dim, 24), (24, 70), constant=True))
    matches = re.findall(r"acc\d+ f32 register (\d+)", print_kernels(low.module.kernels))
    assert {"4", "2", "1"} <= set(matches)
    assert verify(low, host(), [{N.name: n} for n in (0, 1, 2, 3, 13, 15, 31)]) == ()


@pytest.mark.parametrize(("lanes", "last"), [(102, "< 6 {"), (112, "< 16 {"), (113, "< min(")])
def test_the_last_panel_has_no_more_registers_than_its_lanes_need(lanes, last):
    listing = text(product("mk,kn->mn", (14, 6), (6, lanes)))
    assert re.search(r"for vector(\*2)? j\d+ 0.. " + re.escape(last), listing)
    assert listing.count("fold") == (1 if lanes == 113 else 2)


HELD = {
    "lanes": product("mk,kn->mn", (75, 64), (64, 300)),
    "terms side by side": product("mk,nk->mn", (75, 70), (300, 70)),
    "batches": product("bmk,bkn->bmn", (2, 75, 64), (2, 64, 300)),
    "open lanes": product("mk,kn->mn", (80, 64), (64, N.dim)),
    "open rows": product("mk,kn->mn", (N.dim, 64), (64, 300)),
    "open sum": product("mk,kn->mn", (75, N.dim), (N.dim, 300)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", HELD)
def test_panels_of_an_item_are_copied_once_for_all_rows_that_no_cache_keeps(name):
    """Each copy has its own place, because tiles read all of them one after the other."""
    small = replace(REFERENCE, cores=1, l1_bytes=1 << 12, l2_bytes=1 << 16)
    kernel = lowered(HELD[name], small)
    copies, tiles = print_kernels(kernel.module.kernels[-1:]).split("for serial t", 1)
    assert re.search(r"store panel\d+\[.*\*p\d+", copies)
    assert "for serial p" in tiles
    assert "store panel" not in tiles
    assert "fetch panel" in tiles
    sizes = [{N.name: n} for n in (0, 1, 13, 33, 197)] if HELD[name].symbols else [{}]
    assert verify(kernel, host(), sizes) == ()


def test_channels_that_share_lines_of_cache_are_items_of_the_same_rows():
    x, w = b.param("x", (30, 30, 144), DataType.INT8), b.param("w", (3, 3, 144), DataType.INT8)
    axes = [Axis(0, 0, 1, ((3, 1),)), Axis(0, 1, 1, ((4, 1),)), Axis(0, 2)]
    windows = b.windows(x, axes, (28, 28, 144, 3, 3))
    sums = b.contract("yxcab,abc->yxc", windows, w, DataType.INT32)
    result = tile_of(Graph((("x", x), ("w", w)), (("y", b.cast(sums, DataType.INT8)),)))
    assert result.shares
    assert tiled(result, Names(99)).items[-1].extent == 9
