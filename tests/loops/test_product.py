"""Transformations of a sum of products before tiling."""

from anyrt.core.dims import Sym
from anyrt.ir.kernelread import parse_kernels
from anyrt.loops.product import factors_in, product_of, summed_in
from tests.loops.products import PRODUCT

TWO = """
buffer acc f32 register 1 offset 0
buffer w FLOAT const 60 offset 0
buffer x FLOAT input 30 offset 0
buffer y FLOAT output 50 offset 0
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = 0.0:f32
      for serial k3 0.. < 3 {
        for serial k4 0.. < 2 {
          fold acc add mul(x[6*m1 + k3 + 3*k4], w[10*k3 + 30*k4 + n2])
        }
      }
      store y[10*m1 + n2] = acc[0]
    }
  }
}
"""


def test_loops_that_move_the_first_factor_are_m_and_the_second_n():
    p = product_of(parse_kernels(PRODUCT)[0])
    assert [v.name for v in p.m] == ["m1"]
    assert [v.name for v in p.n] == ["n2"]
    assert p.batch == ()
    assert [v.name for v in p.turned.m] == ["n2"]


def test_the_factors_of_a_sum_change_places(after):
    (kernel,) = parse_kernels(PRODUCT)
    p = product_of(kernel).turned
    built = after(PRODUCT, lambda k: factors_in(k, p.first, p.second))
    assert "fold acc add mul(w[10*k3 + n2], x[k3 + 3*m1])" in built
    assert factors_in(kernel, p.second, p.first).reason == "its first factor is that of m already"


def test_the_loops_of_a_sum_change_places(after):
    k3, k4 = Sym("k3", extent=3), Sym("k4", extent=2)
    built = after(TWO, lambda k: summed_in(k, (k4, k3)))
    assert built.index("for serial k4 0.. < 2") < built.index("for serial k3 0.. < 3")
    assert after(TWO, lambda k: summed_in(k, (k3, k4))) == "its loops are in the best order already"
