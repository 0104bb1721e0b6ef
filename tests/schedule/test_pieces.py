"""Sizes that depend on the machine: on the measured machine they equal the measured optimum."""

from dataclasses import replace

import pytest

from anyrt.core.machine import REFERENCE
from anyrt.loops.distribute import ShortRows
from anyrt.schedule.cost import heavy
from anyrt.schedule.nontemporal import in_order, in_tiles
from anyrt.schedule.pieces import Pieces, half_of_l1, pieces
from anyrt.schedule.tuning import MODEL, Tuning

MEASURED = Pieces(
    item=8192,
    block=4096,
    column=256,
    short=16384,
    band=32,
    items=16,
    line=64,
    run=64,
    chunk=32,
    least_run=128,
    longer=1 << 20,
    large=1 << 20,
    row=1 << 16,
    row_piece=64,
    alone=16384,
    rows=64,
    folded=4096,
    cached=8192,
    short_rows=ShortRows(short=2048, rows=8, bytes=20480),
)


def test_pieces_equal_the_measured_ones():
    assert pieces(REFERENCE) == MEASURED


def test_outputs_are_written_past_the_caches_from_the_size_that_was_measured():
    assert (in_order(REFERENCE), in_tiles(REFERENCE)) == (40 << 20, 16 << 20)


def test_costs_equal_the_measured_ones():
    assert (REFERENCE.costs.move, REFERENCE.costs.gather, heavy(REFERENCE)) == (6, 4, 8)


def test_a_tuning_replaces_what_it_names_and_nothing_else():
    assert pieces(REFERENCE, Tuning(band=64, items=8)) == replace(MEASURED, band=64, items=8)
    assert pieces(replace(REFERENCE, line_bytes=128), Tuning(run=16)).line == 128


def test_a_tuning_is_the_same_on_every_machine():
    assert (str(MODEL), str(Tuning(line=64))) == ("model", "line=64")
    assert Tuning.parse("run=128") == Tuning(run=128)
    assert Tuning.of_tactic(Tuning(run=128).tactic) == Tuning(run=128)


@pytest.mark.parametrize(
    ("kilobytes", "elements"), [(16, 2048), (32, 4096), (48, 4096), (64, 8192), (128, 16384), (192, 16384)]
)
def test_a_piece_and_what_it_is_made_from_fit_into_the_first_cache(kilobytes, elements):
    assert half_of_l1(replace(REFERENCE, l1_bytes=kilobytes << 10)) == elements


def test_more_cores_get_more_items():
    assert [pieces(replace(REFERENCE, cores=n)).items for n in (1, 4, 5, 64)] == [1, 16, 20, 256]
