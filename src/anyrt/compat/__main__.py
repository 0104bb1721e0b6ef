"""Run a program that was written for TensorRT: `python -m anyrt.compat [options] script.py arguments...`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from anyrt.compat.install import install

USAGE = """usage: python -m anyrt.compat [options] script.py [arguments]
       python -m anyrt.compat [options] -m module [arguments]

--api 8.6  offers what TensorRT 10 removed (num_bindings, execute_async_v2, build_engine, ...), as 8.6.1
--force    puts the stand-ins in the place of cuda-python and pycuda even where those are installed"""


def main(arguments: list[str]) -> None:
    """Install the aliases and run the program as `__main__`."""
    force, api, rest = False, "10", arguments
    while rest and rest[0].startswith("--"):
        match rest:
            case ["--force", *rest]:
                force = True
            case ["--api", "8.6" | "10" as api, *rest]:
                pass
            case _:
                sys.exit(USAGE)
    by_module = rest[:1] == ["-m"]
    program = rest[by_module:]
    if not program or program[0].startswith("-"):
        sys.exit(USAGE)
    install(force, api)
    sys.argv = program
    if by_module:
        sys.path[0] = ""
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
        return
    sys.path[0] = str(Path(program[0]).resolve().parent)
    runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
