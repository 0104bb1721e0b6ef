"""Tiles padded so that all are whole."""

from anyrt.backends.cpu.intrinsics import BYTES as DOT
from anyrt.loops.cache_write import cache_write
from anyrt.loops.dots import dots
from anyrt.loops.pack import pack_m, pack_n
from anyrt.loops.round_up import round_up
from tests.loops.products import M


def whole(kernel, names):
    """Words in scratch, followed by zeros up to the end of the tile."""
    result = pack_m(dots(kernel, names, M, DOT), names, M, M, 5, 4, 16, 16)
    result = cache_write(pack_n(result, names, M, M, 16, 16, 16), names, M, 5, lambda lanes: 16, 0)
    return round_up(result, names, M, (5, 16), 16, (True, True))


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
    expected = """\
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
    built = after(text, lambda k: whole(k, names))
    assert built == expected


PANELS = """
buffer acc i32 register 1 offset 0
buffer tile i32 scratch 32 offset 0
buffer w INT8 const 768 offset 0
buffer x INT8 input 32 offset 0
buffer y INT32 output 280 offset 0
kernel "k" p0 0.. < 9 work 32 scratch 128 {
  for serial m1 0.. < 4 {
    for serial n2 0.. < min(8, 70 + -8*p0) {
      alloc acc = 0:i32
      for serial w3 0.. < 2 {
        fold acc add dot4(word(x[8*m1 + 4*w3]), word(w[256*floordiv(n2 + 8*p0, 32) + 4*mod(n2 + 8*p0, 32) + 128*w3]))
      }
      store tile[8*m1 + n2] = acc[0]
    }
  }
  for serial e4 0.. < 4 {
    for vector n2 0.. < min(8, 70 + -8*p0) {
      store y[70*e4 + n2 + 8*p0] = tile[8*e4 + n2]
    }
  }
}
"""  # noqa: E501 (a statement is a line)


def test_lanes_of_a_tile_lie_in_one_of_the_wider_panels(after, names):
    built = after(PANELS, lambda k: round_up(k, names, M, (4, 8), 2, (False, False)))
    assert "word(w[256*floordiv(p0, 4) + 32*mod(p0, 4) + 4*n2 + 128*w11])" in built


def test_lanes_of_tiles_that_panels_do_not_divide_into_may_lie_in_two(after, names):
    apart = PANELS.replace("n2 + 8*p0, 32", "n2 + 6*p0, 32")
    built = after(apart, lambda k: round_up(k, names, M, (4, 8), 2, (False, False)))
    assert "floordiv(n2 + 6*p0, 32)" in built
