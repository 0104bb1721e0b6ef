"""Tables of results: each family, each case, every program; and their document."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.families.case import Family
from benchmarks.leads import Leads
from benchmarks.peers import OURS
from benchmarks.record import MISSING, Entry, Results, Row, others, why
from benchmarks.table import Page, Table, by_threads, digits, title

MOST = 1.3  # times the best program's time that no case may take
WANTED = 0.9  # the part of the cases that are to be as fast as the best program
NOISY = 0.15  # permitted difference between ratios of minima and of medians
HEAD = """# Gathers, scatters, selections, sums, samples, fills, codes, loops, detections, experts, resizes

These tables compare AnyRT with other programs on layers whose positions, order or counts depend on data.
Written by `python -m benchmarks families`; the folder `benchmarks/families/` describes how. Times of one
machine do not carry over to another; ratios do, roughly.
"""
HOW = """All programs run each case in turn, forwards and backwards, with a pause before each. Before anything
is timed, results are compared with NumPy. Inputs and outputs are bound beforehand if a program can do that.
Positions have the type that a program takes. Times are the least of all runs, and ratios are of these,
because other work on the machine only adds to a time. A line is noisy if the medians of turns give a ratio
that differs by more than 15 %. It is also noisy if more than a quarter of the bursts began on a machine that
was not quiet. The limit is the time of a plain kernel that reads and writes as many bytes once, in order,
with the same threads. Positions in no order may require more.
"""
PAGE = Page(HEAD, HOW)


def tables(results: Results) -> list[Table]:
    """All tables, by number of threads."""
    out = []
    for name, rows in by_threads(results.rows):
        out.append(_families(rows, name))
        for family in Family:
            mine = [r for r in rows if r.layer == family.value]
            if mine:
                out.append(_cases(f"{title(family.value)}, {name}", mine))
    return out


def lead(row: Row) -> float:
    """The best program's time divided by ours; NaN if either is missing."""
    return _best(row).minimum / row.entry(OURS).minimum


def is_noisy(row: Row) -> bool:
    """Whether paired medians disagree, or the machine was not quiet."""
    ratio = lead(row)
    turned = _best(row).paired or ratio
    return abs(turned / ratio - 1) > NOISY or (ratio > 0 and row.disturbed > row.bursts / 4)


def _best(row: Row) -> Entry:
    return min((e for e in row.entries if e.peer != OURS), key=lambda e: e.minimum, default=MISSING)


def _families(rows: Sequence[Row], threads: str) -> Table:
    columns = ("family", "cases", "not slower than the best", "times faster, mean", "least", "reached")
    lines = [_standing(f.value, [r for r in rows if r.layer == f.value]) for f in Family]
    lines.append(_standing("all", rows))
    note = (
        f"Wanted: {WANTED:.0%} of the cases are not slower than the best program, and none is slower than "
        f"{MOST} times that. 3 % is a tie; means are geometric."
    )
    return Table(f"Families, {threads}", columns, tuple(x for x in lines if x), note)


def _standing(name: str, rows: Sequence[Row]) -> tuple[str, ...]:
    leads = Leads.of(rows, lead)
    count, slow = len(leads.numbers), leads.slower_than(MOST)
    if not count:
        return ()
    holds = leads.ahead >= WANTED * count and not slow and count == len(rows)
    return (
        *(name, str(len(rows)), leads.share, leads.mean, leads.least),
        "yes" if holds else f"no: {slow} slower than {MOST}" if slow else "no",
    )


def _cases(name: str, rows: Sequence[Row]) -> Table:
    names = others(rows)
    columns = ("case", "MB", "limit µs", "AnyRT µs", "best µs", "best", "times faster", *names, "noisy")
    note = "Each program's time as a multiple of AnyRT's. –: it has no way to compute the case."
    return Table(name, columns, tuple(_line(r, names) for r in rows), note)


def _line(row: Row, names: Sequence[str]) -> tuple[str, ...]:
    mine, best = row.entry(OURS), _best(row)
    megabytes = (row.facts["read"] + row.facts["written"]) / 1e6
    return (
        *(row.case, digits(megabytes), digits(row.limit_minimum), digits(mine.minimum)),
        *(digits(best.minimum), best.name, digits(lead(row)) or row.left_out.get(OURS, "")),
        *(_beside(row, n) for n in names),
        "yes" if is_noisy(row) else "",
    )


def _beside(row: Row, name: str) -> str:
    least = min((e.minimum for e in row.entries if e.peer == name), default=math.nan)
    if row.entry(OURS) is MISSING and least > 0:
        return f"{digits(least)} µs"
    return digits(least / row.entry(OURS).minimum) or why(row, name)
