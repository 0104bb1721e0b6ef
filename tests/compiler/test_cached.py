"""The names of entries in the cache of compiled code."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyrt
from anyrt.backends.cpu import device
from anyrt.codegen.sources import SOURCES
from anyrt.compiler.cached import _machine


def test_every_folder_that_the_compiler_imports_is_in_the_name_of_its_code():
    program = (
        "import sys, anyrt.compiler.driver\n"
        "of = {n: m for n, m in sys.modules.items() if n.startswith('anyrt.') and m is not anyrt}\n"
        "print(*{name.split('.')[1] for name in of})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= set(SOURCES)


def version(path):
    """The version of the package at `path`."""
    program = "from anyrt.codegen.sources import codegen_version; print(codegen_version())"
    environ = {**os.environ, "PYTHONPATH": str(path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_code_of_a_package_in_an_archive_has_the_name_of_the_archive(tmp_path):
    package = Path(anyrt.__file__).parent
    archive = shutil.make_archive(str(tmp_path / "anyrt"), "zip", package.parent, package.name)
    first = version(archive)
    assert first == version(archive)
    os.utime(archive, (1, 1))
    assert version(archive) != first


def test_code_of_a_package_without_sources_has_the_name_of_their_compiled_forms(tmp_path):
    package = tmp_path / "anyrt"
    shutil.copytree(Path(anyrt.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "compileall", "-bq", package], check=True)
    for source in package.rglob("*.py"):
        source.unlink()
    first = version(tmp_path)
    assert first == version(tmp_path)
    os.utime(package / "codegen/emit.pyc", (1, 1))
    assert version(tmp_path) != first


def test_code_for_matrix_tiles_is_not_found_where_the_system_refuses_them(monkeypatch):
    """Containers may share a cache and differ in what their seccomp profiles permit."""
    keys = set()
    for permitted in (True, False):
        monkeypatch.setattr(device, "permit_tiles", lambda answer=permitted: answer)
        keys.add(_machine(device.CpuDevice()))
    assert len(keys) == 2
