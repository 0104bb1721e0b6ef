"""If, Loop and Scan in ONNX models."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import anyrt as trt
from anyrt.core.errors import AnyrtError, NotSupportedError
from anyrt.onnx.backend import prepare
from tests.messages import diagnostic

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def run(body, opset=17, **inputs):
    """The outputs of a model in ONNX's text format, without its header."""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g {body}')
    result = prepare(model).run(inputs)
    return result[0] if len(result) == 1 else result


IF = """(bool go, float[N, 3] x) => (float[A, B] y) {
    y = If (go) <then_branch = t () => (float[A, B] a) { a = Exp(x) },
                else_branch = e () => (float[A, B] b) { z = Sqrt(x)  b = Add(z, x) }>
}"""


@pytest.mark.parametrize("go", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 4])
def test_a_branch_reads_tensors_from_around(go, rows):
    got = run(IF, go=np.array(go), x=X[:rows])
    np.testing.assert_allclose(got, np.exp(X[:rows]) if go else np.sqrt(X[:rows]) + X[:rows], rtol=1e-6)


def test_a_condition_may_be_a_tensor_of_one_element():
    got = run(IF.replace("bool go", "bool[1] go"), go=np.array([False]), x=X)
    np.testing.assert_allclose(got, np.sqrt(X) + X, rtol=1e-6)


def test_of_a_known_condition_only_the_chosen_branch_is_described():
    text = """(float[3] x) => (float[A] y) <bool no = {0}> {
        y = If (no) <then_branch = t () => (float[A] a) { a = Nowhere(x) },
                    else_branch = e () => (float[A] b) { b = Neg(x) }>
    }"""
    with pytest.raises(NotSupportedError, match="Nowhere"):
        run(text, x=X[0])
    got = run(text.replace("Nowhere(x)", "Gemm(x, x)"), x=X[0])
    np.testing.assert_array_equal(got, -X[0])


def test_branches_of_other_sizes_give_what_the_data_decide():
    text = """(bool go, float[4, 3] x) => (float[A, B] y) {
        y = If (go) <then_branch = t () => (float[A, B] a) { a = MatMul(x, x3) },
                    else_branch = e () => (float[A, B] b) { b = Neg(x) }>
    }"""
    text = text.replace("x)", "x, float[3, 2] x3)", 1)
    for go in (True, False):
        got = run(text, go=np.array(go), x=X, x3=X[:3, :2])
        np.testing.assert_allclose(got, X @ X[:3, :2] if go else -X)


def test_branches_of_other_types_are_reported():
    with pytest.raises(AnyrtError, match=diagnostic("AR203", "y", "FLOAT", "BOOL")):
        run(IF.replace("b = Add(z, x)", "b = Less(z, x)"), go=np.array(True), x=X)


def test_branches_may_have_other_ranks():
    text = IF.replace("a = Exp(x)", "a = MatMul(x, v)").replace("x) =>", "x, float[3] v) =>")
    assert run(text, go=np.array(True), x=X, v=X[0]).shape == (4,)
    assert run(text, go=np.array(False), x=X, v=X[0]).shape == (4, 3)


def test_branches_of_one_element_may_have_other_ranks():
    text = """(bool go, float[3] x, float[1] one) => (float[3] y) <float two = {2.0}> {
        f = If (go) <then_branch = t () => (float a) { a = Neg(two) },
                    else_branch = e () => (float[1] b) { b = Neg(one) }>
        y = Mul(x, f) }"""
    for go in (True, False):
        got = run(text, go=np.array(go), x=X[1], one=X[1, 2:])
        np.testing.assert_array_equal(got, X[1] * (-2 if go else -5))


def test_a_conditional_inside_a_conditional_reads_what_is_around_both():
    text = """(bool p, bool q, float[3] x) => (float[3] y) {
        y = If (p) <then_branch = t () => (float[3] a) {
                u = Exp(x)
                a = If (q) <then_branch = tt () => (float[3] c) { c = Add(u, x) },
                            else_branch = te () => (float[3] d) { d = Sub(u, x) }> },
            else_branch = e () => (float[3] b) { b = Neg(x) }>
    }"""
    for p, q in np.ndindex(2, 2):
        expected = [-X[0], -X[0], np.exp(X[0]) - X[0], np.exp(X[0]) + X[0]][2 * p + q]
        got = run(text, p=np.array(bool(p)), q=np.array(bool(q)), x=X[0])
        np.testing.assert_allclose(got, expected, rtol=1e-6)


LOOP = """(int64 n, bool go, float[3] x) => (float[3] last, float[T, 3] all) {
    last, all = Loop (n, go, x) <body = b (int64 i, bool c, float[3] s) =>
        (bool d, float[3] t, float[3] u) { d = Identity(c)  t = Add(s, x)  u = Neg(s) }>
}"""


@pytest.mark.parametrize("count", [0, 1, 5, -2])
@pytest.mark.parametrize("go", [True, False])
def test_a_loop_collects_an_element_per_iteration(count, go):
    last, every = run(LOOP, n=np.array(count), go=np.array(go), x=X[1])
    turns = max(count, 0) if go else 0
    np.testing.assert_array_equal(last, X[1] * (turns + 1))
    np.testing.assert_array_equal(every, -np.outer(np.arange(1, turns + 1), X[1]).reshape(turns, 3))


