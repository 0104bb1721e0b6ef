"""What `python -m benchmarks build` asks of a process, and what comes back; the environment of processes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def environment(tree: Path, cache: Path) -> dict[str, str]:
    """The environment of a process with the AnyRT of a source tree, these benchmarks and a kernel cache."""
    others = {k: v for k, v in os.environ.items() if not k.startswith("ANYRT_")}
    path = f"{tree.resolve() / 'src'}{os.pathsep}{ROOT}"
    return {**others, "ANYRT_CACHE_DIR": str(cache), "PYTHONPATH": path, "PYTHONHASHSEED": "0"}


@dataclass(frozen=True, slots=True)
class Part:
    """A network that is part of another, and how often."""

    network: str
    size: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Job:
    """A job: `action` is a key of building.ACTIONS. plan: the file of the plan. parts: networks whose
    inferences are measured beside this one."""

    action: str
    network: str = ""
    size: int = 0
    plan: str = ""
    parts: tuple[Part, ...] = ()
    threads: int = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """The costs of a job; None: unknown or not measured.

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
