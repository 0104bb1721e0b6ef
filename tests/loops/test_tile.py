"""Loops that read across memory, in strips."""

from anyrt.loops.tile import Strips, tile

BUFFERS = """
buffer x FLOAT input 400 offset 0
buffer y FLOAT output 400 offset 0
"""
STRIPS = Strips(line=32, run=8, least_run=32, chunk=2, items=1, few=False)


def test_a_transpose_goes_through_memory_in_strips(after, names):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 20 {
    for serial i2 0.. < 20 {
      store y[20*i1 + i2] = x[i1 + 20*i2]
    }
  }
}
"""
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial b14 0.. < 3 {
    for serial b12 0.. < 2 {
      for serial i13 0.. < min(2, 3 + -2*b12) {
        e0 = lt(index(2*b12 + i13), 2:i64)
        if e0 {
          for vector i15 0.. < min(20 + -8*b14, 8) {
            for tile t16 0.. < 8 {
              store y[320*b12 + 8*b14 + 160*i13 + i15 + 20*t16] = x[16*b12 + 160*b14 + 8*i13 + 20*i15 + t16]
            }
          }
        }
        if not(e0) {
          for vector i15 0.. < min(20 + -8*b14, 8) {
            for tile t17 0.. < min(20 + -16*b12 + -8*i13, 8) {
              store y[320*b12 + 8*b14 + 160*i13 + i15 + 20*t17] = x[16*b12 + 160*b14 + 8*i13 + 20*i15 + t17]
            }
          }
        }
      }
    }
  }
}
"""
    assert after(BUFFERS + text, lambda k: tile(k, names, STRIPS, lambda v: v.extent)) == expected


def test_strips_that_fill_the_last_one_need_one_version(after, names):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 16 {
    for serial i2 0.. < 25 {
      store y[25*i1 + i2] = x[i1 + 16*i2]
    }
  }
}
"""
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial b14 0.. < 4 {
    for serial b12 0.. < 1 {
      for serial i13 0.. < 2 {
        for vector i15 0.. < min(25 + -8*b14, 8) {
          for tile t16 0.. < 8 {
            store y[400*b12 + 8*b14 + 200*i13 + i15 + 25*t16] = x[16*b12 + 128*b14 + 8*i13 + 16*i15 + t16]
          }
        }
      }
    }
  }
}
"""
    assert after(BUFFERS + text, lambda k: tile(k, names, STRIPS, lambda v: v.extent)) == expected


def test_contiguous_reads_need_no_strips(after, names):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 20 {
    for serial i2 0.. < 20 {
      store y[20*i1 + i2] = x[19 + 20*i1 + -1*i2]
    }
  }
}
"""
    reason = after(BUFFERS + text, lambda k: tile(k, names, STRIPS, lambda v: v.extent))
    assert reason == "nothing is read across memory"
