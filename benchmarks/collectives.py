"""An all-reduce between two processes over shared memory, beside mpi4py's by turns in the same processes.

python -m benchmarks collectives                  needs mpi4py and mpiexec (pip install mpi4py mpich) for both
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.command import Command, markdown, option, publish
from benchmarks.table import Page, Table

PAGE = Page("# Collectives\n\nWritten by `python -m benchmarks collectives`.\n")
SIZES = (4, 1 << 10, 1 << 16, 1 << 20, 1 << 22, 1 << 26)
TURNS = 7
NOTE = (
    "float32, SUM, 2 ranks; times of one exchange. Both run in turn in the same processes. Times and ratios "
    f"are medians of {TURNS} on rank 0."
)
CODE = """
import json, sys, time
import numpy as np
from anyrt.core.enums import ReduceOperation
from anyrt.core.enums import CollectiveOperation
from anyrt.runtime.collective import Exchange, Exchanger
from anyrt.runtime.ranks import SharedRanks
name, rank, turns, *sizes = sys.argv[1:]
if rank == "mpi":
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    rank = world.Get_rank()
with SharedRanks(name, int(rank), 2) as ranks:
    total = Exchanger(ranks, Exchange(CollectiveOperation.ALL_REDUCE, ReduceOperation.SUM))
    for nbytes in map(int, sizes):
        x, y = np.ones(nbytes // 4, np.float32), np.empty(nbytes // 4, np.float32)
        runs = {"shared": lambda: total(x, y)}
        if "MPI" in globals():
            runs["mpi4py"] = lambda: world.Allreduce(x, y)
        times = {which: [] for which in runs}
        count = max(1, min(4000, (1 << 27) // (nbytes + (1 << 12))))
        for turn in range(int(turns) + 1):  # the first one warms
            for which, run in runs.items():
                begin = time.perf_counter()
                for _ in range(count):
                    run()
                if turn:
                    times[which].append((time.perf_counter() - begin) / count * 1e6)
        if ranks.rank == 0:
            print(json.dumps([nbytes, times]), flush=True)
"""


def tables(sizes: Sequence[int] = SIZES) -> list[Table]:
    """A table with a row for each size."""
    rows = tuple(_row(*json.loads(line)) for line in _measured(sizes).splitlines())
    return [Table("All-reduce", ("bytes", "shared memory, µs", "mpi4py, µs", "times as fast"), rows, NOTE)]


def _measured(sizes: Sequence[int]) -> str:
    """The output of rank 0."""
    name, words = f"benchmark-{os.getpid()}", [str(TURNS), *map(str, sizes)]
    mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    has_mpi = (
        mpiexec is not None
        and not subprocess.run(
            [sys.executable, "-c", "import mpi4py.MPI"], capture_output=True, check=False
        ).returncode
    )
    if has_mpi and mpiexec is not None:
        command = [mpiexec, "-n", "2", sys.executable, "-c", CODE, name, "mpi", *words]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    print("mpi4py and mpiexec are not here: shared memory alone", file=sys.stderr)
    start = [sys.executable, "-c", CODE, name]
    with subprocess.Popen([*start, "1", *words]):
        return subprocess.run([*start, "0", *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def _row(nbytes: int, times: dict[str, list[float]]) -> tuple[str, ...]:
    shared, mpi = times["shared"], times.get("mpi4py", [])
    quotients = [m / s for s, m in zip(shared, mpi, strict=False)]
    return f"{nbytes:,}", *(f"{median(x):.3g}" if x else "" for x in (shared, mpi, quotients))


def _run(options: argparse.Namespace) -> None:
    publish(options, tables(options.sizes), PAGE)


COMMAND = Command(
    "collectives",
    "measure exchanges between processes beside mpi4py",
    _run,
    (
        option("--sizes", type=int, nargs="*", default=SIZES, help="sizes in bytes"),
        markdown("write the table to this file"),
    ),
)
