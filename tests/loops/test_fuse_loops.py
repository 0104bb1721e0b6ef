"""Two loops fused into one."""

from anyrt.core.dims import Sym
from anyrt.loops.fuse_loops import fuse_loops
from tests.loops.products import PRODUCT, M, N


def test_the_counter_of_both_is_taken_apart(after):
    expected = """\
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
    built = after(PRODUCT, lambda k: fuse_loops(k, N, M, Sym("m4", extent=50)))
    assert built == expected


def test_both_are_loops_around_the_statements(after):
    why = after(PRODUCT, lambda k: fuse_loops(k, N, Sym("o", extent=2), Sym("m4", extent=20)))
    assert why == "n2 and o are not loops around the kernel's statements"
