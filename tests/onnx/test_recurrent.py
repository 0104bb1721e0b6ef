"""RNN, LSTM and GRU of models, compared with their formulas in float64."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

from anyrt.core.errors import AnyrtError
from anyrt.onnx.backend import prepare

T, B, N, H = 5, 3, 4, 6
GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(op, x, states, w, before=False, forget=False, f=None, g=np.tanh, clip=np.inf):
    """The next states; `w`: W, R, b, rb, p."""
    f, (W, R, b, rb, p), h = f or (np.tanh if op == "RNN" else sigmoid), w, states[0]
    cut = lambda v: np.clip(v, -clip, clip)  # noqa: E731
    a, r = np.split(x @ W.T + b, GATES[op], -1), np.split(h @ R.T + rb, GATES[op], -1)
    if op == "RNN":
        return [f(cut(a[0] + r[0]))]
    if op == "GRU":
        z, n = f(cut(a[0] + r[0])), f(cut(a[1] + r[1]))
        inner = n * r[2] if before else (n * h) @ R[2 * H :].T + rb[2 * H :]
        return [(1 - z) * g(cut(a[2] + inner)) + z * h]
    c, (pi, po, pf) = states[1], np.split(p, 3)
    i, k = f(cut(a[0] + r[0] + pi * c)), f(cut(a[2] + r[2] + pf * c))
    c = (1 - i if forget else k) * c + i * g(cut(a[3] + r[3]))
    return [f(cut(a[1] + r[1] + po * c)) * g(c), c]


def formula(op, x, w, states, lengths=None, backwards=False, **more):
    """The outputs of all steps, and the final states."""
    y, states = np.zeros((*x.shape[:2], H)), [s.astype(np.float64) for s in states]
    for t in range(len(x))[:: -1 if backwards else 1]:
        live = np.ones((B, 1), bool) if lengths is None else (t < lengths)[:, None]
        new = step(op, x[t].astype(np.float64), states, w, **more)
        y[t], states = (
            np.where(live, new[0], 0),
            [np.where(live, n, s) for n, s in zip(new, states, strict=True)],
        )
    return y, states


def operands(op, ways, seed=0):
    """Operands by their names in ONNX."""
    random, n = np.random.default_rng(seed), GATES[op] * H
    sizes = {"W": (n, N), "R": (n, H), "B": (2 * n,), "h": (B, H), "c": (B, H), "P": (3 * H,)}
    out = {k: random.uniform(-1, 1, (ways, *s)).astype(np.float32) for k, s in sizes.items()}
    return out | {"x": random.standard_normal((T, B, N)).astype(np.float32)}


def model(op, names, arrays, opset=14, dynamic=False, **attributes):
    """A model of one node with these inputs; the weights are constants."""
    weights = [numpy_helper.from_array(arrays[n], n) for n in names if n in tuple("WRBP")]
    sizes = {n: list(arrays[n].shape) for n in names if n and n not in tuple("WRBP")}
    if dynamic:
        sizes = {"x": ["t", "b", N], **{n: [s[0], "b", H] for n, s in sizes.items() if n in "hc"}}
    kinds = {n: helper.np_dtype_to_tensor_dtype(arrays[n].dtype) for n in sizes}
    inputs = [helper.make_tensor_value_info(n, kinds[n], s) for n, s in sizes.items()]
    outputs = ["y", "yh", "yc"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(op, names, outputs, hidden_size=H, **attributes)
    messages = [helper.make_empty_tensor_value_info(n) for n in outputs]
    graph = helper.make_graph([node], "g", inputs, messages, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), sizes


def agree(op, names, directions="forward", attributes=None, lengths=None, dynamic=False, **more):
    """Compare a node with the formula."""
    ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[directions]
    arrays = operands(op, len(ways)) | {"n": lengths}
    proto, fed = model(op, names, arrays, dynamic=dynamic, direction=directions, **attributes or {})
    actual = prepare(proto).run({n: arrays[n] for n in fed})
    zero = {n: np.zeros_like(a) for n, a in arrays.items() if n not in names and n in "BhcP"}
    values, expected = arrays | zero, []
    for k, back in enumerate(ways):
        b, rb = np.split(values["B"][k].astype(np.float64), 2)
        w = (values["W"][k], values["R"][k], b, rb, values["P"][k])
        states = [values[s][k] for s in "hc"[: 2 if op == "LSTM" else 1]]
        expected.append(formula(op, values["x"], w, states, lengths, back, **more))
    np.testing.assert_allclose(actual[0], np.stack([y for y, _ in expected], 1), rtol=1e-5, atol=1e-6)
    for k, last in enumerate(actual[1:]):
        np.testing.assert_allclose(last, np.stack([s[k] for _, s in expected]), rtol=1e-5, atol=1e-6)


EVERY = pytest.mark.parametrize("op", GATES)


@pytest.mark.sampled(9)
@EVERY
@pytest.mark.parametrize("directions", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("names", [["x", "W", "R"], ["x", "W", "R", "B"], ["x", "W", "R", "B", "", "h"]])
def test_a_sequence_gives_what_the_formula_says(op, directions, names):
    agree(op, names, directions)


@pytest.mark.sampled(9)
@EVERY
@pytest.mark.parametrize("directions", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [[5, 1, 3], [0, 5, 5], [4, 4, 2]])
def test_steps_behind_the_end_of_a_sequence_count_for_nothing(op, directions, lengths):
    agree(op, ["x", "W", "R", "B", "n", "h"], directions, lengths=np.array(lengths, np.int32))


@pytest.mark.sampled(2)
@EVERY
@pytest.mark.parametrize("directions", ["forward", "bidirectional"])
def test_runs_decide_how_long_sequences_are_and_how_many(op, directions):
    agree(op, ["x", "W", "R", "B"], directions, dynamic=True)
    agree(op, ["x", "W", "R", "B", "", "h"], directions, dynamic=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("directions", ["reverse", "bidirectional"])
@pytest.mark.parametrize("forget", [False, True])
def test_an_lstm_looks_at_its_cell_through_peepholes(directions, forget):
    names = ["x", "W", "R", "B", "", "h", "c", "P"]
    agree("LSTM", names, directions, {"input_forget": int(forget)}, forget=forget)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("names", [["x", "W", "R"], ["x", "W", "R", "B"], ["x", "W", "R", "B", "", "h"]])
def test_a_gru_may_reset_what_the_state_gives(names):
    agree("GRU", names, "bidirectional", {"linear_before_reset": 1}, before=True)


@EVERY
def test_arguments_of_gates_are_clipped(op):
    names = ["x", "W", "R", "B", "", "h", *(["c"] if op == "LSTM" else [])]
    agree(op, names, attributes={"clip": 0.25}, clip=0.25)


FUNCTIONS = {
    "Affine": lambda x, a, b: a * x + b,
    "Relu": lambda x, a, b: np.maximum(x, 0),
    "LeakyRelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "ThresholdedRelu": lambda x, a, b: np.where(x > a, x, 0),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "Elu": lambda x, a, b: np.where(x < 0, a * (np.exp(np.minimum(x, 0)) - 1), x),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Softplus": lambda x, a, b: np.log1p(np.exp(x)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_activation_takes_its_alpha_and_beta(name):
    attributes = {"activations": [name], "activation_alpha": [0.25], "activation_beta": [0.75]}
    agree("RNN", ["x", "W", "R", "B"], attributes=attributes, f=lambda x: FUNCTIONS[name](x, 0.25, 0.75))


def test_activations_without_parameters_take_none():
    attributes = {"activations": ["Sigmoid", "LeakyRelu"], "activation_alpha": [0.125]}
    agree("GRU", ["x", "W", "R", "B"], attributes=attributes, g=lambda x: np.where(x < 0, 0.125 * x, x))


@EVERY
def test_layout_1_has_the_batch_in_front(op):
    arrays = operands(op, 2)
    names, turned = ["x", "W", "R", "B", "", "h"], {n: arrays[n].swapaxes(0, 1) for n in "xh"}
    proto, _ = model(op, names, arrays, direction="bidirectional")
    y, last, *_ = prepare(proto).run({n: arrays[n] for n in "xh"})
    proto, _ = model(op, names, arrays | turned, direction="bidirectional", layout=1)
    got, state, *_ = prepare(proto).run(turned)
    np.testing.assert_allclose(got, y.transpose(2, 0, 1, 3), rtol=1e-6)
    np.testing.assert_allclose(state, last.swapaxes(0, 1), rtol=1e-6)


@pytest.mark.sampled(5)
@EVERY
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("directions", ["forward", "bidirectional"])
def test_no_steps_leave_the_state_as_it_was(op, dynamic, directions):
    arrays = operands(op, 1 + (directions != "forward"))
    arrays["x"] = arrays["x"][:0]
    proto, _ = model(op, ["x", "W", "R", "B", "", "h"], arrays, dynamic=dynamic, direction=directions)
    y, h, *_ = prepare(proto).run({"x": arrays["x"], "h": arrays["h"]})
    assert y.shape == (0, len(arrays["h"]), B, H)
    np.testing.assert_array_equal(h, arrays["h"])


@pytest.mark.sampled(4)
@EVERY
@pytest.mark.parametrize(("dtype", "tol"), [(np.float16, 4e-3), (np.float64, 1e-6)])
def test_other_types_of_numbers_are_as_exact_as_they_are(op, dtype, tol):
    arrays = operands(op, 1)
    names = ["x", "W", "R", "B", "", "h"]
    proto, _ = model(op, names, arrays)
    expected = prepare(proto).run({n: arrays[n] for n in "xh"})
    narrow = {n: x.astype(dtype) for n, x in arrays.items()}
    got = prepare(model(op, names, narrow)[0]).run({n: narrow[n] for n in "xh"})
    for actual, y in zip(got, expected, strict=True):
        assert actual.dtype == dtype
        np.testing.assert_allclose(actual.astype(np.float64), y, atol=tol)


def test_an_unknown_activation_is_reported():
    proto, _ = model("RNN", ["x", "W", "R"], operands("RNN", 1), activations=["Gelu"])
    with pytest.raises(AnyrtError, match=r"AR304.*activation Gelu"):
        prepare(proto)
