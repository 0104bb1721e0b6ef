"""A few iterations of an outer loop merged into one body."""

from anyrt.loops.share import share

BUFFERS = """
buffer x FLOAT input 20 offset 0
buffer p FLOAT input 32 offset 0
buffer y FLOAT output 64 offset 0
"""


def test_positions_are_computed_once_for_all_channels(after):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 2 {
    for serial i2 0.. < 32 {
      bound v.0 at 0..9 = min(max(i32(mul(mul(mul(p[i2], 2.0:f32), floor(p[i2])), p[i2])), 0:i32), 9:i32)
      store y[32*i1 + i2] = sub(x[v.0 + 10*i1], 1.0:f32)
    }
  }
}
"""
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i2 0.. < 32 {
    e0 = min(max(i32(mul(mul(mul(p[i2], 2.0:f32), floor(p[i2])), p[i2])), 0:i32), 9:i32)
    bound v.0 at 0..9 = e0
    store y[i2] = sub(x[v.0], 1.0:f32)
    store y[32 + i2] = sub(x[10 + v.0], 1.0:f32)
  }
}
"""
    assert after(BUFFERS + text, share) == expected


def test_cheap_values_are_recomputed(after):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 2 {
    for serial i2 0.. < 32 {
      store y[32*i1 + i2] = mul(add(p[i2], 1.0:f32), x[10*i1])
    }
  }
}
"""
    assert after(BUFFERS + text, share) == "no short loop repeats expensive expressions"


def test_few_elements_side_by_side_stay_one_tile(after):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 2 {
    for serial i2 0.. < 16 {
      for serial i3 0.. < 2 {
        bound v.0 at 0..9 = min(max(i32(mul(mul(mul(p[2*i2 + i3], p[i3]), neg(p[i2])), p[i3])), 0:i32), 9:i32)
        store y[32*i1 + 2*i2 + i3] = x[v.0 + 10*i1]
      }
    }
  }
}
"""
    assert after(BUFFERS + text, share) == "no short loop repeats expensive expressions"
