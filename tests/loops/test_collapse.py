"""Adjacent loops merged into one."""

from anyrt.loops.collapse import collapse

BUFFERS = """
buffer x FLOAT input 240 offset 0
buffer y FLOAT output 240 offset 0
"""


def test_loops_that_move_all_indices_as_one_counter_become_one(after, names):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 5 {
    for serial i2 0.. < 1 {
      for serial i3 0.. < 6 {
        for serial i4 0.. < 8 {
          store y[48*i1 + 8*i3 + i2 + i4] = neg(x[i1 + 40*i3 + 5*i4])
        }
      }
    }
  }
}
"""
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 5 {
    for serial i11 0.. < 48 {
      store y[48*i1 + i11] = neg(x[i1 + 5*i11])
    }
  }
}
"""
    assert after(BUFFERS + text, lambda k: collapse(k, names)) == expected


def test_loops_that_an_index_moves_with_differently_stay(after, names):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 40 {
    for serial i2 0.. < 6 {
      store y[6*i1 + i2] = x[i1 + 40*i2]
    }
  }
}
"""
    assert after(BUFFERS + text, lambda k: collapse(k, names)) == "no index moves with two loops as with one"
