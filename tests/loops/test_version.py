"""Loops that follow tables, in versions for classes of table contents."""

from anyrt.core.dims import Sym
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeRoundMode as Rounding
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.core.enums import SampleMode
from anyrt.loops.version import version
from anyrt.prims.taps import Border, Nearest
from anyrt.schedule.tables import Tables

N = Sym("n", 1, 2000)
NEAREST = Nearest(Coordinate.ASYMMETRIC, Selector.FORMULA, Rounding.FLOOR)
TEXT = """
symbol n 1..2000
buffer pos0 i32 table 300 offset 0
buffer x FLOAT input n offset 0
buffer y FLOAT output 300 offset 0
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for vector i1 0.. < 300 {
    bound v0 tap 0..2147483647 below n = pos0[i1]
    store y[i1] = x[v0]
  }
}
"""


def test_a_loop_is_written_for_each_class_of_its_table(after):
    tables = Tables()
    tables.table(NEAREST, N.dim, 300)
    sizes = [{"n": n} for n in (5, 256, 300, 301, 600, 601, 1999)]
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  e0 = le(256:i64, index(n))
  e1 = and(le(index(n), 300:i64), e0)
  if e1 {
    for vector i1 0.. < 300 {
      bound v.0 tap 0..2147483647 below n = pos0.1[i1]
      store y[i1] = x[v.0]
    }
  }
  e2 = and(le(index(n), 600:i64), e0)
  if and(e2, not(e1)) {
    for vector i1 0.. < 300 {
      bound v.1 tap 0..2147483647 below n = pos0.2[i1]
      store y[i1] = x[v.1]
    }
  }
  e3 = or(e1, e2)
  e4 = and(le(index(n), 1200:i64), e0)
  if and(e4, not(e3)) {
    for vector i1 0.. < 300 {
      bound v.2 tap 0..2147483647 below n = pos0.4[i1]
      store y[i1] = x[v.2]
    }
  }
  if not(or(e3, e4)) {
    for vector i1 0.. < 300 {
      bound v.3 tap 0..2147483647 below n = pos0[i1]
      store y[i1] = x[v.3]
    }
  }
}
"""
    assert after(TEXT, lambda k: version(k, tables), tables, sizes) == expected


def test_positions_that_descend_have_no_classes(after):
    tables = Tables()
    tables.table(Border(SampleMode.REFLECT, -2, -1), N.dim, 300)
    reason = after(TEXT, lambda k: version(k, tables), tables)
    assert reason == "no vector loop follows a table of a class"


def test_sums_at_once_are_written_once_and_only_where_all_sizes_are_certain(after):
    tables = Tables()
    tables.table(NEAREST, 200, 300)
    for size, expected in ((256, "pos0.1[i1]"), (255, None)):
        text = f"""
buffer acc f32 register 1 offset 0
buffer pos0 i32 table 300 offset 0
buffer x FLOAT input {size} offset 0
buffer y FLOAT output 300 offset 0
kernel "k" p0 0.. < 1 work 1 scratch 0 {{
  for vector i1 0.. < 300 {{
    alloc acc = 0.0:f32
    for serial k2 0.. < 40 {{
      bound v0 tap 0..2147483647 below 200 = pos0[i1]
      fold acc add x[v0]
    }}
    store y[i1] = acc[0]
  }}
}}
"""
        built = after(text, lambda k: version(k, tables), tables)
        if expected is None:
            assert built == "no vector loop follows a table of a class"
        else:
            assert expected in built
