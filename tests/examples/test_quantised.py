"""The int8 classifier gives the result of its codes in NumPy, and nearly the classes of float32."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "quantised.py"


@pytest.fixture(scope="module")
def example():
    return SimpleNamespace(**runpy.run_path(str(PROGRAM)))


def coded(x, scale):
    return np.clip(np.rint(x / np.float32(scale)), -128, 127).astype(np.int64)


def test_products_of_codes_are_exact(example):
    size = example.Size(16, (24,), 3)
    weights = example.trained(size, steps=5)
    x, _ = example.samples(size, 40, 3)
    ranges = example.largest(size, weights, x)
    y = x
    for n in range(2):
        kernel, step = weights[f"{n}.weight"], ranges[n] / 127
        steps = np.abs(kernel).max(1) / 127
        sums = coded(y, step) @ np.rint(kernel / steps[:, None]).astype(np.int64).T
        y = sums * (np.float64(np.float32(step)) * steps) + weights[f"{n}.bias"]
        y = np.maximum(y, 0).astype(np.float32) if n == 0 else y
    got = example.build(size, weights, ranges).run(x=x)["scores"]
    np.testing.assert_allclose(got, y, rtol=0, atol=2 * ranges[1] / 127 * np.abs(kernel).max())
    assert np.mean(np.abs(got - y) < 1e-5) > 0.9  # all but those next to a tie


def test_classes_are_those_of_float32(example, capsys):
    example.main()
    output = capsys.readouterr().out.splitlines()
    exact, codes, alike = (float(line.split("%")[0].split()[-1]) for line in output)
    assert exact > 80
    assert abs(exact - codes) < 1
    assert alike > 98
