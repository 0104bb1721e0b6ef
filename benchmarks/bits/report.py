"""Tables of fewer bits: each row with its peers, the limit, memory, goals; and their document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from benchmarks.bits.rows import AT_LEAST, ROWS, Entry, Figure, Goal, Group, Row
from benchmarks.bits.session import Result
from benchmarks.leads import Leads
from benchmarks.table import Page, Table, digits, ms, percent

HEAD = """# Fewer bits

These tables compare AnyRT with other programs. The rows are models and products in bfloat16, half, int8 and
weights of a few bits, and float32 convolutions by fewer products. Written by `python -m benchmarks bits`; the
folder `benchmarks/bits/` describes how. Times of one machine do not carry over to another; ratios do,
roughly.
"""
HOW = """Weights are random. Normalisations know the numbers that reach them, and ranges of int8 come from
random inputs. Before anything is timed, results are compared with those of the float32 model in float64.
Products of weights of a few bits are compared with products of the same weights. The error is a part of the
largest magnitude; it and the cosine are those of the worst output. All programs run a model in turn, forwards
and backwards, with a pause before each; times are medians. The limit is the larger of two times. One is that
of the multiplications and additions with the vector instructions of the row's type: dots of bfloat16 or bytes
if there are any, multiply-adds of float32 otherwise. Matrix tiles (AMX) can take less time than that. The
other one is that of reading weights and inputs again and again; what fits into a cache is read from there.
"Executed" is the same share by the products that kernels do, of which Winograd has fewer. "By our own" is how
many times as fast as our own float32 engine a row is. If the row is float32, it is compared with the same
engine without Winograd. Bytes are those of the plan, and those by which a process grows when it loads the
mapped plan and runs, without inputs and outputs; "packed" is codes and scales. Building is CPU seconds,
calibration included. Each engine has a process of its own with an empty cache. OpenVINO and ONNX Runtime run
the file of ONNX Runtime's quantiser where ours was calibrated.
"""
PAGE = Page(HEAD, HOW)
COLUMNS = (
    "row", "AnyRT ms", "best peer", "ms", "faster", "by our own", "of the limit", "executed", "plan MB",
    "resident MB", "packed MB", "build s", "by float32's", "error", "cosine", "goals", "reached",
)  # fmt: skip
BY_NAME = {r.name: r for r in ROWS}


def tables(results: Sequence[Result]) -> list[Table]:
    """Two tables for each group: the standing and all times."""
    by_group = {g: [r for r in results if BY_NAME[r.row].group is g] for g in Group}
    return [t for g, rows in by_group.items() if rows for t in (_standing(g, rows), _times(g, rows))]


# ---- goals --------------------------------------------------------------------------------------


def value(goal: Goal, row: Row, result: Result) -> float:
    """The figure of a goal; NaN if it was not measured, as below."""
    match goal.figure:
        case Figure.SPEED:
            return _speed(row, result, goal.beside or row.peers)
        case Figure.SHARE:
            return result.limit_us / _median(result, row.ours)
        case Figure.PLAN:
            return _built(result, row.ours, "plan") / (result.packed or math.nan)
        case Figure.RESIDENT:
            return _built(result, row.ours, "resident") / (result.packed or math.nan)
        case Figure.LIGHTER:
            return _built(result, row.ours, "plan") / _built(result, goal.beside[0], "plan")
        case Figure.BUILD:
            return _built(result, row.ours, "cpu_s") / _built(result, goal.beside[0], "cpu_s")


def missed(row: Row, result: Result) -> list[str]:
    """The goals that a row misses, with the row's own figures."""
    out = []
    for goal in row.goals:
        got = value(goal, row, result)
        if not (got >= goal.bound if goal.figure in AT_LEAST else got <= goal.bound):
            out.append(_said(goal, digits(got) or "?"))
    return out


def _said(goal: Goal, number: str) -> str:
    """A goal as text."""
    if goal.figure is Figure.SPEED:
        return f"{number} × {' and '.join(e.label for e in goal.beside) or 'the best'}"
    return str(goal.figure.value).replace("#", number)


