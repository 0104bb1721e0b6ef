"""Ifs whose branches give tensors of different ranks, as programs are exported that squeeze an axis of 1."""

import numpy as np
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import anyrt
from anyrt.core.errors import AnyrtError

HEAD = '<ir_version: 10, opset_import: ["": 21]> g '
SQUEEZED = """
  s = Shape(x) last = Constant<value = int64 {2}>() one = Constant<value = int64 {1}>()
  n = Gather(s, last) is_one = Equal(n, one) minus = Constant<value = int64[1] {-1}>()
  z = If(is_one) <then_branch = a () => (za) { za = Squeeze(x, minus) },
                  else_branch = b () => (zb) { zb = Identity(x) }>
"""
WEIGHTS = "<float[2, 4, 1] w = {1, 2, 3, 4, 5, 6, 7, 8}, int64[1] two = {2}>"
# What follows the If, with the numbers of columns that x may have and those that it may not.
MODELS = {
    "one of rank 3": (
        f"(float[m, 4, t] x) => (y) {WEIGHTS} {{ {SQUEEZED} u = Unsqueeze(z, two) y = Conv(u, w) }}",
        [1], [2, 4]),
    "ranks that meet": (f"(float[m, 4, t] x) => (y) {{ {SQUEEZED} y = Flatten<axis = 1>(z) }}", [1, 3], []),
    "in a graph inside": (
        f"(float[m, 4, t] x) => (y) {{ {SQUEEZED} some = ReduceMax<keepdims = 0>(x) zero = Sub(some, some)"
        " big = GreaterOrEqual(some, zero) y = If(big) <then_branch = c () => (yc) { yc = Flatten(z) },"
        " else_branch = d () => (yd) { e = Neg(z) yd = Flatten(e) }> }", [1, 3], []),
    "what needs nothing of it": (
        f"(float[m, 4, t] x) => (y, v) {{ {SQUEEZED} v = Neg(x) f = Flatten<axis = 1>(z) y = Abs(f) }}",
        [1, 3], []),
}  # fmt: skip


def given(columns):
    return {"x": np.random.default_rng(columns).standard_normal((3, 4, columns)).astype(np.float32)}


@pytest.mark.parametrize("name", MODELS)
def test_what_follows_branches_of_different_ranks_is_computed_in_them(name):
    text, possible, refused = MODELS[name]
    model = parser.parse_model(HEAD + text)
    session = anyrt.load(model)
    for columns in possible:
        wanted = ReferenceEvaluator(model).run(None, given(columns))
        for found, want in zip(session.run(given(columns)).values(), wanted, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-5)
    for columns in refused:
        with pytest.raises(AnyrtError, match=r"AR410.*choose the other branch, as else_branch cannot run"):
            session.run(given(columns))


@pytest.mark.parametrize("rate", [8, 16])
def test_each_branch_of_a_conditional_has_ranks_of_its_own(rate):
    """One of 8 columns is read in one branch, one of 16 in the other; 16 columns are two to the first."""
    inner = f"p = Slice(x, nil, far, two, step) {SQUEEZED.replace('(x', '(p')} u = Unsqueeze(z, two)"
    steps = "step = Constant<value = int64[1] {{{}}}>() " + inner.replace("{", "{{").replace("}", "}}")
    text = f"""(float[m, 4, t] x, int64 rate) => (y) {WEIGHTS} {{
      nil = Constant<value = int64[1] {{0}}>() far = Constant<value = int64[1] {{100}}>()
      slow = Constant<value = int64 {{16}}>() is_slow = Equal(rate, slow)
      y = If(is_slow) <then_branch = f () => (yf) {{ {steps.format(16)} yf = Conv(u, w) }},
                       else_branch = g () => (yg) {{ {steps.format(8)} yg = Conv(u, w) }}> }}"""
    session = anyrt.load(model := parser.parse_model(HEAD + text))
    feeds = {**given(rate), "rate": np.array(rate, np.int64)}
    np.testing.assert_allclose(
        session.run(feeds)["y"], ReferenceEvaluator(model).run(None, feeds)[0], rtol=1e-5
    )
    with pytest.raises(AnyrtError, match="AR410"):
        session.run({**given(2 * rate), "rate": np.array(rate, np.int64)})


def test_an_output_whose_rank_a_run_decides_is_refused_by_name():
    told = r"AR123\] z.*\(-1, 4\) if true and \(-1, 4, -1\) if not.*run cannot decide the rank of an output"
    with pytest.raises(AnyrtError, match=told):
        anyrt.load(parser.parse_model(f"{HEAD} (float[m, 4, t] x) => (z) {{ {SQUEEZED} }}"))


def test_branches_that_both_fail_are_told():
    text = f"(float[m, 4, t] x) => (y) {{ {SQUEEZED} y = Transpose<perm = [4, 3, 2, 1, 0]>(z) }}"
    with pytest.raises(AnyrtError, match=r"AR301\] a#2/y"):
        anyrt.load(parser.parse_model(HEAD + text))
