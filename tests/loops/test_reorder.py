"""A short loop moved innermost."""

from anyrt.loops.reorder import few_last

BUFFERS = """
buffer x FLOAT input 96 offset 0
buffer y FLOAT output 96 offset 0
"""


def test_the_loop_over_channels_that_lie_side_by_side_comes_last(after):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 3 {
    for serial i2 0.. < 32 {
      store y[32*i1 + i2] = x[i1 + 3*i2]
    }
  }
}
"""
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i2 0.. < 32 {
    for serial i1 0.. < 3 {
      store y[32*i1 + i2] = x[i1 + 3*i2]
    }
  }
}
"""
    assert after(BUFFERS + text, few_last) == expected


def test_planes_stay_as_they_are(after):
    text = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 3 {
    for serial i2 0.. < 32 {
      store y[32*i1 + i2] = x[32*i1 + i2]
    }
  }
}
"""
    assert after(BUFFERS + text, few_last) == "no short loop reads contiguous elements and stores them apart"
