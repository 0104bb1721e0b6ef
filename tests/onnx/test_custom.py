"""Operators that a program implements itself."""

import numpy as np
import pytest

import anyrt
from anyrt.core.errors import AnyrtError
from anyrt.onnx import importers
from anyrt.onnx.node import IMPORTERS

X = np.float32([[-4, -1, 0.5], [2, 3, 9]])


@pytest.fixture(autouse=True)
def _no_traces():
    importers.load()
    held = dict(IMPORTERS)
    yield
    IMPORTERS.clear()
    IMPORTERS.update(held)


def test_a_function_of_numpy_takes_the_place_of_an_operator(run):
    @anyrt.op("mine::Swish6")
    def swish6(x, beta=1.0):
        return x * np.minimum(np.maximum(x * beta + 3, 0), 6) / 6

    got = run("Swish6", {"x": X}, domain="mine", beta=2.0, opset=17)
    np.testing.assert_allclose(got, swish6(X, beta=2.0), rtol=1e-6)


def test_numbers_beside_float64_are_float64(run):
    @anyrt.op("mine::Third")
    def third(x):
        return x * 0.1 + np.array([1 / 3, 2 / 3, 1 / 7]) + np.float64(1 / 9)

    x = X / np.float64(3)
    np.testing.assert_allclose(run("Third", {"x": x}, domain="mine"), third(x), rtol=1e-15)


def test_reductions_comparisons_and_products_are_followed(run):
    @anyrt.op("mine::Odd")
    def odd(x, w, k=0):
        y = np.where(x >= k, np.square(x), np.tanh(x)) @ w
        return (
            y - np.mean(y, axis=1, keepdims=True),
            y.sum(axis=0).reshape(1, -1),
            np.concatenate([x, x.T.T], 0),
        )

    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    got = run("Odd", {"x": X}, {"w": w}, domain="mine", outputs=3, k=1, opset=17)
    for a, b in zip(got, odd(X, w, k=1), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_an_operator_of_onnx_may_be_redefined(run):
    anyrt.op("Relu")(lambda x: x + 1)
    np.testing.assert_allclose(run("Relu", {"x": X}), X + 1)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.linalg.inv(x), "AR901.*numpy.inv"),
        (lambda x: np.add.reduce(x), "AR901.*numpy.add"),
        (lambda x: 3, "AR901.*int"),
        (lambda x: x.nothing, "AR417.*AttributeError"),
        (lambda x, y: x, "AR417.*TypeError"),
    ],
)
def test_unsupported_code_is_reported(run, function, message):
    anyrt.op("mine::Bad")(function)
    with pytest.raises(AnyrtError, match=message):
        run("Bad", {"x": X}, domain="mine", opset=17)


@pytest.mark.parametrize("name", ["", "domain::", 3])
def test_a_name_is_text(name):
    with pytest.raises(AnyrtError, match="AR304"):
        anyrt.op(name)
