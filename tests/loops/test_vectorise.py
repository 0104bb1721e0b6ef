"""The loop of each nest that is vectorised."""

from anyrt.loops.vectorise import vectorise

BUFFERS = """
buffer acc f32 register 1 offset 0
buffer c FLOAT const 3 offset 0
buffer x FLOAT input 192 offset 0
buffer y FLOAT output 192 offset 0
"""


def test_a_fold_takes_the_loop_that_walks_memory(after):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  alloc acc = 0.0:f32
  for serial r1 0.. < 24 {
    for serial r2 0.. < 8 {
      fold acc add x[r1 + 24*r2]
    }
  }
  store y[0] = acc[0]
}
"""
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  alloc acc = 0.0:f32
  for serial r2 0.. < 8 {
    for vector r1 0.. < 24 {
      fold acc add x[r1 + 24*r2]
    }
  }
  store y[0] = acc[0]
}
"""
    assert after(BUFFERS + text, vectorise) == expected


def test_pixels_are_widened_over_their_positions(after):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 64 {
    for serial i2 0.. < 3 {
      store y[3*i1 + i2] = mul(x[3*i1 + i2], c[i2])
    }
  }
}
"""
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for vector i1 0.. < 64 {
    for tile i2 0.. < 3 {
      store y[3*i1 + i2] = mul(x[3*i1 + i2], c[i2])
    }
  }
}
"""
    assert after(BUFFERS + text, vectorise) == expected


def test_pixels_on_their_way_to_planes_are_read_together(after):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 64 {
    for serial i2 0.. < 3 {
      store y[i1 + 64*i2] = x[3*i1 + i2]
    }
  }
}
"""
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i2 0.. < 3 {
    for vector i1 0.. < 64 {
      store y[i1 + 64*i2] = x[3*i1 + i2]
    }
  }
}
"""
    assert after(BUFFERS + text, vectorise) == expected


def test_a_vectorised_loop_stays_unchanged(after):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for vector i1 0.. < 64 {
    store y[i1] = x[i1]
  }
}
"""
    assert after(BUFFERS + text, vectorise) == "no loop is left to widen"


def test_pixels_with_several_results_are_widened_over_their_positions(after):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 32 {
    for serial i2 0.. < 3 {
      store y[3*i1 + i2] = x[3*i1 + i2]
      store y[96 + 3*i1 + i2] = x[96 + 3*i1 + i2]
    }
  }
}
"""
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for vector i1 0.. < 32 {
    for tile i2 0.. < 3 {
      store y[3*i1 + i2] = x[3*i1 + i2]
    }
    for tile i2 0.. < 3 {
      store y[96 + 3*i1 + i2] = x[96 + 3*i1 + i2]
    }
  }
}
"""
    assert after(BUFFERS + text, vectorise) == expected
