"""Loops whose counters are only decomposed by sums of products."""

from anyrt.ir.kernelread import parse_kernels
from anyrt.loops.whole_turns import whole_turns

TEXT = """
symbol n 1..100
buffer acc f32 register 1 offset 0
buffer w FLOAT const 12 offset 0
buffer x FLOAT input 3*floordiv(3 + n, 4) offset 0
buffer y FLOAT output n offset 0
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < n {
    alloc acc = 0.0:f32
    for serial k2 0.. < 3 {
      fold acc add mul(w[3*mod(i1, 4) + k2], x[3*floordiv(i1, 4) + k2])
    }
    store y[i1] = acc[0]
  }
}
"""
EXPECTED = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial t11 0.. < floordiv(3 + n, 4) {
    for serial b12 0.. < 4 {
      alloc acc = 0.0:f32
      for serial k2 0.. < 3 {
        fold acc add mul(w[k2 + 3*min(-1 + n + -4*t11, b12)], x[k2 + 3*t11])
      }
      store y[min(-1 + n + -4*t11, b12) + 4*t11] = acc[0]
    }
  }
}
"""


def test_a_counter_that_is_only_taken_apart_becomes_two_loops(after, names):
    built = after(TEXT, lambda kernel: whole_turns(kernel, names), sizes=[{"n": n} for n in (1, 4, 7, 13)])
    assert built == EXPECTED


def test_a_factor_that_moves_with_every_iteration_leaves_the_loop(names):
    (kernel,) = parse_kernels(TEXT.replace("x[3*floordiv(i1, 4)", "x[3*floordiv(i1, 4) + mod(i1, 4)"))
    assert whole_turns(kernel, names).reason == "no factor is the same for several contiguous elements"


def test_long_periods_leave_the_loop(names):
    (kernel,) = parse_kernels(TEXT.replace("(i1, 4)", "(i1, 9)"))
    assert whole_turns(kernel, names).reason == "no factor is the same for several contiguous elements"
