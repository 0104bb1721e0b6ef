"""Two rows per item."""

from anyrt.loops.unroll_and_jam import unroll_and_jam

TEXT = """
symbol n 1..9
buffer acc f32 register 1 offset 0
buffer row f32 scratch 16 offset 0
buffer x FLOAT input 16*n offset 0
buffer y FLOAT output 16*n offset 0
kernel "k" p0 0.. < n work 32 scratch 64 {
  let i1 0.. < n = p0
  alloc acc = 0.0:f32
  for vector r2 0.. < 16 {
    store row[r2] = neg(x[16*i1 + r2])
    fold acc add x[16*i1 + r2]
  }
  for vector i3 0.. < 16 {
    store y[16*i1 + i3] = mul(row[i3], acc[0])
  }
}
"""


def test_the_loops_of_two_rows_run_as_one(after, names):
    expected = """\
kernel "k" p11 0.. < floordiv(1 + n, 2) work 64 scratch 128 {
  let i1 0.. < n = 2*p11
  let i12 0.. < n = min(-1 + n, 1 + 2*p11)
  alloc acc = 0.0:f32
  alloc accb = 0.0:f32
  for vector r2 0.. < 16 {
    store row[r2] = neg(x[16*i1 + r2])
    store twin13[r2] = neg(x[16*i12 + r2])
    fold acc add x[16*i1 + r2]
    fold accb add x[16*i12 + r2]
  }
  for vector i3 0.. < 16 {
    store y[16*i1 + i3] = mul(row[i3], acc[0])
    store y[16*i12 + i3] = mul(twin13[i3], accb[0])
  }
}
"""
    assert after(TEXT, lambda k: unroll_and_jam(k, names), sizes=[{"n": 1}, {"n": 5}, {"n": 6}]) == expected


def test_one_row_has_no_partner(after, names):
    text = TEXT.replace("16*n", "16").replace("< n", "< 1")
    assert after(text, lambda k: unroll_and_jam(k, names)) == "there is one row"
