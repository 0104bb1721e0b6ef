"""The costs of a block: CPU seconds of all processes, peak memory of the largest, texts that LLVM compiles.

    with measured() as outcomes:
        work()
    outcomes[0].cpu_s

Worker processes count while they run, and after their parent has waited for them.
"""

from __future__ import annotations

import importlib
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

TICKS = os.sysconf("SC_CLK_TCK")
PARENT, SPENT = 1, slice(11, 15)  # fields of /proc/PID/stat behind the name


@dataclass(frozen=True, slots=True)
class Outcome:
    """The costs of a block or of a job; None: unknown or not measured.

    cpu_s: of all processes. peak_mb: of the largest process. described_s: to add the layers, which the others
    exclude. modules: texts that LLVM compiled, or new files in the cache if there are more. text_kb,
    largest_kb: LLVM text in total and of the largest function; reason: why the build report calls it long.
    run_us: an inference; parts_us: the sum of its parts' inferences. copies: memory of a load divided by the
    size of the plan.
    """

    cpu_s: float | None = None
    wall_s: float | None = None
    peak_mb: float | None = None
    described_s: float | None = None
    modules: int | None = None
    kernels: int | None = None
    text_kb: float | None = None
    largest_kb: float | None = None
    reason: str = ""
    run_us: float | None = None
    parts_us: float | None = None
    copies: float | None = None
    error: str = ""


@contextmanager
def measured() -> Iterator[list[Outcome]]:
    """A list that receives the outcome of the block."""
    outcomes, parsed, files = list[Outcome](), list[int](), _cached()
    with _watched(parsed):
        cpu, wall = cpu_seconds(), time.perf_counter()
        yield outcomes
        cpu, wall = cpu_seconds() - cpu, time.perf_counter() - wall
    modules = max(len(parsed), len(_cached() - files))
    outcomes.append(Outcome(cpu, wall, _peak_mb(), modules=modules))


def cpu_seconds() -> float:
    """CPU seconds of this process, its ended children, and its living descendants."""
    ended = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in ended) + sum(_running())


def _running() -> Iterator[float]:
    """CPU seconds of each living descendant with its ended children."""
    todo, fields = [os.getpid()], list(_processes())
    while todo:
        above = todo.pop()
        for pid, parent, ticks in fields:
            if parent == above:
                todo.append(pid)
                yield ticks / TICKS


def _processes() -> Iterator[tuple[int, int, int]]:
    """(pid, pid of the parent, ticks of the process and its ended children) of all processes."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        yield int(path.parent.name), int(fields[PARENT]), sum(map(int, fields[SPENT]))


def _peak_mb() -> float:
    """Peak memory of this process, or of its largest ended child."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return max(status_kb("VmHWM"), children) / 1e3


def status_kb(field: str, process: int | str = "self") -> int:
    """A field of /proc/PID/status, in kB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def _cached() -> frozenset[str]:
    folder = Path(os.environ["ANYRT_CACHE_DIR"])
    return frozenset(str(p) for p in folder.rglob("*") if p.is_file())


@contextmanager
def _watched(parsed: list[int]) -> Iterator[None]:
    """`parsed` receives the length of each text that LLVM parses in this process."""
    llvm: Any = importlib.import_module("llvmlite.binding")  # Any: it publishes no types
    before = llvm.parse_assembly

    def parse(text: str, *context: object) -> object:
        parsed.append(len(text))
        return before(text, *context)

    with patch.object(llvm, "parse_assembly", parse):
        yield
