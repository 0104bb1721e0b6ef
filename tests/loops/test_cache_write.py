"""Sums move from registers to memory through scratch."""

from anyrt.core.dims import Sym
from anyrt.loops.cache_write import cache_write, cache_write_at
from tests.loops.products import PRODUCT, M

B, ROWS = Sym("b1", extent=2), Sym("m2", extent=5)

TURNS = """
buffer acc f32 register 1 offset 0
buffer w FLOAT const 30 offset 0
buffer x FLOAT input 15 offset 0
buffer y FLOAT output 50 offset 0
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial b1 0.. < 2 {
    for serial m2 0.. < 5 {
      for serial n3 0.. < 5 {
        alloc acc = 0.0:f32
        for serial k4 0.. < 3 {
          fold acc add mul(x[3*m2 + k4], w[10*k4 + 2*n3 + b1])
        }
        store y[10*n3 + 2*m2 + b1] = acc[0]
      }
    }
  }
}
"""


def test_the_epilogue_of_a_tile_has_separate_loops(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 320 {
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = 0.0:f32
      for serial k3 0.. < 3 {
        fold acc add mul(x[k3 + 3*m1], w[10*k3 + n2])
      }
      store tile11[16*m1 + n2] = acc[0]
    }
  }
  for serial e12 0.. < 5 {
    for vector n2 0.. < 10 {
      store y[10*e12 + n2] = tile11[16*e12 + n2]
    }
  }
}
"""
    built = after(PRODUCT, lambda k: cache_write(k, names, M, 5, lambda lanes: 16, 0))
    assert built == expected


def test_along_the_rows_it_is_stored_in_squares(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 320 {
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = 0.0:f32
      for serial k3 0.. < 3 {
        fold acc add mul(x[k3 + 3*m1], w[10*k3 + n2])
      }
      store tile11[16*m1 + n2] = acc[0]
    }
  }
  for vector e12 0.. < 5 {
    for tile j14 0.. < 10 {
      store y[e12 + 5*j14] = tile11[16*e12 + j14]
    }
  }
}
"""
    text = PRODUCT.replace("10*m1 + n2", "m1 + 5*n2")
    built = after(text, lambda k: cache_write(k, names, M, 5, lambda lanes: 16, 16))
    assert built == expected


def test_alternating_sums_leave_scratch_together(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 640 {
  for serial b1 0.. < 2 {
    for serial m2 0.. < 5 {
      for serial n3 0.. < 5 {
        alloc acc = 0.0:f32
        for serial k4 0.. < 3 {
          fold acc add mul(x[k4 + 3*m2], w[b1 + 10*k4 + 2*n3])
        }
        store tiles11[16*b1 + 32*m2 + n3] = acc[0]
      }
    }
  }
  for vector e12 0.. < 10 {
    for tile j14 0.. < 5 {
      store y[e12 + 10*j14] = tiles11[16*e12 + j14]
    }
  }
}
"""
    text = TURNS
    built = after(text, lambda k: cache_write_at(k, names, B, ROWS, 5, 16, B, 16))
    assert built == expected
