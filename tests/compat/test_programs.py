"""Programs for the original TensorRT, each started in a separate process as users do."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from shutil import which

import pytest

PROGRAMS = Path(__file__).parent / "programs"
NEEDS_CXX = pytest.mark.skipif(which("c++") is None, reason="needs a C++ compiler")
# docs/programs.md lists the features that each uses, and its checks.
SAMPLES = [
    "plugin_v3_circ_pad.py {tmp}",
    "weight_stripping.py {tmp}",
    "refit_weights.py",
    "yolo_export.py {tmp}",
    "stream_io.py {tmp}/net.plan",
    "progress_monitor.py",
    "output_allocator.py",
    "calibrators.py {tmp}",
    "debug_tensors.py",
    "algorithm_selector.py",
    "plugin_functions.py",
    "timing_cache.py {tmp}/timing.cache",
    "profiles_and_contexts.py",
    "dynamic_shapes.py",
    "profile_and_inspect.py",
    "plugin_v2_dynamic.py",
    pytest.param("plugin_cuda_kernels.py", marks=NEEDS_CXX),
    "error_recorder.py",
    "device_memory.py",
]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    return {**os.environ, "ANYRT_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("build_and_run.py", ["{tmp}/engine.plan"]),
        ("engine_loader.py", ["{tmp}/engine.plan"]),
        ("timing_script.py", ["--iterations", "5"]),
        ("calibrate.py", ["{tmp}/net.cache"]),
    ],
)
def test_program_runs_unchanged(program, arguments, tmp_path, environment):
    command = [sys.executable, "-m", "anyrt.compat", PROGRAMS / program]
    command += [a.format(tmp=tmp_path) for a in arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["PASSED"]), done.stdout + done.stderr


# Some run daily: the others take longer, or other tests cover the same features.
@pytest.mark.sampled(13)
@pytest.mark.parametrize("program", SAMPLES)
def test_sample_runs_unchanged(program, tmp_path, environment):
    name, *arguments = program.format(tmp=tmp_path).split()
    command = [sys.executable, "-m", "anyrt.compat", PROGRAMS / name, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["PASSED"]), done.stdout + done.stderr


@pytest.mark.programs
@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed: make programs runs this")
@pytest.mark.parametrize("program", ["torch_on_cuda.py", "torch2trt_models.py", "yolo_torch.py"])
def test_program_with_tensors_of_pytorch_runs_unchanged(program, environment, tmp_path):
    command = [sys.executable, "-m", "anyrt.compat", PROGRAMS / program, tmp_path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["PASSED"]), done.stdout + done.stderr


@pytest.mark.programs
@pytest.mark.skipif(
    find_spec("polygraphy") is None, reason="Polygraphy is not installed: make programs runs this"
)
def test_program_with_polygraphy_as_a_library_runs_unchanged(environment, tmp_path):
    command = [sys.executable, "-m", "anyrt.compat", PROGRAMS / "polygraphy_api.py", tmp_path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["PASSED"]), done.stdout + done.stderr


@pytest.mark.sampled(2)
@pytest.mark.parametrize("program", ["bindings_86.py", "module_86.py"])
def test_program_for_tensorrt_8_runs_unchanged_in_its_mode(program, tmp_path, environment):
    command = [sys.executable, "-m", "anyrt.compat", "--api", "8.6", PROGRAMS / program, tmp_path / "e.plan"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["PASSED"]), done.stdout + done.stderr


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A directory with models; programs that load them by name run in it."""
    folder = tmp_path_factory.mktemp("models")
    run_path(str(PROGRAMS / "small_models.py"))["save_all"](folder)
    return folder


SURVEY = [
    *("detector_86.py", "streams_and_graphs.py", "backend_86.py", "profiles_pycuda.py", "ctypes_cuda.py"),
    *("processes.py", "core_objects.py", "thread_pool.py"),
]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("program", SURVEY)
def test_program_as_many_write_it_runs_unchanged(program, models, environment):
    run_as_many_write_it(program, models, environment)


@pytest.mark.programs
@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed: make programs runs this")
@pytest.mark.parametrize(
    "program",
    ["torch_engine_graph.py", "torch_module.py", "torch_registered_plugin.py", "torch_sizes.py"],
)
def test_program_as_many_write_it_with_pytorch_runs_unchanged(program, models, environment):
    run_as_many_write_it(program, models, environment)


def run_as_many_write_it(program, models, environment):
    api = "8.6" if program.endswith("_86.py") else "10"
    command = [sys.executable, "-m", "anyrt.compat", "--api", api, PROGRAMS / program]
    done = subprocess.run(command, env=environment, cwd=models, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["PASSED"]), done.stdout + done.stderr


def test_page_of_programs_names_all_that_are_run():
    page = (Path(__file__).parents[2] / "docs/programs.md").read_text()
    started = {path.name for path in PROGRAMS.glob("*.py") if 'print("PASSED"' in path.read_text()}
    assert set(re.findall(r"`(\w+\.py)`", page)) == started
