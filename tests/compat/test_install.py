"""Installing the names, and running a script under them; each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import anyrt

CODE = """
import anyrt, anyrt.compat
anyrt.compat.install()
import tensorrt as trt
import tensorrt.core.dtype
from cuda import cuda, cudart
from cuda.bindings import driver, nvrtc, runtime
import pycuda.autoinit, pycuda.driver, pycuda.gpuarray
print(trt is anyrt, tensorrt.core.dtype is anyrt.core.dtype, cudart is runtime, cuda is driver)
print(anyrt.core.dtype.__spec__.name, pycuda.driver.__name__)
anyrt.compat.install()
print(sum(type(f).__name__ == "_Alias" for f in __import__("sys").meta_path))
try:
    import tensorrt.nothing
except ModuleNotFoundError as error:
    print(error)
"""


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(Path(anyrt.__file__).parents[1])}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, env=environ)


def test_install_makes_the_names_importable_once():
    assert run("-c", CODE).stdout.splitlines() == [
        "True True True True",
        "anyrt.core.dtype anyrt.compat.pycuda_driver",
        "1",
        "No module named 'tensorrt.nothing'",
    ]


@pytest.mark.parametrize(("flag", "seen"), [("", "real"), ("--force", "anyrt.compat.cuda_runtime")])
def test_installed_library_is_kept_unless_forced(tmp_path: Path, flag: str, seen: str):
    package = tmp_path / "cuda" / "bindings"
    package.mkdir(parents=True)
    (package / "runtime.py").write_text("__name__ = 'real'\n")
    (tmp_path / "script.py").write_text("from cuda.bindings import runtime\nprint(runtime.__name__)\n")
    code = f"import sys; from anyrt.compat.__main__ import main; main([*'{flag}'.split(), 'script.py'])"
    assert run("-c", code, cwd=tmp_path).stdout == f"{seen}\n"


def test_script_runs_as_main_with_its_own_arguments_and_folder(tmp_path: Path):
    (tmp_path / "beside.py").write_text("word = 'beside'\n")
    script = tmp_path / "script.py"
    script.write_text("import sys, beside\nprint(__name__, sys.argv[1:], beside.word)\nsys.exit(3)\n")
    done = run("-m", "anyrt.compat", str(script), "--force", "x")
    assert (done.stdout, done.returncode) == ("__main__ ['--force', 'x'] beside\n", 3)


def test_module_runs_as_main(tmp_path: Path):
    (tmp_path / "program.py").write_text(
        "import sys, tensorrt\nprint(__name__, tensorrt.__name__, sys.argv[1:])\n"
    )
    done = run("-m", "anyrt.compat", "-m", "program", "a", cwd=tmp_path)
    assert done.stdout == "__main__ anyrt ['a']\n"


def test_missing_program_gives_the_usage():
    done = run("-m", "anyrt.compat")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        1, "usage: python -m anyrt.compat [options] script.py [arguments]",
    )  # fmt: skip
