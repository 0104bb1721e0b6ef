"""Installing the names, and running a script with them, each in a separate process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import anyrt
from anyrt.compat.install import CHILDREN

CODE = """
import anyrt, anyrt.compat
anyrt.compat.install()
import tensorrt as trt
import tensorrt.core.dtype
from cuda import cuda, cudart
from cuda.bindings import driver, nvrtc, runtime
import pycuda.autoinit, pycuda.driver, pycuda.gpuarray
from pycuda import VERSION_TEXT, compiler, tools
import tensorrt_lean.tensorrt_lean
import cupy.cuda
print(trt is anyrt, tensorrt.core.dtype is anyrt.core.dtype, cudart is runtime, cuda is driver)
print(anyrt.core.dtype.__spec__.name, pycuda.driver.__name__, VERSION_TEXT)
print(cupy.cuda.Device().id, cupy.ndarray.__module__)
anyrt.compat.install()
print(sum(type(f).__name__ == "Names" for f in __import__("sys").meta_path))
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
        "anyrt.core.dtype anyrt.compat.pycuda.driver 2025.1",
        "0 anyrt.compat.cupy.arrays",
        "1",
        "No module named 'tensorrt.nothing'",
    ]


@pytest.mark.parametrize(("flag", "seen"), [("", "real"), ("--force", "anyrt.compat.cuda.runtime")])
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


@pytest.mark.parametrize("way", ["-c", "-"])
def test_text_runs_as_main(way: str):
    text = "import sys, tensorrt\ndef f(): return tensorrt.__name__\nprint(__name__, f(), sys.argv)"
    inputs = [way, text] if way == "-c" else [way]
    command = [sys.executable, "-m", "anyrt.compat", "--api", "8.6", *inputs, "a"]
    environ = {**os.environ, "PYTHONPATH": str(Path(anyrt.__file__).parents[1])}
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=environ)
    assert done.stdout == f"__main__ anyrt ['{way}', 'a']\n"


def test_setuptools_finds_the_version():
    pytest.importorskip("pkg_resources")
    code = "import anyrt.compat; anyrt.compat.install()\nimport pkg_resources as p\n"
    code += "print(*p.require('tensorrt>=8'), p.get_distribution('tensorrt-libs').version)"
    assert run("-W", "ignore", "-c", code).stdout == f"tensorrt {anyrt.__version__} {anyrt.__version__}\n"


def test_missing_program_gives_the_usage():
    done = run("-m", "anyrt.compat")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        1, "usage: python -m anyrt.compat [options] script.py [arguments]",
    )  # fmt: skip


SIGNED = """
import re, anyrt, anyrt.compat
plain = anyrt.INetworkDefinition.add_scale.__doc__
anyrt.compat.install(), anyrt.compat.install()
import tensorrt as trt
print(plain.startswith("add_scale("), trt.INetworkDefinition.add_scale.__doc__.count("add_scale(self"))
print(trt.INetworkDefinition.add_convolution_nd.__doc__.splitlines()[0])
print(trt.INetworkDefinition.add_quantize.__doc__.splitlines()[0])
print(trt.IBuilderConfig.set_flag.__doc__.splitlines()[0])
methods = {n: f for n, f in vars(trt.ICudaEngine).items() if n[0] != "_" and callable(f)}
counts = {n: len(re.findall(": ", f.__doc__.splitlines()[0])) for n, f in methods.items()}
print(counts["get_tensor_shape"], counts["serialize"], min(counts.values()))
"""


def test_docstrings_begin_with_the_signatures_of_pybind11():
    of = "tensorrt.tensorrt."
    assert run("-c", SIGNED).stdout.splitlines() == [
        "False 1",
        f"add_convolution_nd(self: {of}INetworkDefinition, input: {of}ITensor, num_output_maps: int, "
        f"kernel_shape: {of}Dims, kernel: {of}Weights, bias: {of}Weights = None) -> {of}IConvolutionLayer",
        f"add_quantize(self: {of}INetworkDefinition, input: {of}ITensor, scale: {of}ITensor, "
        f"output_type: {of}DataType = <DataType.INT8: 2>) -> {of}IQuantizeLayer",
        f"set_flag(self: {of}IBuilderConfig, flag: {of}BuilderFlag) -> None",
        "2 1 1",
    ]


