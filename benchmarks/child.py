"""A function in a process of its own: other engines, caches or source trees do not disturb it.

answer = call(session.alone, ("AnyRT", "bert", folder, 2))
answer.value, answer.error
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.peers import first_line

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The value that a function returned, or the last one that it yielded; the reason if it did not end."""

    value: Any = None  # Any: of the function
    error: str = ""


def environment(tree: Path, cache: Path) -> dict[str, str]:
    """The environment of a process with the AnyRT of a source tree, these benchmarks and a kernel cache."""
    others = {k: v for k, v in os.environ.items() if not k.startswith("ANYRT_")}
    path = f"{tree.resolve() / 'src'}{os.pathsep}{ROOT}"
    return {**others, "ANYRT_CACHE_DIR": str(cache), "PYTHONPATH": path, "PYTHONHASHSEED": "0"}


def call(
    function: Callable[..., Any],  # Any: returns or yields what can be pickled
    arguments: tuple[object, ...],
    variables: Mapping[str, str] | None = None,
    timeout_s: float | None = TIMEOUT_S,
    is_shown: bool = False,
) -> Answer:
    """The answer of a function of a module. variables: the environment (default: that of this process).
    The time limit holds for the first value, and again after it. is_shown: it may print to the terminal."""
    with tempfile.TemporaryDirectory() as folder:
        request, result, errors = (Path(folder) / name for name in ("request", "result", "errors"))
        request.write_bytes(pickle.dumps((function, arguments)))
        command = [sys.executable, "-m", "benchmarks.child", str(request), str(result)]
        with errors.open("wb") as file:
            output = None if is_shown else file
            process = subprocess.Popen(
                command, cwd=ROOT, env=variables, stdout=output, stderr=output, start_new_session=True
            )
        try:
            status = _ended(process, result, timeout_s)
        finally:
            _kill(process)
        answer = Answer(*pickle.loads(result.read_bytes())) if result.exists() else Answer()
        return _with_error(answer, status, errors.read_text(errors="replace"), timeout_s)


def _ended(process: subprocess.Popen[bytes], result: Path, seconds: float | None) -> int | None:
    """The exit status; None if the process had to be stopped."""
    for _ in range(2):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(seconds)
        if not result.exists():
            break
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and its children, which are a session of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _with_error(answer: Answer, status: int | None, errors: str, seconds: float | None) -> Answer:
    if status == 0 or answer.error or (status is None and answer.value is not None):
        return answer
    if status is None:
        return replace(answer, error=f"not done after {seconds:g} s")
    last = errors.strip().rpartition("\n")[2]
    return replace(answer, error=f"ended with status {status}: {last}"[:200])


def main(request: Path, result: Path) -> None:
    """Write a value and an error, each time that there is a new value."""

    def write(value: object, error: str = "") -> None:
        new = result.with_suffix(".new")
        new.write_bytes(pickle.dumps((value, error)))
        new.replace(result)  # the parent may read it at any time

    value = None
    try:
        function, arguments = pickle.loads(request.read_bytes())
        outcome = function(*arguments)
        for value in outcome if isinstance(outcome, Iterator) else (outcome,):
            write(value)
    except Exception as error:  # whatever it raises is an answer, too
        write(value, first_line(error))
    sys.stdout.flush()
    os._exit(0)  # some programs' threads hang when the interpreter ends


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
