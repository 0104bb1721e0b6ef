"""ONNX operators that move elements accept every element type of networks."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

TYPES = ["u1", "i2", "u4", "u8", "f8", "f2", "?", "bfloat16", "float8_e4m3fn", "float8_e5m2fnuz", "int4"]
TYPES += ["uint2", "float4_e2m1fn"]


def of(name: str, values: object) -> np.ndarray:
    return np.asarray(values).astype(getattr(ml_dtypes, name, None) or name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TYPES)
def test_elements_of_every_type_are_chosen_joined_and_stored(run, name):
    x, z = of(name, [[1, 0, 1], [1, 1, 0]]), of(name, [[0, 1, 0], [0, 0, 1]])
    kept = np.array([[True, False, True]])
    wide = run("Where", {"kept": kept, "x": x, "z": z})
    assert (wide.dtype, wide.astype(int).tolist()) == (x.dtype, [[1, 1, 1], [1, 0, 0]])
    assert run("Concat", {"x": x, "z": z}, axis=1).astype(int).tolist() == [
        [1, 0, 1, 0, 1, 0],
        [1, 1, 0, 0, 0, 1],
    ]
    stored = run("ScatterElements", {"x": x, "at": np.array([[1, 0, 1]]), "z": z[:1]})
    assert stored.astype(int).tolist() == [[1, 1, 1], [0, 1, 0]]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TYPES)
def test_elements_of_every_type_are_repeated_bordered_and_counted(run, name):
    x = of(name, [[1, 0, 1], [1, 1, 0]])
    assert run("Tile", {"x": x, "n": np.array([1, 2])}).astype(int).tolist() == [[1, 0, 1] * 2, [1, 1, 0] * 2]
    padded = run("Pad", {"x": x, "n": np.array([0, 1, 0, 0])}, {"one": of(name, 1)})
    assert padded.astype(int).tolist() == [[1, 1, 0, 1], [1, 1, 1, 0]]
    assert run("NonZero", {"x": x}).tolist() == [[0, 0, 1, 1], [0, 2, 0, 1]]
    assert run("Trilu", {"x": x}).astype(int).tolist() == [[1, 0, 1], [0, 1, 0]]
