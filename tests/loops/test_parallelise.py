"""Outer loops that become the parallel loop."""

from anyrt.loops.parallelise import parallelise

TEXT = """
symbol n 1..9
buffer x FLOAT input 24*n offset 0
buffer y FLOAT output 24*n offset 0
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < n {
    for serial i2 0.. < 4 {
      for serial i3 0.. < 6 {
        store y[24*i1 + 6*i2 + i3] = neg(x[4*n*i3 + 4*i1 + i2])
      }
    }
  }
}
"""
SIZES = [{"n": 1}, {"n": 7}]


def test_an_item_takes_the_counter_of_several_loops_apart(after, names):
    expected = """\
kernel "k" p11 0.. < 4*n work 1 scratch 0 {
  let i1 0.. < n = floordiv(p11, 4)
  let i2 0.. < 4 = mod(p11, 4)
  for serial i3 0.. < 6 {
    store y[24*i1 + 6*i2 + i3] = neg(x[4*i1 + i2 + 4*i3*n])
  }
}
"""
    assert after(TEXT, lambda k: parallelise(k, names, 2), sizes=SIZES) == expected


def test_there_are_no_more_loops_than_stand_around_all_statements(after, names):
    reason = after(TEXT, lambda k: parallelise(k, names, 4))
    assert reason == "there are 3 loops around the kernel's statements, not 4"