def _median(result: Result, entry: Entry | None) -> float:
    timed = result.timed.get(entry.label) if entry else None
    return timed.median if timed else math.nan


def _best(row: Row, result: Result, among: Sequence[Entry]) -> Entry | None:
    here = [e for e in among if e.label in result.timed]
    return min(here, key=lambda e: result.timed[e.label].median, default=None)


def _speed(row: Row, result: Result, among: Sequence[Entry]) -> float:
    """The least time of these entries divided by ours."""
    return _median(result, _best(row, result, among)) / _median(result, row.ours)


def _built(result: Result, entry: Entry, figure: str) -> float:
    built = result.built.get(entry.label)
    return float(getattr(built, figure)) if built else math.nan


# ---- tables -------------------------------------------------------------------------------------


def _standing(group: Group, rows: Sequence[Result]) -> Table:
    leads = Leads.of(rows, lambda r: _speed(BY_NAME[r.row], r, BY_NAME[r.row].peers))
    with_goals = [r for r in rows if BY_NAME[r.row].goals]
    reached = sum(not missed(BY_NAME[r.row], r) for r in with_goals)
    note = (
        f"{reached} of {len(with_goals)} rows reach all their goals; {leads.mean} times "
        f"as fast as the best peer in the mean of {len(leads.numbers)}."
    )
    threads = rows[0].threads
    lines = tuple(tuple(_stand(BY_NAME[r.row], r)) for r in rows)
    return Table(f"{group.value.capitalize()}, {threads} threads", *_filled(lines), note)


def _filled(lines: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The columns that are not empty, and the rows of these columns."""
    kept = [i for i in range(len(COLUMNS)) if any(line[i] for line in lines)]
    return tuple(COLUMNS[i] for i in kept), tuple(tuple(line[i] for i in kept) for line in lines)


def _stand(row: Row, result: Result) -> Iterator[str]:
    mine, best = result.timed.get(row.ours.label), _best(row, result, row.peers)
    yield row.name
    yield ms(mine.median) if mine else result.left_out.get(row.ours.label, "not run").replace("|", "/")
    yield best.label if best else ""
    yield ms(_median(result, best))
    yield digits(_speed(row, result, row.peers))
    yield digits(_speed(row, result, (row.own,)) if row.own else None)
    share = result.limit_us / _median(result, row.ours)
    yield percent(share)
    executed = _built(result, row.ours, "flops") if row.group is Group.F32 else math.nan
    yield percent(share * executed / result.flops)
    yield from (digits(_built(result, row.ours, f) / 1e6) for f in ("plan", "resident"))
    yield digits((result.packed or math.nan) / 1e6)
    yield digits(_built(result, row.ours, "cpu_s"))
    yield digits(next((value(g, row, result) for g in row.goals if g.figure is Figure.BUILD), None))
    yield f"{mine.error:.2g}" if mine else ""
    yield f"{mine.cosine:.6f}" if mine else ""
    signs = ("≥" if g.figure in AT_LEAST else "≤" for g in row.goals)
    yield ", ".join(_said(g, f"{sign} {g.bound:g}") for g, sign in zip(row.goals, signs, strict=True))
    lost = missed(row, result)
    yield (f"no: {', '.join(lost)}" if lost else "yes") if row.goals else ""


def _times(group: Group, rows: Sequence[Result]) -> Table:
    """Every entry of every row."""
    labels = [*dict.fromkeys(e.label for r in rows for e in BY_NAME[r.row].entries)]
    lines = tuple((r.row, *(_cell(r, label) for label in labels)) for r in rows)
    reasons = dict.fromkeys(f"{r.row}: {k}: {v}" for r in rows for k, v in r.left_out.items())
    note = "Left out:\n\n" + "\n".join(f"- {x}" for x in reasons) if reasons else ""
    return Table(f"{group.value.capitalize()}: milliseconds", ("row", *labels), lines, note)


def _cell(result: Result, label: str) -> str:
    timed = result.timed.get(label)
    return ms(timed.median) if timed else result.left_out.get(label, "").split(":")[0]
