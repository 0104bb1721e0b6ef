"""Loops written by primitives become vector loops if their iterations are independent."""

import pytest

from anyrt.loops.vectorise_independent import vectorise_independent

BUFFERS = """
buffer x FLOAT input 40 offset 0
buffer y FLOAT output 40 offset 0
buffer z FLOAT output 40 offset 0
buffer sum1 f32 register 1 offset 0
buffer count1 i32 register 1 offset 0
"""
NEED = "the turns of each innermost loop need one another"


def kernel(*lines):
    """A kernel that runs these lines for each of eight rows."""
    body = "\n".join(f"    {line}" for line in lines)
    return f"""{BUFFERS}
kernel "k" p0 0.. < 1 work 1 scratch 0 {{
  for serial i1 0.. < 8 {{
{body}
  }}
}}
"""


def loops(text):
    """The kinds of loops in a text, from the outermost on."""
    return [line.split()[1] for line in text.splitlines() if line.strip().startswith("for ")]


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        (("store y[5*i1 + i2] = max(y[5*i1 + i2], x[i2])",), "vector"),
        (("fold count1 add i32(lt(x[5*i1 + i2], 2.0:f32))",), "vector"),
        (("store y[i1] = x[5*i1 + i2]",), NEED),
        (("store y[i2] = x[i2]", "store y[i2 + 5] = y[i2]"), "vector"),
        (("store y[i2] = x[i2]", "store y[i2 + 4] = x[i2]"), NEED),
        (("store y[5*i1 + i2] = x[i2]", "store y[5*i1 + 2*i2 + 5] = x[i2]"), NEED),
        (("store y[5*i1 + i2] = x[i2]", "store z[5*i1 + i2] = y[5*i1]"), NEED),
        (("fold sum1 add x[5*i1 + i2]",), NEED),
        (("fold count1 add i32(lt(x[i2], 2.0:f32))", "store y[5*i1 + i2] = f32(count1[0])"), NEED),
    ],
    ids=[
        "its own element",
        "a count",
        "one place",
        "rows that lie apart",
        "rows of which one runs into the other",
        "rows with other steps",
        "a neighbour",
        "a sum of floats",
        "what is folded so far",
    ],
)
def test_a_loop_is_vectorised_if_its_iterations_are_independent(after, lines, kinds):
    begun = ("alloc count1 = 0:i32", "alloc sum1 = 0.0:f32", "for serial i2 0.. < 5 {", *lines, "}")
    built = after(kernel(*begun), vectorise_independent)
    assert built == NEED if kinds == NEED else loops(built) == ["serial", kinds]


def test_iterations_that_fold_into_separate_registers_are_lanes(after):
    counted = ("fold count1 add i32(lt(x[i3], x[i2]))", "}", "store y[5*i1 + i2] = f32(count1[0])", "}")
    head = ("alloc sum1 = 0.0:f32", "for serial i2 0.. < 5 {", "alloc count1 = 0:i32")
    built = after(kernel(*head, "for serial i3 0.. < 5 {", *counted), vectorise_independent)
    assert loops(built) == ["serial", "vector", "serial"]
