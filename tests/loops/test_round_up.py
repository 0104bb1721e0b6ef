"""Tiles that are always whole."""

from anyrt.backends.cpu.intrinsics import BYTES as DOT
from anyrt.loops.cache_write import cache_write
from anyrt.loops.dots import dots
from anyrt.loops.pack import pack_m, pack_n
from anyrt.loops.round_up import round_up
from tests.loops.products import M


def whole(kernel, names):
    """Words in scratch, as far as they go, and zeros behind them."""
    made = pack_m(dots(kernel, names, M, DOT), names, M, M, 5, 4, 16, 16)
    made = cache_write(pack_n(made, names, M, M, 16, 16, 16), names, M, 5, lambda lanes: 16, 0)
    return round_up(made, names, M, (5, 16), 16, (True, True))


WIDE = """
buffer acc i32 register 1 offset 0
buffer w INT8 const 128 offset 0
buffer x INT8 input 40 offset 0
buffer y INT32 output 80 offset 0
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial m1 0.. < 5 {
    for serial n2 0.. < 16 {
      alloc acc = 0:i32
      for serial k3 0.. < 8 {
        fold acc add mul(i32(x[8*m1 + k3]), i32(w[8*n2 + k3]))
      }
      store y[16*m1 + n2] = acc[0]
    }
  }
}
"""


def test_words_fill_a_tile(after, names):
    wanted = """\
kernel "k" p0 0.. < 1 work 32 scratch 1792 {
  for serial r12 0.. < 5 {
    for vector w11 0.. < 2 {
      store rows13[20*r12 + w11] = word(x[8*r12 + 4*w11])
    }
    for vector z14 0.. < 14 {
      store rows13[2 + 20*r12 + z14] = 0:i32
    }
  }
  for serial w11 0.. < 2 {
    for vector n2 0.. < 16 {
      store panel15[n2 + 16*w11] = word(w[8*n2 + 4*w11])
    }
  }
  for serial z16 0.. < 14 {
    for vector n2 0.. < 16 {
      store panel15[32 + n2 + 16*z16] = 0:i32
    }
  }
  for serial m1 0.. < 5 {
    for serial n2 0.. < 16 {
      alloc acc = 0:i32
      for serial w19 0.. < 16 {
        fold acc add dot4(rows13[20*m1 + w19], panel15[n2 + 16*w19])
      }
      store tile17[16*m1 + n2] = acc[0]
    }
  }
  for serial e18 0.. < 5 {
    for vector n2 0.. < 16 {
      store y[16*e18 + n2] = tile17[16*e18 + n2]
    }
  }
}
"""
    text = WIDE
    made = after(text, lambda k: whole(k, names))
    assert made == wanted
