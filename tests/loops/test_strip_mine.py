"""Loops split into pieces, and loops that an index divides."""

from dataclasses import replace

from anyrt.core.dims import Sym
from anyrt.loops.nest import each_nest
from anyrt.loops.strip_mine import delinearised, strip_mine

TEXT = """
symbol n 1..500
buffer x FLOAT input 2*n offset 0
buffer y FLOAT output 2*n offset 0
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < n {
    for serial i2 0.. < 2 {
      store y[2*i1 + i2] = neg(x[i1 + n*i2])
    }
  }
}
"""
SIZES = [{"n": n} for n in (1, 15, 16, 33)]


def test_the_last_piece_of_a_loop_is_shorter(after, names):
    i1 = Sym("i1", extent=Sym("n", 1, 500).dim)
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial b11 0.. < floordiv(15 + n, 16) {
    for serial i12 0.. < min(-16*b11 + n, 16) {
      for serial i2 0.. < 2 {
        store y[32*b11 + 2*i12 + i2] = neg(x[16*b11 + i12 + i2*n])
      }
    }
  }
}
"""
    assert after(TEXT, lambda k: strip_mine(k, names, i1, 16), sizes=SIZES) == expected


def test_only_loops_around_all_statements_are_cut(after, names):
    reason = after(TEXT, lambda k: strip_mine(k, names, Sym("i7", extent=4), 16))
    assert reason == "i7 is not a loop around the kernel's statements"


def test_a_loop_that_an_index_divides_becomes_two(after, names):
    text = """
buffer x FLOAT input 60 offset 0
buffer y FLOAT output 60 offset 0
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 60 {
    store y[i1] = x[15*mod(i1, 4) + floordiv(i1, 4)]
  }
}
"""

    def split(kernel):
        return replace(kernel, body=each_nest(kernel.body, lambda nest: delinearised(nest, names).loops))

    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i11 0.. < 15 {
    for serial i12 0.. < 4 {
      store y[4*i11 + i12] = x[i11 + 15*i12]
    }
  }
}
"""
    assert after(text, split) == expected