WHILE = """(float[3] x, float most) => (float[3] last, float[T] all) <float two = {2.0}> {
    last, all = Loop (, , x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t, float u)
        { t = Mul(s, two)  u = Gemm_(t)  d = Less(u, most) }>
}"""


def test_a_loop_without_a_count_goes_on_as_long_as_its_condition_holds():
    text = WHILE.replace("Gemm_(t)", "MatMul(t, t)")
    last, every = run(text, x=X[0] + 1, most=np.float32(1000))
    squares = [float(np.sum((2.0**k * (X[0] + 1)) ** 2)) for k in range(1, 5)]
    np.testing.assert_allclose(every, squares, rtol=1e-6)
    np.testing.assert_array_equal(last, 16 * (X[0] + 1))


def test_a_count_stops_a_condition_that_holds():
    text = WHILE.replace("Gemm_(t)", "MatMul(t, t)").replace("Loop (, ,", "Loop (three, ,")
    text = text.replace("<float two", "<int64 three = {3}, float two")
    last, every = run(text, x=X[0] + 1, most=np.float32(1e9))
    assert every.shape == (3,)
    np.testing.assert_array_equal(last, 8 * (X[0] + 1))


def test_a_loop_that_never_ends_is_reported(golden_text):
    text = LOOP.replace("int64 n, ", "").replace("Loop (n,", "Loop (,")
    with pytest.raises(AnyrtError) as caught:
        run(text, go=np.array(True), x=X[0])
    golden_text(caught.value)


GROWING = """(float[1, 3] x) => (float[A, 3] y) <int64 n = {3}, bool go = {1}> {
    y = Loop (n, go, x) <body = b (int64 i, bool c, float[A, 3] s) => (bool d, float[B, 3] t)
        { d = Identity(c)  q = SequenceConstruct(s, x)  t = ConcatFromSequence <axis = 0> (q) }>
}"""


def test_a_known_loop_whose_state_grows_is_written_out():
    np.testing.assert_array_equal(run(GROWING, x=X[:1]), np.repeat(X[:1], 4, 0))


def test_a_loop_of_known_length_whose_iterations_determine_sizes_is_unrolled():
    text = """(float[4, 3] x) => (float[1, 3] y) <int64 n = {4}, int64[1] one = {1}, int64[1] zero = {0}> {
        o = Slice(x, zero, one, zero)
        y = Loop (n, , o) <body = b (int64 i, bool c, float[1, 3] s) => (bool d, float[1, 3] t) {
            d = Identity(c)  a = Unsqueeze(i, zero)  e = Add(a, one)
            u = Slice(x, a, e, zero)  t = Add(s, u) }>
    }"""
    np.testing.assert_array_equal(run(text, x=X), X[:1] + X.sum(0, keepdims=True))


def test_an_iteration_reads_the_slice_of_its_number():
    text = """(int64 n, float[4, 3] x) => (float[1, 3] y, float[T, 1, 3] z)
        <int64[1] one = {1}, int64[1] zero = {0}, float[1, 3] o = {0.0, 0.0, 0.0}> {
        y, z = Loop (n, , o) <body = b (int64 i, bool c, float[1, 3] s) =>
            (bool d, float[1, 3] t, float[1, 3] u) {
            d = Identity(c)  a = Unsqueeze(i, zero)  e = Add(a, one)
            u = Slice(x, a, e, zero)  t = Add(s, u) }>
    }"""
    y, z = run(text, x=X, n=np.array(3))
    np.testing.assert_array_equal(y, X[:3].sum(0, keepdims=True))
    np.testing.assert_array_equal(z, X[:3, None])


def test_a_state_that_grows_for_a_dynamic_number_of_iterations_is_reported():
    text = GROWING.replace("int64 n = {3}, ", "").replace("(float[1, 3] x)", "(float[1, 3] x, int64 n)")
    with pytest.raises(AnyrtError, match=diagnostic("AR123", "y", "float[2, 3]", "float[1, 3]")):
        run(text, x=X[:1], n=np.array(3))


@pytest.mark.parametrize("turns", ["Loop (n, , x)", "Scan <num_scan_inputs = 1> (x, each)"])
def test_a_state_keeps_its_shape_not_only_its_volume(turns):
    body = "float[4, 3] s, float e) => (float[A, B] t, float u) { t = Mul(w, w)  u = Identity(e) }"
    if turns.startswith("Loop"):
        body = "int64 i, bool c, float[4, 3] s) => (bool d, float[A, B] t) { d = Identity(c)  t = Mul(w, w) }"
    text = f"""(float[p, q] x, float[a, b] w, float[T] each, int64 n) => (float[A, B] y) {{
        {"y, z" if "each" in turns else "y"} = {turns} <body = b ({body}>
    }}"""
    text = text.replace(" <num_scan_inputs = 1> (x, each) <", " (x, each) <num_scan_inputs = 1, ")
    inputs = {"x": X, "each": X[0], "n": np.array(2)}
    np.testing.assert_array_equal(run(text, w=X, **inputs), X * X)
    for other in ((3, 4), (12, 1), (1, 12)):
        with pytest.raises(AnyrtError, match="AR123"):
            run(text, w=X.reshape(other), **inputs)


