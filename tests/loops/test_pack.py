"""Operands of sums, copied into the order in which the sums read them."""

from anyrt.loops.pack import pack_m, pack_n
from tests.loops.products import PRODUCT, M


def test_a_panel_has_the_lanes_of_each_term_side_by_side(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 192 {
  for serial k3 0.. < 3 {
    for vector n2 0.. < 10 {
      store panel11[16*k3 + n2] = w[10*k3 + n2]
    }
  }
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = 0.0:f32
      for serial k3 0.. < 3 {
        fold acc add mul(x[k3 + 3*m1], panel11[16*k3 + n2])
      }
      store y[10*m1 + n2] = acc[0]
    }
  }
}
"""
    built = after(PRODUCT, lambda k: pack_n(k, names, M, M, 16, 16))
    assert built == expected


def test_squares_are_transposed_where_terms_lie_side_by_side(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 192 {
  for vector n2 0.. < 10 {
    for tile k13 0.. < 3 {
      store panel11[16*k13 + n2] = w[k13 + 3*n2]
    }
  }
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = 0.0:f32
      for serial k3 0.. < 3 {
        fold acc add mul(x[k3 + 3*m1], panel11[16*k3 + n2])
      }
      store y[10*m1 + n2] = acc[0]
    }
  }
}
"""
    text = PRODUCT.replace("10*k3 + n2]", "k3 + 3*n2]")
    built = after(text, lambda k: pack_n(k, names, M, M, 16, 16))
    assert built == expected


def test_each_row_has_its_terms_side_by_side_apart_from_the_next(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 192 {
  for vector k3 0.. < 3 {
    for tile r15 0.. < 5 {
      store rows12[k3 + 7*r15] = x[5*k3 + r15]
    }
  }
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = 0.0:f32
      for serial k3 0.. < 3 {
        fold acc add mul(rows12[k3 + 7*m1], w[10*k3 + n2])
      }
      store y[10*m1 + n2] = acc[0]
    }
  }
}
"""
    text = PRODUCT.replace("3*m1 + k3", "m1 + 5*k3")
    built = after(text, lambda k: pack_m(k, names, M, M, 5, 4, 16))
    assert built == expected


def test_rows_of_terms_are_copied_as_they_are(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 192 {
  for serial r11 0.. < 5 {
    for vector k3 0.. < 3 {
      store rows12[k3 + 7*r11] = x[k3 + 3*r11]
    }
  }
  for serial m1 0.. < 5 {
    for serial n2 0.. < 10 {
      alloc acc = 0.0:f32
      for serial k3 0.. < 3 {
        fold acc add mul(rows12[k3 + 7*m1], w[10*k3 + n2])
      }
      store y[10*m1 + n2] = acc[0]
    }
  }
}
"""
    built = after(PRODUCT, lambda k: pack_m(k, names, M, M, 5, 4, 16))
    assert built == expected
