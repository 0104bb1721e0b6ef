"""Sums of products with small constant matrices as expressions."""

import numpy as np
import pytest

from anyrt.ir.kernelread import parse_kernels
from anyrt.ir.kernelrules import kernel_faults
from anyrt.ir.rewrite import Fail
from anyrt.ir.run import run
from anyrt.ir.statements import buffers_of
from anyrt.ir.visit import statements
from anyrt.loops.multiply_out import multiply_out

TEXT = """
buffer acc f32 register 1 offset 0
buffer m FLOAT const 36 offset 0
buffer x FLOAT input 360 offset 0
buffer y FLOAT output 120 offset 0
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  for serial i1 0.. < 3 {
    for serial i2 0.. < 2 {
      for serial i3 0.. < 20 {
        alloc acc = 0.0:f32
        for serial k4 0.. < 3 {
          for serial k5 0.. < 3 {
            fold acc add mul(m[18*mod(i1, 2) + 9*i2 + 3*k4 + k5], x[180*floordiv(i1, 2) + i3 + 60*k4 + 20*k5])
          }
        }
        store y[40*i1 + 20*i2 + i3] = acc[0]
      }
    }
  }
}
"""
ONE_AXIS = np.array([[1.0, 0.5, 0.0], [0.0, 0.5, -1.0]])
BOTH = np.einsum("ik,jl->ijkl", ONE_AXIS, ONE_AXIS)
OTHER = np.where(BOTH == 0.25, 3.0, BOTH)


def unrolled(names, text=TEXT, both=BOTH, fuses=True):
    (kernel,) = parse_kernels(text)
    (m,) = (x for x in buffers_of(kernel.body) if x.name == "m")
    return kernel, multiply_out(kernel, names, {m: np.float32(both).reshape(-1)}, fuses)


def outcome(kernel, x):
    arrays = {
        "m": np.float32(BOTH).reshape(-1),
        "x": np.float32(x).reshape(-1),
        "y": np.zeros(120, np.float32),
    }
    memory = {b: arrays[b.name] for b in buffers_of(kernel.body) if b.name in arrays}
    with np.errstate(invalid="ignore"):
        run(kernel, memory, {})
    return arrays["y"]


@pytest.mark.parametrize("fuses", [True, False])
def test_rows_of_whole_and_last_iterations_are_summed_without_loops(names, fuses):
    before, after = unrolled(names, fuses=fuses)
    x = np.random.default_rng(0).integers(-8, 8, 360)
    assert list(kernel_faults(after)) == []
    assert not any(s for s in statements(after.body) if type(s).__name__ == "Fold")
    np.testing.assert_array_equal(outcome(after, x), outcome(before, x))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_all_sums_of_an_infinity_are_nan(names, value):
    before, after = unrolled(names)
    for place in range(0, 360, 20):
        x = np.ones(360)
        x[place] = value
        expected, got = outcome(before, x), outcome(after, x)
        np.testing.assert_array_equal(np.isnan(got), ~np.isfinite(expected))
        np.testing.assert_array_equal(got[np.isfinite(expected)], expected[np.isfinite(expected)])


def test_the_matrix_is_not_read(names):
    _, after = unrolled(names)
    assert "m" not in {x.name for x in buffers_of(after.body)}


@pytest.mark.parametrize(
    ("text", "both", "why"),
    [
        (TEXT, OTHER, "its constants are not a product of two matrices"),
        (
            TEXT.replace("i3 + 60*k4", "7*i3 + 60*k4"),
            BOTH,
            "its loads and stores are not contiguous",
        ),
        (TEXT.replace("acc = 0.0", "acc = 1.0"), BOTH, "its constants are not matrices for two axes"),
    ],
)
def test_other_sums_keep_their_loops(names, text, both, why):
    _, after = unrolled(names, text, both)
    assert isinstance(after, Fail)
    assert after.reason == why


def test_a_factor_whose_numbers_are_unknown_keeps_its_loops(names):
    (kernel,) = parse_kernels(TEXT)
    assert multiply_out(kernel, names, {}, True).reason == "no factor is constant"
