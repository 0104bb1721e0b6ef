"""Workers compile in parallel with the builder; even if they fail, every text gets its object."""

import os
import subprocess
import sys
import time

import pytest

from anyrt.backends.cpu.processors import host
from anyrt.codegen import workers

TEXTS = [f"define i32 @f{n}() {{ ret i32 {n} }}" for n in range(40)]
PROGRAM = """
import sys; sys.path[:0] = {paths!r}
from anyrt.backends.cpu.processors import host
from anyrt.codegen import workers
workers.processors = lambda: 2
texts = ["define i32 @f%d() {{ ret i32 1 }}" % n for n in range(40)]
print(len(workers.compile_texts(texts, host(), lambda made: None)))
"""


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(workers, "processors", lambda: 2)


def compiled():
    return workers.compile_texts(TEXTS, host(), lambda built: None)


def program(tmp_path, content):
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\n{content}\n")
    path.chmod(0o700)
    return str(path)


def test_every_text_has_its_object():
    assert sorted(compiled()) == sorted(TEXTS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "content", ["exec sleep 60", "sleep 5; true", "exec cat", "exit 1", "echo ready; exec sleep 60"]
)
def test_a_program_that_is_no_python_is_not_waited_for(tmp_path, monkeypatch, content):
    """If a program embeds Python, `sys.executable` may be that program."""
    monkeypatch.setattr(sys, "executable", program(tmp_path, content))
    start = time.monotonic()
    assert sorted(compiled()) == sorted(TEXTS)
    assert time.monotonic() - start < 4


@pytest.mark.parametrize("executable", ["", None, "/nonexistent"])
def test_without_an_interpreter_all_is_compiled_here(monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    assert sorted(compiled()) == sorted(TEXTS)


def test_workers_ignore_what_imports_ignore(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, 3, b"bytes"])
    assert sorted(compiled()) == sorted(TEXTS)


@pytest.mark.parametrize(("option", "count"), [("-B", 2), ("-I", 0)])
def test_workers_ignore_the_environment_where_their_builder_does(tmp_path, option, count):
    (tmp_path / "sitecustomize.py").write_text(f"open({str(tmp_path / 'log')!r}, 'a').write('started ')")
    code = PROGRAM.format(paths=[p for p in sys.path if p])
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    log, started = tmp_path / "log", -1
    for _ in range(5):  # on a busy machine, the builder may compile all before a worker starts
        log.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, option, "-c", code], env=variables, capture_output=True, text=True, check=True
        )
        assert done.stdout == "40\n"
        started = len(log.read_text().split()) if log.exists() else 0
        if started == count:
            break
    assert started == count
