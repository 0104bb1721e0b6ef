"""A few elements at every position, stored as one row."""

from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeRoundMode as Rounding
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.loops.interleave import interleave
from anyrt.prims.taps import Nearest
from anyrt.schedule.tables import Tables

BUFFERS = """
buffer c FLOAT const 3 offset 0
buffer x FLOAT input 60 offset 0
buffer y FLOAT output 120 offset 0
buffer pos0 i32 table 40 offset 0 slope 1
"""


def test_the_channels_of_a_row_of_pixels_become_one_row(after, names):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 20 {
    for serial i2 0.. < 3 {
      store y[3*i1 + i2] = neg(x[3*i1 + i2])
    }
  }
}
"""
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i11 0.. < 60 {
    store y[i11] = neg(x[i11])
  }
}
"""
    assert after(BUFFERS + text, lambda k: interleave(k, Tables(), names)) == expected


def test_positions_of_taps_become_a_table_with_an_entry_for_each_channel(after, names):
    tables = Tables()
    tables.table(Nearest(Coordinate.ASYMMETRIC, Selector.FORMULA, Rounding.FLOOR), 20, 40)
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 40 {
    for serial i2 0.. < 3 {
      bound v0 tap 0..2147483647 below 20 = pos0[i1]
      store y[3*i1 + i2] = x[3*v0 + i2]
    }
  }
}
"""
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i11 0.. < 120 {
    bound v.0 tap 0..2147483647 below 60 = pos1[i11]
    store y[i11] = x[v.0]
  }
}
"""
    assert after(BUFFERS + text, lambda k: interleave(k, tables, names), tables) == expected


def test_a_factor_for_each_channel_keeps_the_loops_apart(after, names):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 20 {
    for serial i2 0.. < 3 {
      store y[3*i1 + i2] = mul(x[3*i1 + i2], c[i2])
    }
  }
}
"""
    reason = after(BUFFERS + text, lambda k: interleave(k, Tables(), names))
    assert reason == "no short loop over contiguous elements forms one row with its neighbour"
