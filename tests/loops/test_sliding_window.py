"""Rows that reuse values of earlier rows, in bands."""

from anyrt.loops.sliding_window import sliding_window

BUFFERS = """
buffer pos0 i32 table 40 offset 0
buffer row f32 scratch 8 offset 0
buffer tag i32 scratch 1 offset 64
buffer x FLOAT input 80 offset 0
buffer y FLOAT output 320 offset 0
"""


def test_every_band_begins_with_nothing_remembered(after, names):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 128 {
  store tag[0] = -1:i32
  for serial i1 0.. < 40 {
    e0 = i32(index(floordiv(i1, 4)))
    if ne(tag[0], e0) {
      for serial i2 0.. < 8 {
        store row[i2] = neg(x[8*floordiv(i1, 4) + i2])
      }
      store tag[0] = e0
    }
    for serial i3 0.. < 8 {
      store y[8*i1 + i3] = row[i3]
    }
  }
}
"""
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 128 {
  for serial b11 0.. < 3 {
    store tag[0] = -1:i32
    for serial i12 0.. < min(16, 40 + -16*b11) {
      let i1 0.. < 40 = 16*b11 + i12
      e0 = i32(index(floordiv(i1, 4)))
      if ne(tag[0], e0) {
        for serial i2 0.. < 8 {
          store row[i2] = neg(x[8*floordiv(i1, 4) + i2])
        }
        store tag[0] = e0
      }
      for serial i3 0.. < 8 {
        store y[8*i1 + i3] = row[i3]
      }
    }
  }
}
"""
    assert after(BUFFERS + text, lambda k: sliding_window(k, names, 16)) == expected


def test_values_for_all_rows_are_not_computed_by_each_band(after, names):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 128 {
  for serial i2 0.. < 8 {
    store row[i2] = neg(x[i2])
  }
  for serial i1 0.. < 320 {
    store y[i1] = row[mod(i1, 8)]
  }
}
"""
    reason = after(BUFFERS + text, lambda k: sliding_window(k, names, 16))
    assert reason == "the operands of its rows are computed before the first row"


def test_one_element_that_stands_for_all_rows_needs_no_bands(after, names):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 128 {
  store row[0] = neg(x[0])
  for serial i1 0.. < 320 {
    store y[i1] = row[0]
  }
}
"""
    reason = after(BUFFERS + text, lambda k: sliding_window(k, names, 16))
    assert reason == "the operands of its rows are computed before the first row"


def test_rows_that_remember_nothing_need_no_bands(after, names):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 80 {
    store y[i1] = neg(x[i1])
  }
}
"""
    reason = after(BUFFERS + text, lambda k: sliding_window(k, names, 16))
    assert reason == "no rows are reused by the next iteration"