FUNCTIONS = """
import anyrt, anyrt.compat
early = anyrt.get_plugin_registry
anyrt.compat.install(), anyrt.compat.install()
import tensorrt as trt
for name in ("get_plugin_registry", "get_builder_plugin_registry", "init_libnvinfer_plugins"):
    print(getattr(trt, name).__doc__.splitlines()[0])
print(trt.get_nv_onnx_parser_version.__doc__.splitlines()[0], trt.nptype.__doc__.startswith("nptype("))
network = trt.INetworkDefinition
print(network.__len__.__doc__.splitlines()[0])
print(network.__getitem__.__doc__.splitlines()[0])
print(network.__getitem__.__doc__.count("__getitem__"), (network.__enter__.__doc__ or "").count("self: "))
"""


def test_docstrings_of_functions_and_special_methods_begin_with_signatures_too():
    of = "tensorrt.tensorrt."
    assert run("-c", FUNCTIONS).stdout.splitlines() == [
        f"get_plugin_registry() -> {of}IPluginRegistry",
        f"get_builder_plugin_registry(arg0: {of}EngineCapability) -> {of}IPluginRegistry",
        f"init_libnvinfer_plugins(logger: {of}ILogger, namespace: str) -> bool",
        "get_nv_onnx_parser_version() -> int False",
        f"__len__(self: {of}INetworkDefinition) -> int",
        f"__getitem__(self: {of}INetworkDefinition, index: int) -> {of}ILayer",
        "1 0",
    ]


ALIASES = """
import anyrt, anyrt.compat
anyrt.compat.install()
import importlib.metadata as metadata, os
import tensorrt.tensorrt, tensorrt_bindings.tensorrt, tensorrt_lean, tensorrt_dispatch, tensorrt_libs
print(tensorrt.tensorrt is anyrt, tensorrt_bindings is anyrt, tensorrt_bindings.tensorrt is anyrt)
print(tensorrt_lean.Runtime is tensorrt_dispatch.Runtime is anyrt.Runtime, hasattr(tensorrt_lean, "Builder"))
print(tensorrt_dispatch.Refitter is anyrt.Refitter)
from tensorrt.tensorrt import *
print(ILayer is tensorrt.tensorrt.tensorrt.ILayer is anyrt.ILayer, set(anyrt.__all__) <= {*dir()})
print({metadata.version(n) for n in ("tensorrt", "tensorrt-bindings")} == {anyrt.__version__})
print(os.path.isdir(os.path.dirname(tensorrt_libs.__file__)))
"""


def test_every_name_of_tensorrt_is_this_package():
    expected = ["True True True", "True False", "True", "True True", "True", "True"]
    assert run("-c", ALIASES).stdout.splitlines() == expected


@pytest.mark.parametrize(("api", "bindings"), [("10", False), ("8.6", True)])
def test_child_process_sees_what_its_parent_has(tmp_path: Path, api: str, bindings: bool):
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.hidden = 'ran too'\n")
    child = "import tensorrt as t; print(t.__name__, hasattr(t.ICudaEngine, 'num_bindings'), hidden)"
    code = f"import os, subprocess, sys; os.environ['PYTHONPATH'] += ':{tmp_path}'\n"
    code += f"import anyrt.compat; anyrt.compat.install(api={api!r}); anyrt.compat.install(api={api!r})\n"
    code += f"subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    assert run("-c", code).stdout == f"anyrt {bindings} ran too\n"


