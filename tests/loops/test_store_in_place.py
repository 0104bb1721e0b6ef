"""Intermediate rows stored in the place of the final results."""

from anyrt.loops.store_in_place import store_in_place

BUFFERS = """
buffer acc f32 register 1 offset 0
buffer row f32 scratch 64 offset 0
buffer x FLOAT input 256 offset 0
buffer y FLOAT output 256 offset 0
"""
ROWS = """
kernel "k" p0 0.. < 4 work 1 scratch 256 {
  let i1 0.. < 4 = p0
  alloc acc = 0.0:f32
  for vector r2 0.. < 64 {
    e0 = sqrt(x[64*i1 + r2])
    store row[r2] = e0
    fold acc add e0
  }
  for vector i3 0.. < 64 {
    store y[64*i1 + i3] = mul(row[i3], acc[0])
  }
}
"""


def test_a_row_lies_where_its_results_will(after):
    expected = """\
kernel "k" p0 0.. < 4 work 1 scratch 256 {
  let i1 0.. < 4 = p0
  alloc acc = 0.0:f32
  for vector r2 0.. < 64 {
    e0 = sqrt(x[64*i1 + r2])
    store y[64*i1 + r2] = e0
    fold acc add e0
  }
  for vector i3 0.. < 64 {
    store y[64*i1 + i3] = mul(y[64*i1 + i3], acc[0])
  }
}
"""
    assert after(BUFFERS + ROWS, store_in_place) == expected


def test_results_of_another_type_have_no_room(after):
    text = (BUFFERS + ROWS).replace("y FLOAT", "y HALF").replace("mul(row[i3], acc[0])", "f16(row[i3])")
    assert after(text, store_in_place) == "its last loop reads no row of scratch as it writes one"


def test_rows_that_are_read_in_another_order_stay(after):
    text = (BUFFERS + ROWS).replace("mul(row[i3]", "mul(row[63 + -1*i3]")
    assert after(text, store_in_place) == "its last loop reads no row of scratch as it writes one"


def test_results_that_are_read_are_left_alone(after):
    text = (BUFFERS + ROWS).replace("sqrt(x[64*i1 + r2])", "add(x[64*i1 + r2], y[64*i1 + r2])")
    assert after(text, store_in_place) == "it reads the buffer that it writes"
