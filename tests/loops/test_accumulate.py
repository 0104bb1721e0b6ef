"""Sums of a tile in registers."""

from anyrt.loops.accumulate import accumulate
from anyrt.loops.nest import Names
from tests.loops.products import PRODUCT, M


def test_rows_are_unrolled_and_lanes_are_vectors(after, names):
    expected = """\
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
    built = after(PRODUCT, lambda k: accumulate(k, names, M, lambda lanes: 2))
    assert built == expected


def test_rows_between_two_lanes_are_stored_together(after, names):
    expected = """\
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
    text = PRODUCT.replace("10*m1 + n2", "m1 + 5*n2")
    built = after(text, lambda k: accumulate(k, names, M, lambda lanes: 1, 5))
    assert built == expected


def test_terms_that_neighbouring_rows_share_follow_one_another(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for vector n2 0.. < 10 {
    alloc acc11 = 0.0:f32
    for unroll m1 0.. < 5 {
      for unroll k3 0.. < 3 {
        fold acc11[m1] add mul(x[k3 + m1], w[10*k3 + n2])
      }
    }
    for unroll e12 0.. < 5 {
      store y[10*e12 + n2] = acc11[e12]
    }
  }
}
"""
    windows = PRODUCT.replace("3*m1", "m1")
    assert after(windows, lambda k: accumulate(k, names, M, lambda lanes: 1, slides=True)) == expected


def test_terms_of_each_row_alone_do_not(after, names):
    plain = after(PRODUCT, lambda k: accumulate(k, Names(10), M, lambda lanes: 1))
    assert after(PRODUCT, lambda k: accumulate(k, names, M, lambda lanes: 1, slides=True)) == plain
