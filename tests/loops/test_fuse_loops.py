"""Two loops as one."""

from anyrt.core.dims import Sym
from anyrt.loops.fuse_loops import fuse_loops

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


def test_the_counter_of_both_is_taken_apart(after):
    wanted = """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial m4 0.. < 50 {
    alloc acc = 0.0:f32
    for serial k3 0.. < 3 {
      fold acc add mul(x[k3 + 3*mod(m4, 5)], w[floordiv(m4, 5) + 10*k3])
    }
    store y[floordiv(m4, 5) + 10*mod(m4, 5)] = acc[0]
  }
}
"""
    text = TEXT
    made = after(text, lambda k: fuse_loops(k, N, M, Sym("m4", extent=50)))
    assert made == wanted


def test_both_are_loops_around_the_statements(after):
    text = TEXT
    why = after(text, lambda k: fuse_loops(k, N, Sym("o", extent=2), Sym("m4", extent=20)))
    assert why == "n2 and o are no loops around the kernel's statements"
