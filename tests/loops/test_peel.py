"""The last iterations of a loop, peeled off."""

from anyrt.core.dims import Sym, mul
from anyrt.ir.kernel import Op, alu, index
from anyrt.loops.peel import Left, peel, specialize

M, P, N = Sym("m2"), Sym("p0", extent=2), Sym("n", 0, 9)
WHOLE = alu(Op.LE, index(8 + 8 * P.dim), index(10))
DOWN = Left((2, 1), False)
SIZES = [{"n": n} for n in (0, 1, 3, 4, 9)]
T2, TN = Sym("t1", extent=2), Sym("t1", extent=(3 + N.dim) // 4)

LEFT = """
buffer y FLOAT output 5 offset 0
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial t1 0.. < 2 {
    for serial m2 0.. < min(4, 5 + -4*t1) {
      store y[m2 + 4*t1] = 1.0:f32
    }
  }
}
"""
OPEN = """
symbol n 0..9
buffer y FLOAT output n offset 0
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial t1 0.. < floordiv(3 + n, 4) {
    for serial m2 0.. < min(4, n + -4*t1) {
      store y[m2 + 4*t1] = 1.0:f32
    }
  }
}
"""
PANELS = """
buffer x FLOAT input 50 offset 0
buffer y FLOAT output 50 offset 0
kernel "k" p0 0.. < 2 work 32 scratch 0 {
  for serial m1 0.. < 5 {
    for serial n2 0.. < min(8, 10 + -8*p0) {
      store y[10*m1 + n2 + 8*p0] = neg(x[10*m1 + n2 + 8*p0])
    }
  }
}
"""


def test_fewer_iterations_have_a_separate_loop(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial t1 0.. < 2 {
    e0 = le(index(4 + 4*t1), 5:i64)
    if e0 {
      for serial m2 0.. < 4 {
        store y[m2 + 4*t1] = 1.0:f32
      }
    }
    if not(e0) {
      for serial m2 0.. < 1 {
        store y[m2 + 4*t1] = 1.0:f32
      }
    }
  }
}
"""
    text = LEFT
    built = after(text, lambda k: peel(k, names, M, 4, mul(T2.dim, 4), 5, Left((1,), False)))
    assert built == expected


def test_a_dynamic_number_of_iterations_is_split_into_ever_smaller_blocks(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial t1 0.. < floordiv(3 + n, 4) {
    e0 = le(index(4 + 4*t1), index(n))
    if e0 {
      for serial m2 0.. < 4 {
        store y[m2 + 4*t1] = 1.0:f32
      }
    }
    if not(e0) {
      for serial r11 0.. < floordiv(min(3, n + -4*t1), 2) {
        for serial m2 0.. < 2 {
          store y[m2 + 2*r11 + 4*t1] = 1.0:f32
        }
      }
      for serial r12 0.. < -2*floordiv(min(3, n + -4*t1), 2) + min(3, n + -4*t1) {
        for serial m2 0.. < 1 {
          store y[2*floordiv(min(3, n + -4*t1), 2) + m2 + r12 + 4*t1] = 1.0:f32
        }
      }
    }
  }
}
"""
    text = OPEN
    built = after(
        text, lambda k: peel(k, names, M, 4, mul(TN.dim, 4), N.dim, Left((2, 1), False)), sizes=SIZES
    )
    assert built == expected


def test_the_last_iteration_of_a_dynamic_number_is_repeated(after, names):
    expected = """\
kernel "k" p0 0.. < 1 work 32 scratch 0 {
  for serial t1 0.. < floordiv(3 + n, 4) {
    e0 = le(index(4 + 4*t1), index(n))
    if e0 {
      for serial m2 0.. < 4 {
        store y[m2 + 4*t1] = 1.0:f32
      }
    }
    if not(e0) {
      for serial r11 0.. < floordiv(1 + min(3, n + -4*t1), 2) {
        for serial m2 0.. < 2 {
          store y[min(-1 + n, m2 + 2*r11 + 4*t1)] = 1.0:f32
        }
      }
    }
  }
}
"""
    text = OPEN
    built = after(text, lambda k: peel(k, names, M, 4, mul(TN.dim, 4), N.dim, Left((2,), True)), sizes=SIZES)
    assert built == expected


def test_the_last_panel_has_loops_of_its_own_lanes(after):
    expected = """\
kernel "k" p0 0.. < 2 work 32 scratch 0 {
  e0 = le(index(8 + 8*p0), 10:i64)
  if e0 {
    for serial m1 0.. < 5 {
      for serial n2 0.. < 8 {
        store y[10*m1 + n2 + 8*p0] = neg(x[10*m1 + n2 + 8*p0])
      }
    }
  }
  if not(e0) {
    for serial m1 0.. < 5 {
      for serial n2 0.. < 2 {
        store y[10*m1 + n2 + 8*p0] = neg(x[10*m1 + n2 + 8*p0])
      }
    }
  }
}
"""
    text = PANELS
    built = after(text, lambda k: specialize(k, Sym("m1"), Sym("n2"), WHOLE, (8, 2)))
    assert built == expected


def test_whole_iterations_are_left_unchanged(after, names):
    text = LEFT.replace("min(4, 5 + -4*t1)", "4").replace(" 5 offset", " 8 offset")
    why = after(text, lambda k: peel(k, names, M, 4, mul(T2.dim, 4), 8, Left((1,), False)))
    assert why == "all its turns are there"
