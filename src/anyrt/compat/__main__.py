"""Run a program written for TensorRT: `python -m anyrt.compat [options] script.py arguments...`."""

from __future__ import annotations

import importlib.util
import os
import runpy
import shutil
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType, TracebackType

from anyrt.compat.install import install

BEFORE = (__file__, runpy.__file__, runpy.run_path.__code__.co_filename)
USAGE = """usage: python -m anyrt.compat [options] script.py [arguments]
       python -m anyrt.compat [options] -m module [arguments]
       python -m anyrt.compat [options] command [arguments]
       python -m anyrt.compat [options] -c text [arguments]
       python -m anyrt.compat [options] - [arguments], which reads the program from stdin

Runs a program written for TensorRT on the CPU. A command is a Python command, such as polygraphy, that is
installed beside Python or found on PATH.

--api 8.6  provide the names that TensorRT 10 removed (num_bindings, build_engine, ...), as version 8.6.1
--force    replace cuda-python and pycuda even if they are installed"""


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
    if rest[:1] not in (["-m"], ["-c"], ["-"]):
        rest = ["", *rest]
    way, *program = rest
    if way != "-" and not (program and (way == "-c" or program[0][:1] not in ("", "-"))):
        sys.exit(USAGE)
    install(force, api)
    sys.excepthook = partial(_from_the_program, sys.excepthook)
    match way:
        case "-c":
            _run_text(program[0], "<string>", ["-c", *program[1:]])
        case "-":
            _run_text(sys.stdin.read(), "<stdin>", ["-", *program])
        case "-m":
            sys.argv = program
            _run_module(program[0])
        case _:
            sys.argv = program
            _run(program)


def _from_the_program(
    hook: Callable[[type[BaseException], BaseException, TracebackType | None], object],
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """Report an uncaught exception, without the traceback entries of this file and of runpy."""
    while trace is not None and trace.tb_frame.f_code.co_filename in BEFORE:
        trace = trace.tb_next
    hook(kind, error.with_traceback(trace), trace)


def _run_text(text: str, name: str, arguments: list[str]) -> None:
    """Execute source text as `__main__`."""
    sys.argv, sys.path[0] = arguments, ""
    sys.modules["__main__"] = main = ModuleType("__main__")
    exec(compile(text, name, "exec"), vars(main))


def _run_module(name: str) -> None:
    """Execute a module as `__main__`; for a package without one, execute the command of its name
    (polygraphy)."""
    sys.path[0] = ""
    spec = importlib.util.find_spec(name)
    is_package = spec is not None and spec.submodule_search_locations is not None
    if is_package and importlib.util.find_spec(f"{name}.__main__") is None:
        for command in entry_points(group="console_scripts", name=name):
            sys.argv[0] = name
            sys.exit(command.load()())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run(program: list[str]) -> None:
    """Execute a script or an installed command: Python programs in this process, others replace it."""
    path = program[0] if Path(program[0]).exists() else _installed(program[0])
    if _is_of_another_language(Path(path)):
        os.execv(path, program)
    sys.argv[0] = path
    sys.path[0] = str(Path(path).resolve().parent)
    runpy.run_path(path, run_name="__main__")


def _is_of_another_language(path: Path) -> bool:
    """Whether the first line of a file names an interpreter other than Python."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        line = file.readline(256)
    return line.startswith((b"#!", b"\x7fELF")) and b"python" not in line


def _installed(name: str) -> str:
    """The path of a command; an unknown name is returned as a script, for which Python reports an error."""
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return shutil.which(name, path=beside) or name


if __name__ == "__main__":
    main(sys.argv[1:])
