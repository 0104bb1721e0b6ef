"""Sequences and optionals of models, which the parser resolves."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

from anyrt.core.errors import AnyrtError
from anyrt.onnx.backend import prepare
from tests.messages import diagnostic

A, B, C = (np.float32([[k, k + 1], [k + 2, k + 3]]) for k in (0, 10, 20))
HEAD = '<ir_version: 8, opset_import: ["": 17]> g'
THREE = "(float[2, 2] a, float[2, 2] b, float[2, 2] c)"
AT = "{ s = SequenceConstruct(a, b, c)  y = SequenceAt(s, at) }"


def run(body, **inputs):
    """The only output of a model in ONNX's text format, without its header."""
    (result,) = prepare(parser.parse_model(f"{HEAD} {body}")).run(inputs)
    return result


@pytest.mark.parametrize(("at", "expected"), [(0, A), (2, C), (-1, C), (-3, A)])
def test_a_tensor_of_a_sequence_is_known_by_its_position(at, expected):
    text = f"{THREE} => (float[2, 2] y) <int64 at = {{{at}}}> {AT}"
    np.testing.assert_array_equal(run(text, a=A, b=B, c=C), expected)


@pytest.mark.parametrize(("at", "expected"), [(0, A), (2, C), (-1, C), (-3, A)])
def test_data_choose_among_tensors_of_one_shape(at, expected):
    text = f"{THREE[:-1]}, int32 at) => (float[2, 2] y) {AT}"
    np.testing.assert_array_equal(run(text, a=A, b=B, c=C, at=np.array(at, np.int32)), expected)


def test_a_position_outside_is_reported():
    text = f"{THREE} => (float[2, 2] y) <int64 at = {{3}}> {AT}"
    with pytest.raises(AnyrtError, match=diagnostic("AR304", "y", 3, 3)):
        run(text, a=A, b=B, c=C)


@pytest.mark.parametrize(("at", "order"), [("", "abc"), ("at = {0}", "cab"), ("at = {-1}", "acb")])
def test_insertion_is_before_a_position_or_at_the_end(at, order):
    place = ", at" if at else ""
    text = f"""{THREE} => (float[6, 2] y) {f"<int64 {at}>" if at else ""} {{
        e = SequenceEmpty()  s = SequenceInsert(e, a)  t = SequenceInsert(s, b)
        u = SequenceInsert(t, c{place})  y = ConcatFromSequence <axis = 0> (u) }}"""
    tensors = {"a": A, "b": B, "c": C}
    np.testing.assert_array_equal(run(text, **tensors), np.concatenate([tensors[k] for k in order]))


@pytest.mark.parametrize(("at", "left"), [("", [A, B]), ("at = {0}", [B, C]), ("at = {-2}", [A, C])])
@pytest.mark.parametrize(("axis", "new"), [(0, 0), (-1, 0), (0, 1), (1, 1), (-1, 1)])
def test_erased_elements_are_not_concatenated(at, left, axis, new):
    text = f"""{THREE} => (float[] y) {f"<int64 {at}>" if at else ""} {{ s = SequenceConstruct(a, b, c)
        t = SequenceErase(s{", at" if at else ""})
        y = ConcatFromSequence <axis = {axis}, new_axis = {new}> (t) }}"""
    expected = np.stack(left, axis) if new else np.concatenate(left, axis)
    np.testing.assert_array_equal(run(text, a=A, b=B, c=C), expected)


SPLIT = """(float[5, 2] x{more}) => (float[] y, int64 n) {known} {{
    s = SplitToSequence <axis = 0> (x{split})  n = SequenceLength(s)  y = SequenceAt(s, last) }}"""
FIVE = np.arange(10, dtype=np.float32).reshape(5, 2)


@pytest.mark.parametrize(("value", "parts"), [("2", 3), ("", 5)])
def test_a_tensor_is_split_in_parts_of_one_size(value, parts):
    known = "<int64 last = {-1}" + (f", int64 k = {{{value}}}>" if value else ">")
    text = SPLIT.format(more="", known=known, split=", k" if value else "")
    y, n = prepare(parser.parse_model(f"{HEAD} {text}")).run({"x": FIVE})
    np.testing.assert_array_equal(y, FIVE[4:])
    assert n == parts


