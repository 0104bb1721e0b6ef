"""Loops split into pieces."""

from anyrt.core.dims import Sym, add, minimum, mul
from anyrt.loops.split import split, split_within
from tests.loops.products import PRODUCT, M, N

T = Sym("t4", extent=3)
I5 = Sym("i5", extent=minimum(2, add(5, mul(T.dim, -2))))
N5 = Sym("n5", extent=minimum(4, add(10, mul(T.dim, -4))))


def test_a_loop_becomes_two_whose_counters_say_together_where_it_is(after):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial t4 0.. < 3 {
    for serial i5 0.. < min(2, 5 + -2*t4) {
      for serial n2 0.. < 10 {
        alloc acc = 0.0:f32
        for serial k3 0.. < 3 {
          fold acc add mul(x[3*i5 + k3 + 6*t4], w[10*k3 + n2])
        }
        store y[10*i5 + n2 + 20*t4] = acc[0]
      }
    }
  }
}
"""
    built = after(PRODUCT, lambda k: split(k, M, (T, I5), add(mul(T.dim, 2), I5.dim)))
    assert built == expected


def test_one_part_stands_in_its_place_and_one_around_another_loop(after):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial t4 0.. < 3 {
    for serial m1 0.. < 5 {
      for serial n5 0.. < min(10 + -4*t4, 4) {
        alloc acc = 0.0:f32
        for serial k3 0.. < 3 {
          fold acc add mul(x[k3 + 3*m1], w[10*k3 + n5 + 4*t4])
        }
        store y[10*m1 + n5 + 4*t4] = acc[0]
      }
    }
  }
}
"""
    built = after(PRODUCT, lambda k: split_within(k, M, N, (T,), N5, add(mul(T.dim, 4), N5.dim)))
    assert built == expected


def test_statements_other_than_loops_are_not_split(after):
    why = after(PRODUCT, lambda k: split(k, Sym("o", extent=2), (), 0))
    assert why == "o is not a loop around the kernel's statements"
