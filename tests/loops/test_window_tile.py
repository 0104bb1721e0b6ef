"""Window images in scratch, and sums of several rows of windows in registers."""

import re

from anyrt.ir.kernelread import parse_kernels
from anyrt.ir.kernelrules import kernel_faults
from anyrt.ir.kerneltext import print_kernels
from anyrt.loops.window_tile import Size, window_tile, windows_of

TEXT = """
buffer acc f32 register 1 offset 0
buffer w FLOAT const 9 offset 0
buffer x FLOAT input 60 offset 0
buffer y FLOAT output 18 offset 0
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial c1 0.. < 3 {
    for serial i2 0.. < 3 {
      for serial j3 0.. < 2 {
        alloc acc = 0.0:f32
        for serial k4 0.. < 3 {
          fold acc add mul(w[3*c1 + k4], select(le(0:i64, index(-1 + k4 + 2*j3)), x[20*c1 + 4*i2 + max(-1 + k4 + 2*j3, 0)], 0.0:f32))
        }
        store y[6*c1 + 2*i2 + j3] = neg(acc[0])
      }
    }
  }
}
"""  # noqa: E501 (a statement is a line)
EXPECTED = """\
kernel "k" p0 0.. < 1 work 1 scratch 128 {
  for vector z28 0.. < 22 {
    store image13[z28] = 0.0:f32
  }
  for serial c15 0.. < 3 {
    for serial r16 0.. < 3 {
      for vector x19 0.. < 2 {
        store image13[1 + 6*r16 + x19] = x[20*c15 + 4*r16 + 2*x19]
        store image13[4 + 6*r16 + x19] = x[1 + 20*c15 + 4*r16 + 2*x19]
      }
    }
    for vector j3 0.. < 2 {
      alloc acc22 = 0.0:f32
      for unroll k4 0.. < 3 {
        for unroll i23 0.. < 2 {
          fold acc22[i23] add mul(w[3*c15 + k4], image13[floordiv(1 + k4, 2) + 6*i23 + j3 + 3*mod(1 + k4, 2)])
        }
      }
      for unroll e24 0.. < 2 {
        store y[6*c15 + 2*e24 + j3] = neg(acc22[e24])
      }
    }
    for vector j3 0.. < 2 {
      alloc acc25 = 0.0:f32
      for unroll k4 0.. < 3 {
        for unroll i26 0.. < 1 {
          fold acc25[i26] add mul(w[3*c15 + k4], image13[12 + floordiv(1 + k4, 2) + 6*i26 + j3 + 3*mod(1 + k4, 2)])
        }
      }
      for unroll e27 0.. < 1 {
        store y[4 + 6*c15 + 2*e27 + j3] = neg(acc25[e27])
      }
    }
  }
}
"""  # noqa: E501


def tiled(names, size, estimate=lambda var: var.extent if isinstance(var.extent, int) else 99):
    """The step with this size."""

    def apply(kernel):
        result = windows_of(kernel)
        return window_tile(kernel, names, result, size, estimate)[0]

    return apply


def test_columns_are_sorted_by_their_step_and_zeros_stored_once(after, names):
    assert after(TEXT, tiled(names, Size(None, 2, 1, 4, 3))) == EXPECTED


def test_a_border_of_another_number_is_stored_behind_the_zeros(after, names):
    other = TEXT.replace("0)], 0.0:f32))", "0)], 2.0:f32))")
    text = after(other, tiled(names, Size(None, 2, 1, 4, 3)))
    assert "  for serial r16 0.. < 3 {\n    store image13[3 + 6*r16] = 2.0:f32\n  }\n  for serial c15" in text


def test_bands_have_images_of_their_own(after, names):
    text = after(TEXT, tiled(names, Size(2, 2, 1, 4, 1)))
    assert text.startswith(
        'kernel "k" p0 0.. < 1 work 1 scratch 64 {\n  for serial cc14 0.. < 3 {\n    for serial b'
    )


def test_terms_of_an_open_number_have_a_loop(names):
    planes = TEXT.replace("for serial k4", "for serial n5 0.. < n {\nfor serial k4")
    planes = planes.replace("store y", "}\nstore y")
    (kernel,) = parse_kernels("symbol n 0..64\n" + planes.replace("x[20*c1", "x[60*n5 + 20*c1"))
    text = print_kernels([tiled(names, Size(None, 2, 1, 4, 1))(kernel)])
    assert ("for serial n5 0.. < n" in text, "unroll n5" in text) == (True, False)


def test_of_rows_that_are_left_of_an_open_number_the_last_one_fills_the_tile(after, names):
    rows = (
        TEXT.replace("i2 0.. < 3", "i2 0.. < n")
        .replace("y[6*c1", "y[2*n*c1")
        .replace("output 18", "output 6*n")
    )
    step = tiled(names, Size(None, 3, 1, 4, 3), lambda var: 3)
    text = after("symbol n 1..5\n" + rows, step, sizes=[{"n": n} for n in range(1, 6)])
    assert "y[j3 + 2*min(-1 + n, " in text


def test_few_columns_of_an_open_number_are_copied_for_all_rows_at_once(after, names):
    step = tiled(names, Size(None, 2, 1, 4, 3), lambda var: 2)
    text = after(
        "symbol n 1..2\n" + TEXT.replace("j3 0.. < 2", "j3 0.. < n"), step, sizes=[{"n": 1}, {"n": 2}]
    )
    (copy,) = re.findall(r"    for vector (.*?)\n    }\n", text, re.DOTALL)[:1]
    assert "for serial r" in copy


def test_ranges_of_rows_end_where_no_column_decides(names):
    both = TEXT.replace("le(0:i64, index(-1 + k4 + 2*j3))", "le(0:i64, index(-7 + 3*i2 + k4 + 2*j3))")
    (kernel,) = parse_kernels(both)
    result = tiled(names, Size(None, 2, 1, 4, 3))(kernel)
    assert list(kernel_faults(result)) == []


def test_a_sum_that_slides_along_nothing_has_no_windows():
    (kernel,) = parse_kernels(TEXT.replace("2*j3)", "4*i2)"))
    assert windows_of(kernel).reason == "its windows are not parts of an image"
