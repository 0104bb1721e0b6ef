"""Several columns folded at the same time."""

from anyrt.loops.fold_across import fold_across

BUFFERS = """
buffer acc f32 register 1 offset 0
buffer x FLOAT input 1200 offset 0
buffer y FLOAT output 300 offset 0
"""


def test_columns_are_folded_side_by_side(after, names):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 300 {
    alloc acc = 0.0:f32
    for serial r2 0.. < 4 {
      fold acc add x[i1 + 300*r2]
    }
    store y[i1] = acc[0]
  }
}
"""
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial b11 0.. < 3 {
    for vector i12 0.. < min(128, 300 + -128*b11) {
      alloc acc = 0.0:f32
      for serial r2 0.. < 4 {
        fold acc add x[128*b11 + i12 + 300*r2]
      }
      store y[128*b11 + i12] = acc[0]
    }
  }
}
"""
    assert after(BUFFERS + text, lambda k: fold_across(k, names, 128)) == expected


def test_rows_are_not(after, names):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 300 {
    alloc acc = 0.0:f32
    for serial r2 0.. < 4 {
      fold acc add x[4*i1 + r2]
    }
    store y[i1] = acc[0]
  }
}
"""
    assert after(BUFFERS + text, lambda k: fold_across(k, names, 128)) == "its folds read contiguous rows"
