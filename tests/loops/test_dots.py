"""Sums over words of terms."""

from anyrt.backends.cpu.intrinsics import BYTES as DOT
from anyrt.backends.cpu.intrinsics import PAIRS, SHORTS, UNSIGNED
from anyrt.loops.cache_write import cache_write
from anyrt.loops.dots import dots, dots_of_halves, finite, short_products, unsigned
from anyrt.loops.pack import pack_m
from anyrt.loops.product import product_of
from tests.loops.products import PRODUCT, M, N


def copied(kernel, names):
    """Rows of words in scratch."""
    return pack_m(dots(kernel, names, M, DOT), names, M, M, 5, 4, 16)


def kept(kernel, names):
    """Sums in scratch."""
    return cache_write(kernel, names, M, 5, lambda lanes: 16, 0)


BYTES = """
buffer acc i32 register 1 offset 0
buffer w INT8 const 80 offset 0
buffer x INT8 input 40 offset 0
buffer y INT32 output 50 offset 0
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = 0:i32
      for serial k3 0.. < 8 {
        fold acc add mul(i32(x[8*m1 + k3]), i32(w[8*n2 + k3]))
      }
      store y[10*m1 + n2] = acc[0]
    }
  }
}
"""
HALVES = """
buffer acc f32 register 1 offset 0
buffer w HALF const 30 offset 0
buffer x HALF input 15 offset 0
buffer y FLOAT output 50 offset 0
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = 0.0:f32
      for serial k3 0.. < 3 {
        fold acc add mul(f32(x[3*m1 + k3]), f32(w[10*k3 + n2]))
      }
      store y[10*m1 + n2] = acc[0]
    }
  }
}
"""


def test_four_bytes_are_a_word_of_one_dot(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = 0:i32
      for serial w11 0.. < 2 {
        fold acc add dot4(word(x[8*m1 + 4*w11]), word(w[8*n2 + 4*w11]))
      }
      store y[10*m1 + n2] = acc[0]
    }
  }
}
"""
    text = BYTES
    built = after(text, lambda k: dots(k, names, M, DOT))
    assert built == expected


def test_two_dots_sum_the_products_of_both_parts_of_a_float16(after):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = 0.0:f32
      for serial k3 0.. < 3 {
        e0 = f32(w[10*k3 + n2])
        e1 = and(bitcast.i32(e0), -65536:i32)
        e2 = f32(x[k3 + 3*m1])
        e3 = and(bitcast.i32(e2), -65536:i32)
        e4 = or(lshr(e3, 16:i32), bitcast.i32(sub(e2, bitcast.f32(e3))))
        fold acc add dot2(e4, or(lshr(e1, 16:i32), e1))
        e5 = bitcast.i32(sub(e0, bitcast.f32(e1)))
        fold acc add dot2(e4, or(lshr(e5, 16:i32), e5))
      }
      store y[10*m1 + n2] = acc[0]
    }
  }
}
"""
    text = HALVES
    built = after(text, lambda k: dots_of_halves(k, M, PAIRS))
    assert built == expected


def test_bytes_are_made_unsigned_where_rows_are_stored(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 192 {
  for serial r12 0.. < 5 {
    for vector w11 0.. < 2 {
      store rows13[6*r12 + w11] = xor(word(x[8*r12 + 4*w11]), -2139062144:i32)
    }
  }
  for vector n2 0.. < 10 {
    alloc acc18 = 0:i32
    for serial w16 0.. < 1 {
      for unroll c17 0.. < 2 {
        fold acc18[c17] add dot4u(-2139062144:i32, word(w[4*c17 + 8*n2 + 8*w16]))
      }
    }
    store less15[n2] = sub(sub(0:i32, acc18[0]), acc18[1])
  }
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = less15[n2]
      for serial w11 0.. < 2 {
        fold acc add dot4u(rows13[6*m1 + w11], word(w[8*n2 + 4*w11]))
      }
      store y[10*m1 + n2] = acc[0]
    }
  }
}
"""
    text = BYTES
    built = after(text, lambda k: unsigned(copied(k, names), names, M, M, N, (10, 1), UNSIGNED))
    assert built == expected


def test_sums_that_are_not_finite_are_made_once_more(after, names):
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
  alloc odd14 = 0.0:f32
  for serial e13 0.. < 5 {
    for vector n2 0.. < 10 {
      fold odd14 add mul(tile11[16*e13 + n2], 0.0:f32)
    }
  }
  if ne(odd14[0], odd14[0]) {
    for serial e13 0.. < 5 {
      for vector n2 0.. < 10 {
        alloc acc15 = 0.0:f32
        for serial k3 0.. < 3 {
          fold acc15 add mul(x[3*e13 + k3], w[10*k3 + n2])
        }
        store tile11[16*e13 + n2] = acc15[0]
      }
    }
  }
  for serial e12 0.. < 5 {
    for vector n2 0.. < 10 {
      store y[10*e12 + n2] = tile11[16*e12 + n2]
    }
  }
}
"""
    built = after(PRODUCT, lambda k: finite(kept(k, names), names, M, product_of(k)))
    assert built == expected


SHORT = BYTES.replace("for serial k3 0.. < 8", "for serial k3 0.. < 7")


def test_products_of_bytes_that_fill_no_words_are_dots_with_zeros(after):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = 0:i32
      for serial k3 0.. < 7 {
        fold acc add dot2s(i32(x[k3 + 8*m1]), and(i32(w[k3 + 8*n2]), 65535:i32))
      }
      store y[10*m1 + n2] = acc[0]
    }
  }
}
"""
    assert after(SHORT, lambda k: short_products(k, M, SHORTS)) == expected


def test_integers_that_may_be_large_are_multiplied_as_they_are(after):
    text = SHORT.replace("i32(x[8*m1 + k3])", "mul(i32(x[8*m1 + k3]), 257:i32)")
    expected = "its factors may have more than 16 bits"
    assert after(text, lambda k: short_products(k, M, SHORTS)) == expected
