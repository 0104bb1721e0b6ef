"""Elementwise functions of ONNX models, compared with NumPy and ONNX's reference."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

INTS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
EDGES = [-128, -7, -1, 0, 1, 2, 7, 100, 127]


def edges(dtype):
    """All pairs of small integers of a type."""
    x = np.array(EDGES).astype(dtype)
    return {"a": np.repeat(x, len(x)), "b": np.tile(x, len(x))}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize(("op", "function"), [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply)])
def test_integers_of_every_width_wrap(run, op, function, dtype):
    x = edges(dtype)
    np.testing.assert_array_equal(run(op, x), function(x["a"], x["b"]))


@pytest.mark.parametrize("dtype", INTS)
def test_quotients_of_integers_are_truncated(run, dtype):
    x = {n: v[edges(dtype)["b"] != 0] for n, v in edges(dtype).items()}
    pairs = [(int(a), int(b)) for a, b in zip(*x.values(), strict=True)]
    expected = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
    least = int(np.iinfo(dtype).min)
    wrapped = [(w - least) % 256**dtype.itemsize + least for w in expected]
    assert run("Div", x).tolist() == wrapped


@pytest.mark.parametrize("dtype", [*INTS, np.dtype("f4"), np.dtype("f8"), np.dtype("f2")])
def test_remainders_have_the_sign_of_the_divisor_or_of_the_dividend(run, dtype):
    x = {n: v[edges(dtype)["b"] != 0] for n, v in edges(dtype).items()}
    if dtype.kind != "f":
        np.testing.assert_array_equal(run("Mod", x), np.mod(x["a"], x["b"]))
    np.testing.assert_array_equal(run("Mod", x, fmod=1), np.fmod(x["a"], x["b"]))


def test_remainders_of_large_quotients_are_exact(run):
    x = {"a": np.float32([1e10, -3e8, 5.5, 7]), "b": np.float32([3, 7, np.inf, 0.1])}
    np.testing.assert_array_equal(run("Mod", x, fmod=1), np.fmod(x["a"], x["b"]))


@pytest.mark.parametrize("dtype", INTS)
def test_shifts_by_all_bits_leave_nothing(run, dtype):
    x = {
        "a": np.array([1, 5, 100] * 3).astype(dtype),
        "b": np.array([0, 1, 3, 6, 7, 8, 31, 63, 64]).astype(dtype),
    }
    np.testing.assert_array_equal(run("BitShift", x, direction="RIGHT"), x["a"] >> x["b"])
    np.testing.assert_array_equal(run("BitShift", x, direction="LEFT"), x["a"] << x["b"])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize(("op", "function"), [("BitwiseAnd", np.bitwise_and), ("BitwiseXor", np.bitwise_xor)])
def test_bits_of_integers(run, op, function, dtype):
    x = edges(dtype)
    np.testing.assert_array_equal(run(op, x), function(x["a"], x["b"]))
    np.testing.assert_array_equal(run("BitwiseNot", {"a": x["a"]}), ~x["a"])


@pytest.mark.parametrize("op", ["GreaterOrEqual", "LessOrEqual", "Greater", "Less", "Equal"])
def test_nothing_compares_with_nan_and_shapes_broadcast(agrees, op):
    x = np.float32([1, np.nan, np.inf, -0.0])
    agrees(op, {"a": x.reshape(4, 1), "b": np.float32([0, np.nan, 1, np.inf])})


@pytest.mark.parametrize("kind", ["i1", "u1", "?"])
def test_truth_values_and_bytes_are_equal_or_not(run, kind):
    a, b = np.array([0, 1, 1, 0]).astype(kind), np.array([0, 1, 0, 1]).astype(kind)
    np.testing.assert_array_equal(run("Equal", {"a": a, "b": b}), a == b)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("base", "exponent"), [("i8", "i8"), ("i4", "i4"), ("i8", "u4"), ("i4", "u8")])
@pytest.mark.parametrize("known", [True, False])
def test_powers_of_integers_wrap(run, base, exponent, known):
    x = {"a": np.array([2, -3, 7, 10, -1, 1, 0, 5]).astype(base)}
    n = {"b": np.array([10, 3, 2, 9, 62, 62, 5, 0]).astype(exponent)}
    got = run("Pow", x, n) if known else run("Pow", x | n)
    np.testing.assert_array_equal(got, x["a"] ** n["b"].astype(base))


def test_powers_of_integers_have_negative_exponents_and_fractions(run):
    x = np.int64([1, -1, 2, 0, -1, 3, 4, 9])
    assert run("Pow", {"a": x, "b": -np.int64([1, 3, 1, 1, 2, 2, 1, 1])}).tolist() == [
        1,
        -1,
        0,
        0,
        1,
        0,
        0,
        0,
    ]
    assert run("Pow", {"a": x[-3:], "b": np.float32([2, 0.5, 3])}).tolist() == [9, 2, 729]


def test_exponents_of_float64_are_taken_as_they_are(run):
    got = run("Pow", {"a": np.float32([2, 3]), "b": np.array([30.1, 1 / 3])})
    np.testing.assert_array_equal(got, np.float32([2**30.1, 3 ** (1 / 3)]))


def test_powers_of_floats_take_exponents_of_other_types(run):
    x = np.float32([2, -3, 0.5])
    np.testing.assert_allclose(run("Pow", {"a": x, "b": np.int64([3, 2, -1])}), [8, 9, 2])
    np.testing.assert_allclose(
        run("Pow", {"a": x.astype(np.float16), "b": np.float32([3, 2, 2])}), [8, 9, 0.25]
    )


@pytest.mark.parametrize("kind", ["f4", "f8", "f2", "i1", "u1", "i4", "i8", "u8"])
def test_bounds_are_optional_and_of_any_type(run, kind):
    x = np.arange(10).astype(kind)
    low, high = np.array(3).astype(kind), np.array(6).astype(kind)
    np.testing.assert_array_equal(run("Clip", {"x": x, "l": low, "h": high}), np.clip(x, 3, 6))
    np.testing.assert_array_equal(run("Clip", {"x": x}, {"h": high}, order=["x", "", "h"]), np.minimum(x, 6))
    np.testing.assert_array_equal(run("Clip", {"x": x}), x)


def test_bounds_were_attributes_until_opset_10(run):
    x = np.float32([-2, 0, 2, np.nan])
    np.testing.assert_array_equal(run("Clip", {"x": x}, opset=7, min=-1.0, max=1.0), [-1, 0, 1, np.nan])
    np.testing.assert_array_equal(run("Clip", {"x": x}, opset=10, max=1.0), [-2, 0, 1, np.nan])


@pytest.mark.parametrize("kind", ["f4", "f2", "f8"])
def test_extremes_sums_and_means_take_any_number_of_inputs(run, kind):
    x = {n: np.arange(6).reshape(2, 3).astype(kind) * s for n, s in (("a", 1), ("b", -1), ("c", 2))}
    x["c"] = x["c"][:1]
    a, b, c = x.values()
    np.testing.assert_array_equal(run("Max", x), np.maximum(np.maximum(a, b), c))
    np.testing.assert_array_equal(run("Min", x), np.minimum(np.minimum(a, b), c))
    np.testing.assert_array_equal(run("Sum", x), a + b + c)
    np.testing.assert_allclose(run("Mean", x), (a + b + c) / 3, rtol=1e-3)
    np.testing.assert_array_equal(run("Max", {"a": a}), a)


@pytest.mark.parametrize("attributes", [{}, {"detect_positive": 0}, {"detect_negative": 0}])
@pytest.mark.parametrize("kind", ["f4", "f8", "f2"])
def test_infinities_of_one_sign(run, attributes, kind):
    x = np.array([np.inf, -np.inf, np.nan, 1]).astype(kind)
    expected = [attributes.get("detect_positive", 1), attributes.get("detect_negative", 1), 0, 0]
    assert run("IsInf", {"x": x}, **attributes).tolist() == [bool(w) for w in expected]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "op", ["Celu", "Gelu", "HardSwish", "Mish", "Softplus", "Swish", "Elu", "Selu", "Softsign"]
)
@pytest.mark.parametrize("kind", ["f4", "f8", "f2"])
def test_activations_in_every_type(agrees, op, kind):
    x = np.linspace(-4, 4, 33).astype(kind)
    opset = 24 if op == "Swish" else 22
    agrees(op, {"x": x}, opset=opset, tol=3e-3 if kind == "f2" else 1e-5)


def test_activations_take_their_parameters(agrees):
    x = {"x": np.linspace(-4, 4, 33, dtype=np.float32)}
    agrees("Celu", x, alpha=2.0)
    agrees("Gelu", x, approximate="tanh")
    agrees("Swish", x, alpha=0.5, opset=24)
    agrees("Shrink", x, lambd=1.5, bias=1.0)
    agrees("ThresholdedRelu", x, alpha=2.0)


def test_shrink_checks_the_lower_bound_first(run):
    x = np.float32([-3, -0.5, 0.5, 3])
    assert run("Shrink", {"x": x}, lambd=-1.0, bias=2.0).tolist() == [-1, 1.5, 2.5, 1]


def test_integers_shrink_at_fractions_and_slopes_are_theirs(run):
    x = np.int32([-3, -1, 0, 1, 3])
    assert run("Shrink", {"x": x}, lambd=0.5, bias=1.0).tolist() == [-2, 0, 0, 0, 2]
    assert run("Shrink", {"x": np.uint16([8, 20])}, lambd=0.5, bias=10.0).tolist() == [65534, 10]
    ends = np.uint64([0, 2**64 - 1])
    assert run("Shrink", {"x": ends}, lambd=0.5, bias=10.0).tolist() == [0, 2**64 - 11]
    assert run("Shrink", {"x": np.int8([3, -3])}, lambd=0.5, bias=1.5).tolist() == [1, -1]
    assert run("PRelu", {"x": x, "s": np.int32([2])}).tolist() == [-6, -2, 0, 1, 3]
    assert run("Relu", {"x": x}).tolist() == [0, 0, 0, 1, 3]
    assert run("Abs", {"x": x.astype(np.int8)}).tolist() == [3, 1, 0, 1, 3]


def test_slopes_broadcast_and_sizes_may_be_open(agrees):
    x, slope = (
        np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32),
        np.float32([0.1, 0.2, 0.3]),
    )
    agrees("PRelu", {"x": x, "s": slope.reshape(3, 1)}, dynamic=("x",))
    agrees("PRelu", {"x": x[:, :, :0], "s": slope.reshape(3, 1)})


@pytest.mark.parametrize("name", ["Sum", "Mean"])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sums_of_many_inputs_are_rounded_once(run, name, dtype):
    inputs = {f"x{k}": np.array([v], dtype) for k, v in enumerate((1024.0, 0.25, 0.25, -1024.0))}
    assert float(run(name, inputs)[0]) == (0.5 if name == "Sum" else 0.125)
