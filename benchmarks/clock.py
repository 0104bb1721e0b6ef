"""What a piece of work takes: CPU seconds of all processes, memory of the largest, texts that LLVM compiles.

    with measured() as found:
        work()
    found[0].cpu_s

Worker processes count while they run, and after they have been waited for.
"""

from __future__ import annotations

import importlib
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.jobs import Outcome

TICKS = os.sysconf("SC_CLK_TCK")
PARENT, SPENT = 1, slice(11, 15)  # fields of /proc/PID/stat behind the name


@contextmanager
def measured() -> Iterator[list[Outcome]]:
    """The list gets what the block took."""
    found, parsed, files = list[Outcome](), list[int](), _cached()
    with _watched(parsed):
        cpu, wall = cpu_seconds(), time.perf_counter()
        yield found
        cpu, wall = cpu_seconds() - cpu, time.perf_counter() - wall
    modules = max(len(parsed), len(_cached() - files))
    found.append(Outcome(cpu, wall, _peak_mb(), modules=modules))


def cpu_seconds() -> float:
    """Of this process, of those that it has waited for, and of those that still run below it."""
    ended = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in ended) + sum(_running())


def _running() -> Iterator[float]:
    """CPU seconds of every living descendant, those that it has waited for included."""
    todo, fields = [os.getpid()], list(_processes())
    while todo:
        above = todo.pop()
        for pid, parent, ticks in fields:
            if parent == above:
                todo.append(pid)
                yield ticks / TICKS


def _processes() -> Iterator[tuple[int, int, int]]:
    """(pid, its parent's, ticks that it and its children took) of all processes."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        yield int(path.parent.name), int(fields[PARENT]), sum(map(int, fields[SPENT]))


def _peak_mb() -> float:
    """Of this process since it began, or of the largest that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return max(status_kb("VmHWM"), children) / 1e3


def status_kb(field: str, process: int | str = "self") -> int:
    """A figure about a process's memory."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def _cached() -> frozenset[str]:
    folder = Path(os.environ["ANYRT_CACHE_DIR"])
    return frozenset(str(p) for p in folder.rglob("*") if p.is_file())


@contextmanager
def _watched(parsed: list[int]) -> Iterator[None]:
    """`parsed` gets the length of every text that LLVM is given in this process."""
    llvm: Any = importlib.import_module("llvmlite.binding")  # Any: it publishes no types
    before = llvm.parse_assembly

    def parse(text: str, *context: object) -> object:
        parsed.append(len(text))
        return before(text, *context)

    llvm.parse_assembly = parse
    try:
        yield
    finally:
        llvm.parse_assembly = before
