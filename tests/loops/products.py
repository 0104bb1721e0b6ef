"""The initial product of the tests of steps: loops over rows, lanes and terms, as scheduling writes them."""

from anyrt.core.dims import Sym

M, N = Sym("m1", extent=5), Sym("n2", extent=10)

PRODUCT = """
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