@pytest.mark.parametrize("sizes", [[2, 3], [1, 4], [5, 0]])
def test_runs_may_say_how_large_each_part_is(sizes):
    text = SPLIT.format(more=", int64[2] k", known="<int64 last = {-1}>", split=", k")
    y, n = prepare(parser.parse_model(f"{HEAD} {text}")).run({"x": FIVE, "k": np.array(sizes)})
    np.testing.assert_array_equal(y, FIVE[sizes[0] :])
    assert n == 2


def test_a_graph_is_mapped_over_sequences_and_tensors():
    text = f"""{THREE} => (float[4, 2] y) {{ s = SequenceConstruct(a, b)
        t = SequenceMap <body = m (float[2, 2] p, float[2, 2] q) => (float[2, 2] r)
            {{ r = Mul(p, q) }}> (s, c)
        y = ConcatFromSequence <axis = 0> (t) }}"""
    np.testing.assert_array_equal(run(text, a=A, b=B, c=C), np.concatenate([A * C, B * C]))


def test_a_known_loop_collects_in_a_sequence():
    text = """(float[2, 2] a) => (float[6, 2] y) <int64 n = {3}, bool go = {1}> {
        e = SequenceEmpty()
        last, s = Loop (n, go, a, e) <body = b (int64 i, bool c, float[2, 2] p, seq(float[2, 2]) q) =>
            (bool d, float[2, 2] r, seq(float[2, 2]) t)
            { d = Identity(c)  r = Add(p, p)  t = SequenceInsert(q, p) }>
        y = ConcatFromSequence <axis = 0> (s) }"""
    np.testing.assert_array_equal(run(text, a=A), np.concatenate([A, 2 * A, 4 * A]))


def test_a_sequence_that_grows_for_a_dynamic_number_of_iterations_is_reported(golden_text):
    text = """(float[2, 2] a, int64 n) => (float[6, 2] y) {
        e = SequenceEmpty()
        s = Loop (n, , e) <body = b (int64 i, bool c, seq(float[2, 2]) q) => (bool d, seq(float[2, 2]) t)
            { d = Identity(c)  t = SequenceInsert(q, a) }>
        y = ConcatFromSequence <axis = 0> (s) }"""
    with pytest.raises(AnyrtError) as caught:
        run(text, a=A, n=np.array(3))
    golden_text(caught.value)


def test_a_conditional_chooses_between_sequences_of_one_length():
    text = f"""(bool go, {THREE[1:]} => (float[4, 2] y) {{
        s = If (go) <then_branch = t () => (seq(float[2, 2]) p) {{ p = SequenceConstruct(a, b) }},
                    else_branch = e () => (seq(float[2, 2]) q) {{ q = SequenceConstruct(b, c) }}>
        y = ConcatFromSequence <axis = 0> (s) }}"""
    for go in (True, False):
        got = run(text, go=np.array(go), a=A, b=B, c=C)
        np.testing.assert_array_equal(got, np.concatenate([A, B] if go else [B, C]))


def test_whether_an_optional_has_a_value_decides_a_branch():
    text = """(float[2, 2] a) => (float[2, 2] y) { o = Optional(a)  h = OptionalHasElement(o)
        y = If (h) <then_branch = t () => (float[2, 2] p) { p = OptionalGetElement(o) },
                    else_branch = e () => (float[2, 2] q) { q = Neg(a) }> }"""
    np.testing.assert_array_equal(run(text, a=A), A)


def test_a_sequence_as_an_output_is_reported(golden_text):
    text = f"{THREE} => (seq(float[2, 2]) s) {{ s = SequenceConstruct(a, b, c) }}"
    with pytest.raises(AnyrtError) as caught:
        run(text, a=A, b=B, c=C)
    golden_text(caught.value)
