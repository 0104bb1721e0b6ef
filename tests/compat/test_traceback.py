"""The traceback of a program starts at the program's own lines."""

import subprocess
import sys

import pytest

PROGRAM = """import tensorrt as trt


def build():
    network = trt.Builder(trt.Logger()).create_network(0)
    network.add_nonsense


build()
"""


@pytest.mark.parametrize("way", [["prog.py"], ["-m", "prog"], ["-c", PROGRAM]])
def test_traceback_begins_with_the_program(tmp_path, way):
    (tmp_path / "prog.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "anyrt.compat", *way],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith(", line 9, in <module>")
    assert "compat" not in lines[1]
    assert lines[-1].startswith("AttributeError: 'INetworkDefinition' object has no attribute 'add_nonsense'")


def test_syntax_error_shows_its_line_alone(tmp_path):
    (tmp_path / "prog.py").write_text("x = (\n")
    done = subprocess.run(
        [sys.executable, "-m", "anyrt.compat", "prog.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "compat" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("SyntaxError")
