"""Einsums, determinants and random numbers of ONNX models, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

RNG = np.random.default_rng(17)


def random(kind, *shape):
    """Random numbers around 0, or small integers."""
    return (RNG.standard_normal(shape) * (1 if kind[0] == "f" else 5)).astype(kind)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("kind", ["f4", "f8", "f2", "i4", "i8", "i1"])
@pytest.mark.parametrize("equation", ["ij,jk->ik", " ...j , jk ", "ij,jk,k", "Aj,jB", "Zj,ja"])
def test_letters_of_any_size_name_axes(run, kind, equation):
    x = {"a": random(kind, 3, 4), "b": random(kind, 4, 5)} | (
        {"c": random(kind, 5)} if ",k" in equation else {}
    )
    with np.errstate(all="ignore"):
        expected = np.einsum(equation, *(v.astype("f8" if kind[0] == "f" else "i8") for v in x.values()))
    got = run("Einsum", x, equation=equation, dynamic=("a",) if "..." not in equation else ())
    tol = 2e-2 if kind == "f2" else 1e-5
    np.testing.assert_allclose(got, expected.astype(kind), rtol=tol, atol=tol)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_determinants_of_batches(run, n, kind):
    x = random(kind, 2, 3, n, n)
    got = run("Det", {"x": x}, dynamic=())
    assert got.shape == (2, 3)
    np.testing.assert_allclose(got, np.linalg.det(x), rtol=1e-3 if kind == "f4" else 1e-9)


def test_determinants_of_one_matrix_of_permutations_and_of_dependent_rows(run):
    assert run("Det", {"x": np.eye(4, dtype=np.float32)[[1, 2, 3, 0]]}).tolist() == -1
    assert run("Det", {"x": np.eye(4, dtype=np.float32)[[1, 0, 3, 2]]}).tolist() == 1
    assert run("Det", {"x": np.float32([[1, 2], [2, 4]])}).tolist() == 0
    assert run("Det", {"x": np.zeros((2, 3, 3), np.float32)}).tolist() == [0, 0]


def test_determinants_of_nan_are_nan(run):
    x = np.zeros((9, 3, 3), np.float32)
    x.reshape(9, 9)[np.arange(9), np.arange(9)] = np.nan
    assert np.isnan(run("Det", {"x": x})).all()


@pytest.mark.parametrize("kind", [1, 10, 11, 16])
def test_random_numbers_have_their_distribution_and_come_again(run, kind):
    uniform = run("RandomUniform", {}, shape=[100, 100], low=-1.0, high=3.0, seed=2.0, dtype=kind)
    normal = run("RandomNormal", {}, shape=[10000], mean=2.0, scale=0.5, seed=2.5, dtype=kind)
    assert abs(uniform.astype("f8").mean() - 1) < 0.05
    assert (uniform >= -1).all()
    assert abs(normal.astype("f8").std() - 0.5) < 0.02
    again = run("RandomNormal", {}, shape=[10000], mean=2.0, scale=0.5, seed=2.5, dtype=kind)
    np.testing.assert_array_equal(normal, again)


@pytest.mark.parametrize("op", ["RandomUniform", "RandomNormal"])
def test_random_numbers_of_float64_have_its_digits(run, op):
    x = run(op, {}, shape=[10000], seed=2.0, dtype=11)
    assert np.mean(x == x.astype(np.float32)) < 0.01
    assert np.unique(x).size == x.size
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.05


def test_elements_kept_in_training_are_float64(run):
    x, training = np.full((100, 100), 1 / 3), {"t": np.array(True)}
    y, kept = run("Dropout", {"x": x}, {"r": np.float64(0.3)} | training, outputs=2, seed=3)
    np.testing.assert_allclose(y, np.where(kept, x / 0.7, 0), rtol=1e-15)
    assert abs(kept.mean() - 0.7) < 0.02


def test_random_numbers_have_the_shape_of_an_input(run):
    x = np.zeros((30, 40), np.float32)
    assert run("RandomUniformLike", {"x": x}, dynamic=("x",)).shape == (30, 40)
    assert run("RandomNormalLike", {"x": x.astype(np.int64)}, dtype=1, seed=1.0).dtype == np.float32
    drawn = run("Bernoulli", {"x": np.full((100, 100), 0.25)}, seed=3.0, dtype=6)
    assert abs(drawn.mean() - 0.25) < 0.02


def test_classes_are_drawn_as_often_as_they_are_likely(run):
    x = np.log(np.float32([[0.1, 0.2, 0.7], [1.0, 1e-30, 1e-30]]))
    got = run("Multinomial", {"x": x}, sample_size=4000, seed=4.0, dtype=7)
    assert got.dtype == np.int64
    np.testing.assert_allclose(np.bincount(got[0]) / 4000, [0.1, 0.2, 0.7], atol=0.03)
    assert not got[1].any()


def test_nothing_drops_out_but_in_training(run):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y, mask = run("Dropout", {"x": x}, outputs=2, dynamic=("x",))
    np.testing.assert_array_equal(y, x)
    assert mask.all()
    y, mask = run("Dropout", {"x": x}, opset=7, outputs=2, ratio=0.5)
    assert mask.dtype == np.float32
    y, mask = run("Dropout", {"x": x, "r": np.float32(0.5), "t": np.array(False)}, outputs=2)
    np.testing.assert_array_equal(y, x)


def test_elements_kept_in_training_are_scaled_up(run):
    x, inputs = np.ones((100, 100), np.float32), {"r": np.float32(0.75), "t": np.array(True)}
    y, mask = run("Dropout", {"x": x} | inputs, outputs=2, seed=5)
    np.testing.assert_array_equal(y, mask * np.float32(4))
    assert abs(mask.mean() - 0.25) < 0.02
    np.testing.assert_array_equal(run("Dropout", {"x": x}, inputs | {"r": np.float32(0)}), x)
