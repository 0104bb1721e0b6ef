"""Tables of whole models: every program, the time of our kernels; and their document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from benchmarks.leads import Leads
from benchmarks.models.programs import OURS, PROGRAMS
from benchmarks.models.session import Measured, Timed
from benchmarks.record import in_a_word
from benchmarks.table import Page, Table, digits, ms

MOST = 1.3  # times the best program's time that no model may take
WORST = 8  # kernels of a model that a table names
HEAD = """# Whole models

These tables compare AnyRT with other programs on models that PyTorch exports to ONNX, with random weights.
Written by `python -m benchmarks models`; the folder `benchmarks/models/` describes how. Times of one machine
do not carry over to another; ratios do, roughly.
"""
HOW = """All programs run each model in turn, forwards and backwards, with a pause before each. Before
anything is timed, outputs are compared with AnyRT's. OpenVINO computes in float32. Ratios are of least times,
because other work on the machine only adds to a time. Loading and memory are measured in separate processes,
AnyRT's with a warm cache. Loading lasts from the file to the first run. The limit is the larger of two times,
both in float32. One is that of the model's multiplications and additions at the rate of a loop of
multiply-adds. The other one is that of its weights and inputs at the rate of a loop that reads. A model can
take less time than the limit if it computes fewer products (Winograd), or products of bytes, as models called
int8 do. Kernels in loops are listed together, without their work.
"""
PAGE = Page(HEAD, HOW)


def lead(model: Measured) -> float:
    """The best other program's time divided by ours; NaN if either is missing."""
    mine, best = model.of(OURS), _best(model)
    return best.minimum / mine.minimum if mine and best else math.nan


def tables(rows: Sequence[Measured]) -> list[Table]:
    """All tables."""
    return [_standing(rows), _latencies(rows), _loads(rows), *(_worst(r) for r in rows if r.kernels)]


def _best(model: Measured) -> Timed | None:
    return min((t for t in model.timed if t.program != OURS), key=lambda t: t.minimum, default=None)


def _standing(rows: Sequence[Measured]) -> Table:
    columns = ("model", "GFLOP", "MB", "kernels", "limit ms", "AnyRT ms", "of the limit", "best", "ms",
               "faster")  # fmt: skip
    leads = Leads.of(rows, lead)
    note = (
        f"{leads.share} models not slower than the best other program, {leads.slower_than(MOST)} slower than "
        f"{MOST} times that. In the mean, AnyRT is {leads.mean} times as fast. Times are minima."
    )
    threads = rows[0].threads if rows else 0
    return Table(f"Models, {threads} threads", columns, tuple(map(_stand, rows)), note)


def _stand(model: Measured) -> tuple[str, ...]:
    mine, best = model.of(OURS), _best(model)
    least = model.least_us(model.flops, model.bytes)
    return (
        *(model.model, digits(model.flops / 1e9), digits(model.bytes / 1e6), str(len(model.kernels) or "")),
        digits(least / 1e3),
        *((ms(mine.minimum), f"{least / mine.minimum:.0%}") if mine else (_why(model, OURS), "")),
        *((best.program, ms(best.minimum)) if best else ("", "")),
        digits(lead(model)),
    )


def _latencies(rows: Sequence[Measured]) -> Table:
    note = "Milliseconds: the median, and the 99th percentile."
    lines = tuple((r.model, *(_cell(r, p) for p in PROGRAMS)) for r in rows)
    return Table("Latency", ("model", *PROGRAMS), lines, note)


def _cell(model: Measured, program: str) -> str:
    timed = model.of(program)
    return f"{ms(timed.median)}, {ms(timed.late)}" if timed else _why(model, program)


def _loads(rows: Sequence[Measured]) -> Table:
    note = "Seconds from the file to a ready model, and the megabytes by which the process grows."
    columns = ("model", "AnyRT, cold cache", *PROGRAMS)
    lines = tuple((r.model, f"{r.first_load_s:.2f} s", *(_load(r, p) for p in PROGRAMS)) for r in rows)
    return Table("Loading", columns, lines, note)


def _load(model: Measured, program: str) -> str:
    timed = model.of(program)
    if timed is None or timed.load_s is None or timed.resident_mb is None:
        return _why(model, program)
    return f"{timed.load_s:.2f} s, {timed.resident_mb:.0f} MB"


def _worst(model: Measured) -> Table:
    total = sum(k.microseconds for k in model.kernels)
    least = sum(model.least_us(k.flops, k.bytes) for k in model.kernels)
    note = (
        f"{len(model.kernels)} kernels take {ms(total)} ms, timed one by one. The sum of their limits is "
        f"{least / total:.0%} of that. The table has the {WORST} kernels that exceed their limits "
        "by most time."
    )
    columns = ("kernel", "µs", "of all", "MFLOP", "kB", "limit µs", "of the limit")
    return Table(f"Kernels of {model.model}", columns, tuple(_kernels(model, total)), note)


def _kernels(model: Measured, total: float) -> Iterator[tuple[str, ...]]:
    limits = {k: model.least_us(k.flops, k.bytes) for k in model.kernels}
    for k in sorted(model.kernels, key=lambda k: limits[k] - k.microseconds)[:WORST]:
        yield (
            *(k.name.replace("|", "/"), digits(k.microseconds), f"{k.microseconds / total:.0%}"),
            *(digits(k.flops / 1e6), digits(k.bytes / 1e3), digits(limits[k])),
            f"{limits[k] / max(k.microseconds, 1e-3):.0%}",
        )


def _why(model: Measured, program: str) -> str:
    return in_a_word(model.left_out.get(program, ""))
