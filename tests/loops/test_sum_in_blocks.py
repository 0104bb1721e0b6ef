"""Long sums as sums of block sums."""

import pytest

from anyrt.loops.sum_in_blocks import sum_in_blocks

BUFFERS = """
symbol n 0..50
buffer acc f32 register 1 offset 0
buffer x FLOAT input 4000 offset 0
buffer y FLOAT output 40 offset 0
"""
COLUMNS = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for vector i1 0.. < 40 {
    alloc acc = 0.0:f32
    for serial r2 0.. < 100 {
      fold acc add x[i1 + 40*r2]
    }
    store y[i1] = acc[0]
  }
}
"""
ROWS = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  alloc acc = 0.0:f32
  for serial r1 0.. < n {
    for serial r2 0.. < 30 {
      fold acc add x[40*r1 + r2]
    }
  }
  store y[0] = acc[0]
}
"""


def in_blocks(kernel, names, terms, lanes):
    return sum_in_blocks(kernel, names, lambda var: 30, terms, lanes)


def test_each_lane_of_a_vector_sums_up_its_column_in_blocks(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for vector i1 0.. < 40 {
    alloc acc = 0.0:f32
    for serial b11 0.. < 4 {
      alloc part13 = 0.0:f32
      for serial i12 0.. < min(100 + -32*b11, 32) {
        fold part13 add x[1280*b11 + i1 + 40*i12]
      }
      fold acc add part13[0]
    }
    store y[i1] = acc[0]
  }
}
"""
    assert after(BUFFERS + COLUMNS, lambda k: in_blocks(k, names, 32, 4)) == expected


def test_a_row_has_as_many_terms_as_its_lanes_add_up(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  alloc acc = 0.0:f32
  for serial b11 0.. < floordiv(3 + n, 4) {
    alloc part13 = 0.0:f32
    for serial i12 0.. < min(-4*b11 + n, 4) {
      for serial r2 0.. < 30 {
        fold part13 add x[160*b11 + 40*i12 + r2]
      }
    }
    fold acc add part13[0]
  }
  store y[0] = acc[0]
}
"""
    sizes = [{"n": n} for n in (0, 1, 4, 50)]
    assert after(BUFFERS + ROWS, lambda k: in_blocks(k, names, 32, 4), sizes=sizes) == expected


@pytest.mark.parametrize(("old", "new"), [("< 100", "< 32"), ("add x", "max x"), ("f32", "i32")])
def test_short_or_exact_sums_stay(after, names, old, new):
    text = (BUFFERS + COLUMNS).replace(old, new)
    if new == "i32":
        text = text.replace("FLOAT", "INT32").replace("0.0:", "0:")
    assert after(text, lambda k: in_blocks(k, names, 32, 4)) == "no sum is that long"
