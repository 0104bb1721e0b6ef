"""Values that several loops of a row compute are stored by the first loop."""

from anyrt.core.machine import Costs
from anyrt.loops.cache_read import cache_read

COSTS = Costs(store=2, convert=3)

BUFFERS = """
buffer acc f32 register 1 offset 0
buffer sq f32 register 1 offset 0
buffer x HALF input 256 offset 0
buffer y FLOAT output 256 offset 0
"""
ROWS = """
kernel "k" p0 0.. < 4 work 1 scratch 0 {
  let i1 0.. < 4 = p0
  alloc acc = 0.0:f32
  for vector r2 0.. < 64 {
    fold acc add f32(x[64*i1 + r2])
  }
  alloc sq = 0.0:f32
  for vector r3 0.. < 64 {
    e0 = sub(f32(x[64*i1 + r3]), acc[0])
    fold sq add mul(e0, e0)
  }
  for vector i4 0.. < 64 {
    store y[64*i1 + i4] = add(sub(f32(x[64*i1 + i4]), acc[0]), sq[0])
  }
}
"""


def test_a_row_of_a_half_type_is_converted_once(after, names):
    expected = """\
kernel "k" p0 0.. < 4 work 1 scratch 256 {
  let i1 0.. < 4 = p0
  alloc acc = 0.0:f32
  for vector r2 0.. < 64 {
    e0 = f32(x[64*i1 + r2])
    store row11[r2] = e0
    fold acc add e0
  }
  alloc sq = 0.0:f32
  for vector r3 0.. < 64 {
    e1 = sub(row11[r3], acc[0])
    fold sq add mul(e1, e1)
  }
  for vector i4 0.. < 64 {
    store y[64*i1 + i4] = add(sub(row11[i4], acc[0]), sq[0])
  }
}
"""
    assert after(BUFFERS + ROWS, lambda k: cache_read(k, names, 64, COSTS)) == expected


def test_a_row_that_several_loops_compute_is_stored_by_the_first(after, names):
    text = """
kernel "k" p0 0.. < 4 work 1 scratch 0 {
  let i1 0.. < 4 = p0
  alloc acc = 0.0:f32
  for vector r2 0.. < 64 {
    e0 = f32(x[64*i1 + r2])
    fold acc add fma(e0, mul(e0, e0), e0)
  }
  for vector i4 0.. < 64 {
    e1 = f32(x[64*i1 + i4])
    store y[64*i1 + i4] = sub(fma(e1, mul(e1, e1), e1), acc[0])
  }
}
"""
    expected = """\
kernel "k" p0 0.. < 4 work 1 scratch 256 {
  let i1 0.. < 4 = p0
  alloc acc = 0.0:f32
  for vector r2 0.. < 64 {
    e0 = f32(x[64*i1 + r2])
    e1 = fma(e0, mul(e0, e0), e0)
    store row11[r2] = e1
    fold acc add e1
  }
  for vector i4 0.. < 64 {
    store y[64*i1 + i4] = sub(row11[i4], acc[0])
  }
}
"""
    assert after(BUFFERS + text, lambda k: cache_read(k, names, 64, COSTS)) == expected


def test_values_in_memory_in_the_right_layout_are_not_stored_again(after, names):
    text = BUFFERS.replace("HALF", "FLOAT") + ROWS.replace("f32(x[64*i1 + r2])", "x[64*i1 + r2]").replace(
        "f32(x[64*i1 + r3])", "x[64*i1 + r3]"
    ).replace("f32(x[64*i1 + i4])", "x[64*i1 + i4]")
    assert (
        after(text, lambda k: cache_read(k, names, 64, COSTS)) == "its loops repeat no expensive expression"
    )


def test_a_row_that_the_caches_do_not_hold_is_computed_again(after, names):
    reason = after(BUFFERS + ROWS, lambda k: cache_read(k, names, 63, COSTS))
    assert reason == "its loops repeat no expensive expression"
