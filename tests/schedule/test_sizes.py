"""Estimates of dynamic dimensions and of numbers of iterations."""

from anyrt.core.dims import Sym
from anyrt.schedule.cost import Sizes

N = Sym("x.0", 1, 100)


def test_counters_of_dynamic_lengths_have_their_usual_value():
    columns = Sym("columns", extent=N.dim + 1)
    assert Sizes({"x.0": 40, "columns": 20}).turns(Sym("i", extent=columns.dim)) == 20


def test_pieces_count_as_the_first_one_where_no_other_is_usual():
    piece = Sym("piece", extent=4)
    assert Sizes({"x.0": 40}).turns(Sym("i", extent=N.dim - 8 * piece.dim)) == 40
