"""A photograph from its file to the outputs, step by step as a user writes it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import anyrt as trt

HERE = Path(__file__).parent
PHOTO = HERE.parents[1] / "demo" / "photo.jpg"
sys.path.insert(0, str(HERE))
import photo_chain  # noqa: E402  # beside this file, which is no package

# Positions are float32: an error of 2^-23 of the largest, times the steepest edge, in units of the deviation.
TOLERANCE = 3840 * 2.0**-22 * 255 / 57.1


def pixels():
    try:
        from PIL import Image
    except ImportError:
        return photo_chain.photograph(600, 512)
    return np.ascontiguousarray(np.asarray(Image.open(PHOTO))[None])


@pytest.fixture(scope="module")
def plan(cache_dir):
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    return builder.build_serialized_network(*photo_chain.describe(trt, builder))


def test_a_photograph_goes_through_the_chain(plan):
    photo = pixels()
    engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(plan)
    context = engine.create_execution_context()
    assert context.set_input_shape("x", photo.shape)
    out = np.empty(tuple(context.get_tensor_shape("y")), np.float32)
    assert out.shape == (1, 3, 640, 640)
    context.set_tensor_address("x", photo.ctypes.data)
    context.set_tensor_address("y", out.ctypes.data)
    assert context.execute_async_v3(0)
    assert np.array_equal(out, engine.run(x=photo)["y"])
    np.testing.assert_allclose(out, photo_chain.expected(photo), rtol=0, atol=TOLERANCE)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [(64, 64), (2160, 3840), (97, 1021), (640, 640), (641, 639)])
def test_one_engine_serves_every_size(plan, size):
    photo = photo_chain.photograph(*size)
    got = trt.Runtime(trt.Logger()).deserialize_cuda_engine(plan).run(x=photo)["y"]
    np.testing.assert_allclose(got, photo_chain.expected(photo), rtol=0, atol=TOLERANCE)


def test_the_chain_is_few_passes_over_memory(plan):
    engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(plan)
    shown = engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON)
    assert len(json.loads(shown)["Layers"]) <= 3
    assert json.loads(shown)["Report"].count("touches") <= 3


def test_another_process_runs_the_plan_without_llvm(tmp_path, plan):
    (tmp_path / "plan").write_bytes(plan)
    command = [sys.executable, HERE / "photo_chain.py", "run", tmp_path / "plan", tmp_path / "y.npy"]
    # Fills the cache, in a separate process because this one may have its thread pool from another cache.
    warm = [sys.executable, HERE / "photo_chain.py", "warm", tmp_path / "plan", tmp_path / "y.npy"]
    subprocess.run(warm, check=True, timeout=60)
    (tmp_path / "y.npy").unlink()
    subprocess.run(command, check=True, timeout=60)
    want = photo_chain.expected(photo_chain.photograph())
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, rtol=0, atol=TOLERANCE)


def test_the_first_load_after_a_build_needs_no_llvm(tmp_path):
    environment = {**os.environ, "ANYRT_CACHE_DIR": str(tmp_path / "cache")}
    for command in (["build", "plan"], ["run", "plan", "y.npy"]):
        arguments = [sys.executable, HERE / "photo_chain.py", *command]
        subprocess.run(arguments, check=True, timeout=120, cwd=tmp_path, env=environment)
    want = photo_chain.expected(photo_chain.photograph())
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, rtol=0, atol=TOLERANCE)
