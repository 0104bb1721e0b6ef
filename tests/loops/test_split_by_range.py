"""Vector loops split into ranges in which comparisons of positions are constant."""

import pytest

from anyrt.loops.split_by_range import split_by_range

INSIDE = "select(lt(index(-1 + i1), index(n)), x[n*p0 + max(0, min(-1 + i1, -1 + n))], 2.0:f32)"
BORDER = f"""
symbol n 1..500
buffer x FLOAT input 9*n offset 0
buffer y FLOAT output 9*n + 27 offset 0
kernel "k" p0 0.. < 9 work 1 scratch 0 {{
  for vector i1 0.. < n + 3 {{
    store y[n*p0 + 3*p0 + i1] = neg(select(le(0:i64, index(-1 + i1)), {INSIDE}, 2.0:f32))
  }}
}}
"""
SIZES = [{"n": n} for n in (1, 2, 16, 33)]


@pytest.fixture
def split(after, names):
    """The kernel of a text with its loops split into ranges."""

    def apply(text, most=256, sizes=()):
        def turns(var):
            return var.extent if isinstance(var.extent, int) else 100

        return after(text, lambda k: split_by_range(k, names, turns, most), sizes=sizes)

    return apply


def moved(*steps, row=8):
    """A kernel that adds the elements this far before, or 0 where there is none."""
    terms = [f"select(le(0:i64, index(-{k} + i1)), x[max(-{k} + i1, 0)], 0.0:f32)" for k in steps]
    total = terms[0]
    for term in terms[1:]:
        total = f"add({total}, {term})"
    return f"""
buffer x FLOAT input {row} offset 0
buffer y FLOAT output {row} offset 0
kernel "k" p0 0.. < 1 work 1 scratch 0 {{
  for vector i1 0.. < {row} {{
    store y[i1] = {total}
  }}
}}
"""


def test_a_border_is_written_by_loops_of_its_own(split):
    expected = """\
kernel "k" p0 0.. < 9 work 1 scratch 0 {
  e0 = neg(2.0:f32)
  store y[3*p0 + n*p0] = e0
  for vector i11 0.. < n {
    store y[1 + i11 + 3*p0 + n*p0] = neg(x[i11 + n*p0])
  }
  for vector i12 0.. < 2 {
    store y[1 + i12 + n + 3*p0 + n*p0] = e0
  }
}
"""
    assert split(BORDER, sizes=SIZES) == expected


def test_ranges_of_tensors_moved_against_each_other_follow_one_another(split):
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for vector i11 0.. < 2 {
    store y[i11] = add(0.0:f32, 0.0:f32)
  }
  for vector i12 0.. < 3 {
    store y[2 + i12] = add(x[i12], 0.0:f32)
  }
  for vector i13 0.. < 3 {
    store y[5 + i13] = add(x[3 + i13], x[i13])
  }
}
"""
    assert split(moved(2, 5)) == expected


def test_of_many_ranges_the_longest_is_taken(split):
    text = split(moved(1, 2, 4, 6, 30, row=40))
    heads = [line.strip() for line in text.splitlines() if line.strip().startswith("for")]
    assert heads == ["for vector i11 0.. < 6 {", "for vector i12 0.. < 24 {", "for vector i13 0.. < 10 {"]
    assert "select" not in text.split("for vector")[2]
    assert "max(" not in text.split("for vector")[2]


def test_positions_are_known_in_every_piece_of_a_row(split):
    text = """
buffer x FLOAT input 500 offset 0
buffer y FLOAT output 500 offset 0
kernel "k" p0 0.. < 8 work 1 scratch 0 {
  for vector i1 0.. < min(64, -64*p0 + 500) {
    store y[64*p0 + i1] = select(le(0:i64, index(-70 + 64*p0 + i1)), x[max(0, -70 + 64*p0 + i1)], 0.0:f32)
  }
}
"""
    length = "min(64, 500 + -64*p0)"
    zeros = f"max(0, min(70 + -64*p0, {length}))"
    expected = f"""\
kernel "k" p0 0.. < 8 work 1 scratch 0 {{
  for vector i11 0.. < {zeros} {{
    store y[i11 + 64*p0] = 0.0:f32
  }}
  for vector i12 0.. < -1*{zeros} + {length} {{
    store y[i12 + {zeros} + 64*p0] = x[-70 + i12 + {zeros} + 64*p0]
  }}
}}
"""
    assert split(text) == expected


def test_a_strided_position_changes_its_comparison_where_it_passes(split):
    text = """
buffer x FLOAT input 40 offset 0
buffer y FLOAT output 20 offset 0
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for vector i1 0.. < 20 {
    store y[i1] = select(lt(index(3*i1), 40:i64), x[min(3*i1, 39)], 1.0:f32)
  }
}
"""
    expected = """\
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for vector i11 0.. < 14 {
    store y[i11] = x[3*i11]
  }
  for vector i12 0.. < 6 {
    store y[14 + i12] = 1.0:f32
  }
}
"""
    assert split(text) == expected


@pytest.mark.parametrize(("most", "is_split"), [(26, False), (30, False), (41, True)])
def test_loops_with_too_many_ranges_stay_in_one_piece(split, most, is_split):
    text = split(moved(1, 2, 4, 6, 30, row=40), most=most)  # 27 parts, in ranges 41
    assert (text != "no vector loop compares positions, or its body is long") == is_split


@pytest.mark.parametrize("held", ["lt(x[i1], 0.0:f32)", "le(0:i64, index(-1*i2 + 3))"])
def test_other_comparisons_are_left(split, held):
    text = f"""
buffer x FLOAT input 8 offset 0
buffer y FLOAT output 32 offset 0
kernel "k" p0 0.. < 1 work 1 scratch 0 {{
  for vector i1 0.. < 8 {{
    for tile i2 0.. < 4 {{
      store y[4*i1 + i2] = select({held}, x[i1], 1.0:f32)
    }}
  }}
}}
"""
    assert split(text) == "no vector loop compares positions, or its body is long"
