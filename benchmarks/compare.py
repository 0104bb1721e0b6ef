"""Two runs of the benchmark side by side: which cases became faster or slower between two commits."""

from __future__ import annotations

from benchmarks.record import Results, Row
from benchmarks.table import Table, digits, geometric_mean

NOTABLE = 0.1


def comparison(old: Results, new: Results) -> Table:
    """AnyRT's times of the cases that both runs have: new / old, slower ones first.

    by limit: the same, divided by how the limit changed, which takes out the day and the machine.
    """
    before = {(r.case, r.threads): r for r in old.rows}
    pairs = [(before[key], r) for r in new.rows if (key := (r.case, r.threads)) in before]
    pairs = sorted((p for p in pairs if _ratio(*p) > 0), key=lambda pair: -_by_limit(*pair))
    means = (digits(geometric_mean(f(*p) for p in pairs)) for f in (_ratio, _by_limit))
    columns = ("case", "threads", "old µs", "new µs", "new / old", "by limit", "")
    rows = (*(_line(*p) for p in pairs), ("geometric mean", "", "", "", *means, ""))
    return Table("New beside old", columns, rows)


def _ratio(old: Row, new: Row) -> float:
    return new.ours.median / old.ours.median


def _by_limit(old: Row, new: Row) -> float:
    drift = new.limit / old.limit if old.limit and new.limit else 1.0
    return _ratio(old, new) / drift


def _line(old: Row, new: Row) -> tuple[str, ...]:
    figures = (old.ours.median, new.ours.median, _ratio(old, new), _by_limit(old, new))
    return (new.case, str(new.threads), *map(digits, figures), _mark(figures[-1]))


def _mark(ratio: float) -> str:
    if ratio > 1 + NOTABLE:
        return "slower"
    return "faster" if ratio < 1 - NOTABLE else ""
