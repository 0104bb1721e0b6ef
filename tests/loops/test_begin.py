"""Integer sums start with the value that is added to them."""

from anyrt.loops.begin import begin
from tests.loops.products import PRODUCT, M

TEXT = """
buffer acc i32 register 1 offset 0
buffer bias INT32 const 10 offset 0
buffer w INT8 const 80 offset 0
buffer x INT8 input 40 offset 0
buffer y FLOAT output 50 offset 0
buffer zero INT32 const 10 offset 0
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = 0:i32
      for serial k3 0.. < 8 {
        fold acc add mul(i32(x[8*m1 + k3]), i32(w[8*n2 + k3]))
      }
      store y[10*m1 + n2] = mul(f32(add(sub(acc[0], zero[n2]), bias[n2])), 0.5:f32)
    }
  }
}
"""
SUM = "add(sub(acc[0], zero[n2]), bias[n2])"


def test_sums_begin_with_what_all_rows_have_alike(after):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = add(sub(0:i32, zero[n2]), bias[n2])
      for serial k3 0.. < 8 {
        fold acc add mul(i32(x[k3 + 8*m1]), i32(w[k3 + 8*n2]))
      }
      store y[10*m1 + n2] = mul(f32(acc[0]), 0.5:f32)
    }
  }
}
"""
    assert after(TEXT, lambda k: begin(k, M)) == expected


def test_addends_that_differ_between_rows_stay_behind_the_sum(after):
    expected = "no addend of the sums is the same for all rows"
    for other in (
        "sub(acc[0], zero[m1])",
        "add(acc[0], acc[0])",
        "sub(zero[n2], acc[0])",
        "mul(acc[0], zero[n2])",
    ):
        assert after(TEXT.replace(SUM, other), lambda k: begin(k, M)) == expected


def test_addends_read_in_two_ways_stay_behind_the_sum(after):
    expected = "no addend of the sums is the same for all rows"
    for other in ("mul(sub(acc[0], zero[n2]), acc[0])", "mul(sub(acc[0], zero[n2]), sub(acc[0], bias[n2]))"):
        assert after(TEXT.replace(SUM, other), lambda k: begin(k, M)) == expected


def test_sums_of_floats_are_rounded_in_their_order(after):
    assert after(PRODUCT, lambda k: begin(k, M)) == "sums of floats would be rounded differently"
