"""The document of a run: its tables, with the machine named."""

from __future__ import annotations

from pathlib import Path

from anyrt.plan.disk import write_text
from benchmarks.record import Results
from benchmarks.report import tables
from benchmarks.table import markdown

HEAD = """# Layers and chains of layers

AnyRT beside other programs, and beside the least time that the memory traffic of a case allows on this
machine. Written by `python -m benchmarks ops`; the folder `benchmarks/` says how. Times of one machine do not
carry over to another; ratios do, roughly.
"""
HOW = """Every program runs each case in turn, forwards and backwards, with a pause before it (thread pools
spin after a run) and on a quiet machine (a loop of multiply-adds is timed first). Results are compared with
float64 NumPy before anything is timed. Inputs and outputs are bound beforehand where a program can do that;
OpenVINO computes in float32. The limit is a plain kernel that reads and writes as many bytes once, in order,
with the same threads, by the better of normal and non-temporal stores. Errors are in units of the last place
of the result, or of the results' root mean square where a result is smaller.
"""


def write(path: Path, results: Results) -> None:
    """Write the document."""
    machine = "\n".join(f"- {line}" for line in results.machine.lines())
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "\n".join([HEAD, machine, "", HOW, *map(markdown, tables(results))]))
