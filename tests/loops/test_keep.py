"""A value that would be stored back where it was loaded is not stored."""

from anyrt.loops.keep import keep

BUFFERS = """
buffer w INT32 input 2 offset 0
buffer x FLOAT input 12 offset 0
buffer y FLOAT output 60 offset 0
"""
TEXT = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 2 {
    for serial i2 0.. < 3 {
      for serial i3 0.. < 5 {
        for serial i4 0.. < 2 {
          store y[30*i1 + 10*i2 + 2*i3 + i4] = STORED
        }
      }
    }
  }
}
"""
HERE, NEW = "eq(w[i1], i32(index(i3)))", "x[6*i1 + 2*i2 + i4]"
OLD = "y[30*i1 + 10*i2 + 2*i3 + i4]"


def stored(value):
    """The kernel that stores a value."""
    return BUFFERS + TEXT.replace("STORED", value)


def test_unchanged_elements_are_neither_read_nor_stored(after):
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 2 {
    for serial i3 0.. < 5 {
      if CONDITION {
        for serial i2 0.. < 3 {
          for serial i4 0.. < 2 {
            store y[30*i1 + 10*i2 + 2*i3 + i4] = x[6*i1 + 2*i2 + i4]
          }
        }
      }
    }
  }
}
"""
    assert after(stored(f"select({HERE}, {NEW}, {OLD})"), keep) == expected.replace("CONDITION", HERE)
    assert after(stored(f"select({HERE}, {OLD}, {NEW})"), keep) == expected.replace(
        "CONDITION", f"not({HERE})"
    )


def test_another_element_is_stored(after):
    other = "y[30*i1 + 10*i2 + 2*i3]"
    assert after(stored(f"select({HERE}, {NEW}, {other})"), keep) == "it stores no element unchanged"


def test_conditions_of_single_elements_stay_choices(after):
    here = "eq(w[i1], i32(index(10*i2 + 2*i3 + i4)))"
    reason = "each element has its own condition"
    assert after(stored(f"select({here}, {NEW}, {OLD})"), keep) == reason


def test_unconditional_stores_stay(after):
    assert after(stored(NEW), keep) == "it stores no selection"
