"""Layers whose places, order or numbers depend on data, as a table: `python -m benchmarks families`."""

from __future__ import annotations

from pathlib import Path

from benchmarks.families import report
from benchmarks.families.case import Family, traffic
from benchmarks.families.language import LANGUAGE
from benchmarks.suite import Suite, Work

SUITE = Suite(
    "families",
    "gathers, scatters, top k, sums, samples, fills, codes",
    LANGUAGE,
    frozenset(x.value for x in Family),
    group=lambda case: str(case.family.value),
    work=lambda task: Work(*traffic(task.case, task.given, task.outputs)),
    tables=report.tables,
    page=report.PAGE,
    document=Path("docs/tables/families.md"),
    unit="by {:.3g}",
    least=True,
)
