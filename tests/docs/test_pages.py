"""Programs and commands in the README and in the pages for users run and print the output shown
below them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from anyrt.cli.command import all_commands

ROOT = Path(__file__).resolve().parents[2]
HOURS = ["first_hour_tensorrt", "first_hour_onnx", "first_hour_platform"]
PAGES = ["differences", "migrating", "tuning", "deploying", *HOURS]
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
RUN = re.compile(r"^RUN (.*)$", re.M)
# Commands that install, or that the Makefile tests.
ELSEWHERE = ("pip ", "make ")
# A server runs until it is stopped: tests/serve/test_readme.py runs it and its clients.
SERVING = re.compile("anyrt serve|localhost:")
MODEL = "agraph (float[1, 3] x) => (float[1, 3] y) { y = Softmax(x) }"


@pytest.fixture
def folder(tmp_path):
    """A directory with a model, and this Python's commands first on PATH."""
    text = f'<ir_version: 10, opset_import: ["": 21]>\n{MODEL}'
    onnx.save(onnx.parser.parse_model(text), str(tmp_path / "model.onnx"))
    return tmp_path


def run(command, folder):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "ANYRT_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True)


def commands(name):
    blocks = [b for b in SHELL.findall((ROOT / name).read_text()) if not SERVING.search(b)]
    lines = [line for block in blocks for line in block.splitlines()]
    return [c for c in (shlex.join(shlex.split(line, comments=True)) for line in lines) if c]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_what_stands_below_its_programs_and_commands(name):
    from gen_docs import page

    assert page(f"docs/{name}.md") == (ROOT / f"docs/{name}.md").read_text(), "run `make docs`"


@pytest.mark.parametrize("name", ["README.md", "docs/deploying.md"])
def test_commands_run_as_printed(name, folder):
    results = [c for c in commands(name) if not c.startswith(ELSEWHERE)]
    assert results
    assert [(c, run(c, folder).returncode) for c in results] == [(c, 0) for c in results]


def test_commands_of_make_are_targets_of_the_makefile():
    targets = [c.split()[1] for c in commands("README.md") if c.startswith("make ")]
    assert targets == ["demo", "test"]
    assert all(re.search(rf"^{t}:", (ROOT / "Makefile").read_text(), re.M) for t in targets)


def test_commands_of_the_dockerfile_run(folder):
    lines = RUN.findall((ROOT / "docs/deploying.md").read_text().replace("/opt/cache", str(folder / "cache")))
    own = [line for line in lines if not line.startswith("pip ")]
    assert len(own) == 3
    assert [run(line, folder).returncode for line in own] == [0, 0, 0]
    assert (folder / "model.plan").exists()
    assert list((folder / "cache").glob("*.kernel"))


@pytest.mark.static
def test_page_of_commands_lists_each_command():
    listed = re.findall(r"^\| `anyrt (\w+)", (ROOT / "docs/commands.md").read_text(), re.M)
    assert sorted(set(listed)) == list(all_commands())
