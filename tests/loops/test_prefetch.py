"""Rows prefetched while an earlier one is computed."""

from anyrt.loops.prefetch import prefetch

BUFFERS = """
buffer acc f32 register 1 offset 0
buffer sq f32 register 1 offset 0
buffer x FLOAT input 256 offset 0
buffer y FLOAT output 256 offset 0
"""
ROWS = """
kernel "k" p0 0.. < 4 work 1 scratch 0 {
  let i1 0.. < 4 = p0
  alloc acc = 0.0:f32
  for vector r2 0.. < 64 {
    fold acc add x[64*i1 + r2]
  }
  alloc sq = 0.0:f32
  for vector r3 0.. < 64 {
    e0 = sub(x[64*i1 + r3], acc[0])
    fold sq add mul(e0, e0)
  }
  for vector i4 0.. < 64 {
    store y[64*i1 + i4] = mul(x[64*i1 + i4], sq[0])
  }
}
"""


def test_a_later_row_is_prefetched_where_one_is_folded_again(after):
    expected = """\
kernel "k" p0 0.. < 4 work 1 scratch 0 {
  let i1 0.. < 4 = p0
  alloc acc = 0.0:f32
  for vector r2 0.. < 64 {
    fold acc add x[64*i1 + r2]
  }
  alloc sq = 0.0:f32
  for vector r3 0.. < 64 {
    e0 = sub(x[64*i1 + r3], acc[0])
    fold sq add mul(e0, e0)
    fetch x[128 + 64*i1 + r3]
  }
  for vector i4 0.. < 64 {
    store y[64*i1 + i4] = mul(x[64*i1 + i4], sq[0])
  }
}
"""
    assert after(BUFFERS + ROWS, lambda k: prefetch(k, 2, lambda b: True)) == expected


def test_rows_in_a_cache_are_not_prefetched(after):
    assert after(BUFFERS + ROWS, lambda k: prefetch(k, 2, lambda b: False)) == "no large row is folded twice"


def test_there_is_no_later_row_where_all_is_one(after):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for vector i1 0.. < 256 {
    store y[i1] = x[i1]
  }
}
"""
    assert after(BUFFERS + text, lambda k: prefetch(k, 2, lambda b: True)) == "there are no rows"
