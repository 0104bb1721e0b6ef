"""Run a program that was written for TensorRT: `python -m anyrt.compat [--force] script.py arguments...`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from anyrt.compat.install import install

USAGE = """usage: python -m anyrt.compat [--force] script.py [arguments]
       python -m anyrt.compat [--force] -m module [arguments]

--force puts the stand-ins in the place of cuda-python and pycuda even where those are installed"""


def main(arguments: list[str]) -> None:
    """Install the aliases and run the program as `__main__`."""
    force = arguments[:1] == ["--force"]
    rest = arguments[force:]
    by_module = rest[:1] == ["-m"]
    program = rest[by_module:]
    if not program or program[0].startswith("-"):
        sys.exit(USAGE)
    install(force)
    sys.argv = program
    if by_module:
        sys.path[0] = ""
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
        return
    sys.path[0] = str(Path(program[0]).resolve().parent)
    runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
