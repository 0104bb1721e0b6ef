"""The example with a plug-in made of functions, compared with plain NumPy."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import anyrt as trt

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "median.py"


@pytest.fixture(scope="module")
def build():
    yield runpy.run_path(str(PROGRAM))["build"]
    registry = trt.get_plugin_registry()
    registry.deregister_creator(registry.get_creator("median", "1", "examples"))


def test_each_pixel_is_the_median_of_its_neighbours_between_0_and_1(build):
    engine, rng = build(3), np.random.default_rng(3)
    for shape in [(3, 3), (8, 5), (64, 64)]:
        x = rng.normal(0.5, 1, shape).astype(np.float32)
        near = [x[i : i + shape[0] - 2, j : j + shape[1] - 2] for i in range(3) for j in range(3)]
        want = np.sort(near, 0)[4].clip(0, 1)
        assert np.array_equal(engine.run(picture=x)["clean"], want)
