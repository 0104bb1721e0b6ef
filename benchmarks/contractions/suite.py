"""Products, convolutions and attention as a table: `python -m benchmarks contractions`."""

from __future__ import annotations

from pathlib import Path

from benchmarks.contractions import report
from benchmarks.contractions.forms import Group, traffic
from benchmarks.contractions.language import LANGUAGE
from benchmarks.suite import Suite, Work

SUITE = Suite(
    "contractions",
    "products, convolutions, attention",
    LANGUAGE,
    frozenset(x.value for x in Group),
    group=lambda case: str(case.group.value),
    work=lambda task: Work(*traffic(task.case), task.case.form.flops, task.case.dtype),
    tables=report.tables,
    page=report.PAGE,
    document=Path("docs/tables/contractions.md"),
)
