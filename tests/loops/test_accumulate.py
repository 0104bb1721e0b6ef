"""Sums of a tile in registers."""

from anyrt.core.dims import Sym
from anyrt.loops.accumulate import accumulate

M, N = Sym("m1", extent=5), Sym("n2", extent=10)

TEXT = """
buffer acc f32 register 1 offset 0
buffer w FLOAT const 30 offset 0
buffer x FLOAT input 15 offset 0
buffer y FLOAT output 50 offset 0
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = 0.0:f32
      for serial k3 0.. < 3 {
        fold acc add mul(x[3*m1 + k3], w[10*k3 + n2])
      }
      store y[10*m1 + n2] = acc[0]
    }
  }
}
"""


def test_rows_are_unrolled_and_lanes_are_vectors(after, names):
    wanted = """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for vector*2 n2 0.. < 10 {
    alloc acc11 = 0.0:f32
    for serial k3 0.. < 3 {
      for unroll m1 0.. < 5 {
        fold acc11[m1] add mul(x[k3 + 3*m1], w[10*k3 + n2])
      }
    }
    for unroll e12 0.. < 5 {
      store y[10*e12 + n2] = acc11[e12]
    }
  }
}
"""
    text = TEXT
    made = after(text, lambda k: accumulate(k, names, M, lambda lanes: 2))
    assert made == wanted


def test_rows_between_two_lanes_are_stored_together(after, names):
    wanted = """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for vector n2 0.. < 10 {
    alloc acc11 = 0.0:f32
    for serial k3 0.. < 3 {
      for unroll m1 0.. < 5 {
        fold acc11[m1] add mul(x[k3 + 3*m1], w[10*k3 + n2])
      }
    }
    for unroll e12 0.. < 1 {
      for tile b13 0.. < 5 {
        store y[b13 + 5*e12 + 5*n2] = acc11[b13 + 5*e12]
      }
    }
  }
}
"""
    text = TEXT.replace("10*m1 + n2", "m1 + 5*n2")
    made = after(text, lambda k: accumulate(k, names, M, lambda lanes: 1, 5))
    assert made == wanted
