"""Two runs of the benchmark side by side: which cases became faster or slower between two commits."""

from __future__ import annotations

from benchmarks.layers.goals import ours
from benchmarks.record import Results, Row
from benchmarks.table import Table, digits, geometric_mean

NOTABLE = 0.1


def comparison(old: Results, new: Results) -> Table:
    """AnyRT's times of the cases that both runs have: new / old, slower ones first.

    by limit: the same, divided by how the limit changed, which takes out the day and the machine.
    """
    before = {(r.case, r.threads): r for r in old.rows}
    lines = []
    for row in new.rows:
        past = before.get((row.case, row.threads))
        ratios = _ratios(past, row) if past else None
        if ratios:
            lines.append((ratios, row))
    lines.sort(key=lambda line: -line[0][1])
    rows = [_line(before[row.case, row.threads], row, ratios) for ratios, row in lines]
    means = [geometric_mean(r[i] for r, _ in lines) for i in range(2)]
    rows.append(("geometric mean", "", "", "", *map(digits, means), ""))
    columns = ("case", "threads", "old µs", "new µs", "new / old", "by limit", "")
    return Table("New beside old", columns, tuple(rows))


def _ratios(old: Row, new: Row) -> tuple[float, float] | None:
    a, b = ours(old), ours(new)
    if a is None or b is None:
        return None
    plain = b.median / a.median
    drift = new.limit / old.limit if old.limit and new.limit else 1.0
    return plain, plain / drift


def _line(old: Row, new: Row, ratios: tuple[float, float]) -> tuple[str, ...]:
    times = (digits(e.median) if (e := ours(r)) else "" for r in (old, new))
    return (new.case, str(new.threads), *times, *map(digits, ratios), _mark(ratios[1]))


def _mark(ratio: float) -> str:
    if ratio > 1 + NOTABLE:
        return "slower"
    return "faster" if ratio < 1 - NOTABLE else ""