def test_collected_iterations_have_the_declared_shape_not_only_its_volume():
    text = """(int64 n, float[a, b] x, bool[k] m) => (float[T, 4, 3] y) <bool go = {1}> {
        y = Loop (n, go) <body = b (int64 i, bool c) => (bool d, float[4, 3] t)
            { d = Identity(c)  t = Compress <axis = 1> (x, m) }>
    }"""
    got = run(text, n=np.array(2), x=X, m=np.array([True] * 3))
    np.testing.assert_array_equal(got, np.stack([X, X]))
    with pytest.raises(AnyrtError, match="AR103"):
        run(text, n=np.array(2), x=X.reshape(2, 6), m=np.array([True] * 6))


def test_a_loop_inside_a_loop_restarts_in_each_iteration():
    text = """(int64 n, float x) => (float[T] y) <bool go = {1}, float one = {1.0}> {
        s, y = Loop (n, go, x) <body = b (int64 i, bool c, float s) => (bool d, float t, float u) {
            d = Identity(c)  t = Add(s, one)
            u = Loop (n, go, s) <body = bb (int64 j, bool e, float p) => (bool f, float q)
                { f = Identity(e)  q = Mul(p, t) }> }>
    }"""
    text = text.replace("=> (float[T] y)", "=> (float s, float[T] y)")
    _, y = run(text, n=np.array(3), x=np.float32(1))
    np.testing.assert_array_equal(y, [s * (s + 1) ** 3 for s in (1, 2, 3)])


SCAN = """(float[2] s, float[N, 2] x) => (float[2] last, float[A, B] all) {
    last, all = Scan <num_scan_inputs = 1, body = b (float[2] p, float[2] q) => (float[2] r, float[2] t)
        { r = Add(p, q)  t = Mul(r, q) }> (s, x)
}"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("into", "out"), [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scan_goes_either_way_along_any_axis(into, out, axis):
    ways = f"scan_input_directions = [{into}], scan_output_directions = [{out}], scan_output_axes = [{axis}]"
    last, every = run(SCAN.replace("<num", f"<{ways}, num"), s=X[0, :2], x=X[:, :2])
    rows = X[::-1, :2] if into else X[:, :2]
    states = X[0, :2] + np.cumsum(rows, 0)
    expected = (states * rows)[::-1] if out else states * rows
    np.testing.assert_allclose(every, expected if axis == 0 else expected.T)
    np.testing.assert_allclose(last, states[-1])


def test_a_scan_of_opset_8_is_of_each_entry_of_a_batch():
    text = SCAN.replace("float[2] s, float[N, 2] x", "float[2, 2] s, float[2, 3, 2] x, int64[2] n")
    text = text.replace("(s, x)\n", "(n, s, x)\n").replace(
        "[2] last, float[A, B]", "[2, 2] last, float[A, B, C]"
    )
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    last, every = run(text, 8, s=X[:2, :2], x=x, n=np.array([3, 1]))
    states = X[:2, None, :2] + np.cumsum(x, 1)
    expected = states * x
    expected[1, 1:] = 0
    np.testing.assert_allclose(every, expected)
    np.testing.assert_allclose(last, [states[0, 2], states[1, 0]])


@pytest.mark.parametrize("go", [True, False])
def test_windows_with_steps_go_over_sizes_that_a_branch_decides(go):
    text = """(bool go, float[1, 2, 9] x, float[4, 2, 3] w) => (float[A, B, C] y) {
        s = If (go) <then_branch = t () => (float[1, 2, D] a) { a = Concat <axis = 2> (x, x) },
                     else_branch = e () => (float[1, 2, 9] b) { b = Neg(x) }>
        y = Conv <strides = [2], pads = [1, 1]> (s, w)
    }"""
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype(np.float32) for s in ((1, 2, 9), (4, 2, 3)))
    wide = np.pad(np.concatenate([x, x], 2) if go else -x, [(0, 0), (0, 0), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(wide, 3, axis=2)[:, :, ::2]
    expected = np.einsum("nctk,ock->not", windows, w)
    np.testing.assert_allclose(run(text, go=np.array(go), x=x, w=w), expected, rtol=1e-5, atol=1e-5)


def test_a_session_gives_the_outputs_of_the_model_alone():
    session = prepare(parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {LOOP}')).session
    assert [*session.run({"n": np.array(2), "go": np.array(True), "x": X[0]})] == ["last", "all"]


def test_layers_at_the_border_of_a_loop_are_named_after_its_node():
    network = trt.Builder(trt.Logger()).create_network()
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {LOOP}')
    assert trt.OnnxParser(network, trt.Logger()).parse(proto.SerializeToString())
    names = [network.get_layer(i).name for i in range(network.num_layers)]
    assert {name.split(".")[0] for name in names} <= {"last", "b/d", "b/t", "b/u", "last output"}