def test_package_that_is_no_module_is_the_command_of_its_name(tmp_path: Path):
    (tmp_path / "tool-1.0.dist-info").mkdir()
    (tmp_path / "tool-1.0.dist-info" / "entry_points.txt").write_text("[console_scripts]\ntool = tool:main\n")
    (tmp_path / "tool").mkdir()
    code = "import sys, tensorrt\ndef main():\n    print(tensorrt.__name__, sys.argv)\n    return 3\n"
    (tmp_path / "tool" / "__init__.py").write_text(code)
    done = run("-m", "anyrt.compat", "-m", "tool", "a", cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("anyrt ['tool', 'a']\n", 3)


def test_installed_command_runs_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    command = tmp_path / "convert-it"
    command.write_text("#!/usr/bin/python3\nimport sys, tensorrt\nprint(tensorrt.__name__, sys.argv[1:])\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert run("-m", "anyrt.compat", "convert-it", "a", "--b").stdout == "anyrt ['a', '--b']\n"


def test_command_of_another_language_runs_with_the_names_for_its_children(tmp_path: Path):
    command = tmp_path / "convert-it"
    command.write_text(f"#!/bin/sh\n{sys.executable} -c 'import tensorrt; print(tensorrt.__name__)' $1\n")
    command.chmod(0o755)
    assert run("-m", "anyrt.compat", str(command), "a").stdout == "anyrt\n"


def child(text: str, *folders: Path | str, python: str = sys.executable, api: str = "10") -> str:
    """The output of a child of a program with the names installed; `folders` come first on its PYTHONPATH."""
    path = os.pathsep.join([CHILDREN, *map(str, folders), str(Path(anyrt.__file__).parents[1])])
    environ = {**os.environ, "PYTHONPATH": path, "ANYRT_COMPAT": api, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([python, "-c", text], capture_output=True, text=True, env=environ, cwd="/")
    return done.stdout + done.stderr


def test_a_child_imports_nothing_before_it_needs_it():
    text = "import sys; print(*sorted(sys.modules))"
    plain = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout.split()
    assert set(child(text).split()) - set(plain) <= {"__future__", "_thread", "anyrt_later", "sitecustomize"}
    assert "numpy" not in child(f"import ctypes, json; ctypes.CDLL(None); {text}").split()


NAMES = ("python2", "python2.7", *(f"python3.{n}" for n in range(6, 15)))
HERE = (shutil.which(name) for name in NAMES)
MANY = (str(p) for name in NAMES for p in Path.home().glob(f".pyenv/versions/*/bin/{name}"))
PYTHONS = sorted(p for p in {*HERE, *MANY} if p and "shims" not in p)
UNHARMED = """
import sys, ctypes
print("children" in "".join(sys.path))
try:
    import tensorrt
except ImportError:
    print("none")
try:
    ctypes.CDLL("libcudart.so.12")
except OSError:
    print("none")
"""


@pytest.mark.parametrize("python", PYTHONS)
def test_another_python_runs_unharmed(python: str):
    assert child(UNHARMED, python=python).splitlines() in (["False", "none", "none"], ["False"])


@pytest.mark.parametrize(
    "text", ["match = = 1", "import nothing_of_the_sort", "raise ImportError('no numpy')"]
)
def test_a_child_that_cannot_have_anyrt_runs_unharmed(tmp_path: Path, text: str):
    (tmp_path / "anyrt").mkdir()
    (tmp_path / "anyrt" / "__init__.py").write_text(text + "\n")
    (tmp_path / "torch.py").write_text("word = 'its own'\n")
    assert child(UNHARMED, tmp_path) == "False\nnone\nnone\n"
    assert child("import torch; print(torch.word)", tmp_path) == "its own\n"


LIBRARIES = "anyrt.compat.ctypes.libraries"
LATE = {
    "import tensorrt.tensorrt as t; print(t.__name__)": "anyrt",
    "import tensorrt as t, anyrt; print(t is anyrt, t.Logger.__module__)": "True anyrt.api.edge.interfaces",
    "from cuda.bindings import runtime; print(runtime.__name__)": "anyrt.compat.cuda.runtime",
    "import pycuda.driver as d, cupy; print(d.__name__)": "anyrt.compat.pycuda.driver",
    "import importlib.metadata as m; print(m.version('TensorRT'))": anyrt.__version__,
    "import importlib.util as u; print(u.find_spec('tensorrt') is not None)": "True",
    "import ctypes as c; print(c.CDLL('libcuda.so.1').cuInit(0))": "0",
    "import ctypes as c; print(type(c.cdll.LoadLibrary('/a/libnvinfer_plugin.so.10')).__module__)": LIBRARIES,
}  # fmt: skip


@pytest.mark.parametrize("text", LATE)
def test_a_child_has_each_name_when_it_asks(text: str):
    assert child(text) == f"{LATE[text]}\n"


def test_threads_of_a_child_that_ask_at_once_all_get_an_answer():
    text = """
import threading, importlib
out = []
ask = lambda name: out.append(importlib.import_module(name))
names = ["tensorrt", "cuda.bindings.runtime", "pycuda.driver", "tensorrt_lean"] * 3
threads = [threading.Thread(target=ask, args=(name,)) for name in names]
[t.start() for t in threads], [t.join() for t in threads]
print(len(out), len(set(out)))
"""
    assert child(text) == "12 4\n"


def test_a_child_of_8_6_has_its_names_under_both():
    for name in ("anyrt", "tensorrt"):
        text = f"import {name} as t; print(hasattr(t.ICudaEngine, 'num_bindings'))"
        assert child(text, api="8.6") == "True\n"
