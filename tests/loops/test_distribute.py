"""The loops of a row, each executed for a batch of rows."""

from anyrt.loops.distribute import ShortRows, distribute

BUFFERS = """
buffer acc f32 register 1 offset 0
buffer row f32 scratch 16 offset 0
buffer x FLOAT input 112 offset 0
buffer y FLOAT output 112 offset 0
"""
ROWS = """
kernel "k" p0 0.. < 7 work 32 scratch 64 {
  let i1 0.. < 7 = p0
  alloc acc = 0.0:f32
  for vector r2 0.. < 16 {
    e0 = mul(x[16*i1 + r2], x[16*i1 + r2])
    store row[r2] = e0
    fold acc add e0
  }
  for vector i3 0.. < 16 {
    store y[16*i1 + i3] = sub(row[i3], acc[0])
  }
}
"""


def test_each_loop_of_a_row_runs_for_a_batch_of_rows(after, names):
    limits = ShortRows(short=2048, rows=4, bytes=20480)
    expected = """\
kernel "k" p11 0.. < 2 work 128 scratch 384 {
  for serial r13 0.. < 4 {
    let i14 0.. < 7 = min(4*p11 + r13, 6)
    alloc acc = 0.0:f32
    for vector r2 0.. < 16 {
      e0 = mul(x[16*i14 + r2], x[16*i14 + r2])
      store rows12[16*r13 + r2] = e0
      fold acc add e0
    }
    store sum15[r13] = acc[0]
  }
  for serial r16 0.. < 4 {
    let i17 0.. < 7 = min(4*p11 + r16, 6)
    for vector i3 0.. < 16 {
      store y[16*i17 + i3] = sub(rows12[i3 + 16*r16], sum15[r16])
    }
  }
}
"""
    assert after(BUFFERS + ROWS, lambda k: distribute(k, names, lambda v: v.extent, limits)) == expected


def test_long_rows_are_left_alone(after, names):
    limits = ShortRows(short=60, rows=4, bytes=20480)
    reason = after(BUFFERS + ROWS, lambda k: distribute(k, names, lambda v: v.extent, limits))
    assert reason == "its rows are too long to share an item"
