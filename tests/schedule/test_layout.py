"""Positions in memory: in every layout, each element is at NumPy's position."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyrt.core.dims import Sym, linear
from anyrt.core.dimvalues import evaluate
from anyrt.schedule.layout import Block, Layout, row_major

N, M = Sym("n", 1, 64), Sym("m", 1, 64)
ROW, COL, PIECE = Sym("i", extent=N.dim), Sym("j", extent=M.dim), Sym("k", extent=5)
NUMBERS = np.arange(2 * 3 * 4).reshape(2, 3, 4)


def read(layout: Layout, memory: np.ndarray) -> np.ndarray:
    """The tensor that is stored in `memory`."""
    assert layout.entries == memory.size
    return np.array([memory.flat[layout.place(i)] for i in np.ndindex(*layout.shape)]).reshape(layout.shape)


def test_row_major_is_as_numpy_has_it():
    assert read(row_major((2, 3, 4)), NUMBERS).tolist() == NUMBERS.tolist()


@pytest.mark.parametrize("order", [(0, 2, 1), (2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_axes_in_another_order_are_a_transpose(order):
    layout = replace(row_major((2, 3, 4)), order=order)
    assert read(layout, NUMBERS.transpose(order)).tolist() == NUMBERS.tolist()


def test_a_halo_lies_around_the_elements():
    layout = replace(row_major((2, 3, 4)), halo=((0, 0), (1, 2), (2, 1)))
    memory = np.pad(NUMBERS, layout.halo, constant_values=-1)
    assert read(layout, memory).tolist() == NUMBERS.tolist()
    around = [(0, -1, 0), (1, 3, 0), (1, 4, 3), (0, 0, -2), (1, 2, 4)]
    assert [memory.flat[layout.place(i)] for i in around] == [-1] * 5


def test_blocks_of_channels_lie_innermost():
    x = np.arange(2 * 6 * 3 * 2).reshape(2, 6, 3, 2)
    whole = np.pad(x, ((0, 0), (0, 2), (0, 0), (0, 0)))  # the second block of 4 is stored completely
    memory = whole.reshape(2, 2, 4, 3, 2).transpose(0, 1, 3, 4, 2)
    assert read(replace(row_major(x.shape), block=Block(1, 4)), memory).tolist() == x.tolist()


def test_order_halo_and_blocks_together():
    layout = Layout((2, 3, 4), (1, 2, 0), ((0, 0), (0, 0), (1, 1)), Block(2, 4))
    padded = np.pad(NUMBERS, ((0, 0), (0, 0), (1, 3)))  # a halo of 1 and 1, and whole blocks
    memory = padded.reshape(2, 3, 2, 4).transpose(1, 2, 0, 3)
    assert read(layout, memory).tolist() == NUMBERS.tolist()


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=4)))
    order = tuple(draw(st.permutations(range(len(shape)))))
    halo = tuple(draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in shape)
    blocks = st.builds(Block, st.integers(0, len(shape) - 1), st.integers(1, 5))
    return Layout(shape, order, halo, draw(st.none() | blocks) if shape else None)


@given(layouts())
def test_every_element_that_is_kept_has_a_place_of_its_own(layout: Layout):
    kept = [range(-lo, size + hi) for size, (lo, hi) in zip(layout.shape, layout.halo, strict=True)]
    where = [layout.place(at) for at in product(*kept)]
    assert len(set(where)) == len(where)
    assert 0 <= min(where) <= max(where) < layout.entries


def test_repeated_elements_are_stored_once():
    assert row_major((2, 1, 4)).place((1, 7, 2)) == 6
    assert replace(row_major((2, 1, 4)), halo=((0, 0), (1, 1), (0, 0))).place((1, -1, 2)) == 14


def test_positions_move_with_the_index_as_loops_need_it():
    where = row_major((N.dim, M.dim, 5)).place((ROW.dim, COL.dim, PIECE.dim))
    assert where == ROW.dim * M.dim * 5 + COL.dim * 5 + PIECE.dim
    across = replace(row_major((N.dim, M.dim, 5)), order=(2, 0, 1)).place((ROW.dim, COL.dim, PIECE.dim))
    assert linear(across, COL) == (1, PIECE.dim * N.dim * M.dim + ROW.dim * M.dim)


def test_places_in_blocks_are_whole_steps_where_loops_are_blocked():
    """A loop over blocks around one over the elements of a block needs no division."""
    outer, inner = Sym("o", extent=8), Sym("u", extent=16)
    where = replace(row_major((N.dim, 128)), block=Block(1, 16)).place((ROW.dim, outer * 16 + inner.dim))
    assert where == ROW.dim * 128 + outer * 16 + inner.dim


def test_entries_of_open_sizes():
    layout = replace(row_major((N.dim, M.dim)), halo=((1, 1), (0, 0)), block=Block(1, 8))
    assert [evaluate(layout.entries, {"n": 3, "m": m}) for m in (1, 8, 9)] == [40, 40, 80]
    assert (row_major(()).entries, row_major(()).place(())) == (1, 0)
    assert row_major((4, 0)).entries == 0


@pytest.mark.parametrize(
    "wrong", [{"order": (0, 0)}, {"order": (0,)}, {"halo": ((0, 0),)}, {"block": Block(2, 4)}]
)
def test_layouts_that_fit_no_tensor_are_rejected(wrong):
    with pytest.raises(AssertionError, match="2 axes"):
        replace(row_major((2, 3)), **wrong)
