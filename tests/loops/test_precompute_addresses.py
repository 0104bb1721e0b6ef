"""Start addresses of vector loads, from tables."""

from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeRoundMode as Rounding
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.loops.precompute_addresses import precompute_addresses
from anyrt.prims.taps import Nearest
from anyrt.schedule.tables import Tables

NEAREST = Nearest(Coordinate.ASYMMETRIC, Selector.FORMULA, Rounding.FLOOR)
TEXT = """
symbol n 1..9
buffer pos0 i32 table 300 offset 0 slope 1
buffer x FLOAT input 200*n offset 0
buffer y FLOAT output 300*n offset 0
kernel "k" p0 0.. < n work 1 scratch 0 {
  for vector i1 0.. < 300 {
    bound v0 tap 0..2147483647 below 200 = pos0[i1]
    store y[300*p0 + i1] = x[200*p0 + v0]
  }
}
"""


def test_a_loop_takes_its_vectors_addresses_from_a_table_where_these_lie_inside(after):
    tables = Tables()
    tables.table(NEAREST, 200, 300)
    sizes = [{"n": n} for n in (1, 2, 3, 9)]
    expected = """\
kernel "k" p0 0.. < n work 1 scratch 0 {
  e0 = le(index(456 + 200*p0), index(200*n))
  if e0 {
    for vector i1 0.. < 300 {
      bound v.0 tap 0..2147483647 below 200 = pos0.at[i1]
      store y[i1 + 300*p0] = x[200*p0 + v.0]
    }
  }
  if not(e0) {
    for vector i1 0.. < 300 {
      bound v.1 tap 0..2147483647 below 200 = pos0[i1]
      store y[i1 + 300*p0] = x[200*p0 + v.1]
    }
  }
}
"""
    assert after(TEXT, lambda k: precompute_addresses(k, tables), tables, sizes) == expected


def test_positions_that_are_far_from_each_other_are_found_one_by_one(after):
    tables = Tables()
    tables.table(NEAREST, 200, 300)
    text = TEXT.replace(" slope 1", "")
    reason = after(text, lambda k: precompute_addresses(k, tables), tables)
    assert reason == "no long vector loop reads ascending positions"
