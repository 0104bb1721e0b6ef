"""Tables of results: goals, each case, every peer, half types, networks; and their document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from benchmarks.contractions import goals
from benchmarks.contractions.forms import Group
from benchmarks.contractions.tried import attempts
from benchmarks.layers import report
from benchmarks.leads import Leads
from benchmarks.peers import OURS, UNTILED
from benchmarks.record import MISSING, Results, Row, disturbance, why
from benchmarks.table import Page, Table, below, by_threads, digits, percent, shown, title

HEAD = """# Products, convolutions, attention

These tables compare AnyRT with other programs, and with the least time that a case can take on this machine.
That is the time of its multiplications and additions on registers, or of moving its bytes once, whichever is
longer. Written by `python -m benchmarks contractions`; the folder `benchmarks/contractions/` describes how.
Times of one machine do not carry over to another; ratios do, roughly.
"""
HOW = """All programs run each case in turn, forwards and backwards, with a pause before each and on a quiet
machine. Before anything is timed, results are compared with float64 NumPy. Inputs and outputs are bound
beforehand if a program can do that. OpenVINO computes in float32, except for half types. Ratios are medians
over turns. The limit of arithmetic is the time of a loop of as many multiply-adds as the case has, with the
same threads. For bfloat16 and int8, the loop has dot instructions if these are faster. Some programs use a
unit for whole tiles (AMX) for bfloat16 and int8. Its time is no limit and has a column of its own. A share
above 100 % has one of two reasons: the sum takes fewer multiplications than its definition (Winograd's
tiles), or it is computed in whole tiles.
"""
PAGE = Page(HEAD, HOW)


def tables(results: Results) -> list[Table]:
    """All tables, by number of threads."""
    out = []
    for name, rows in by_threads(results.rows):
        every = (cases(group, mine, rows, name) for group, mine in _by_group(rows).items())
        out += [groups(rows, name), *every, *(t for t in (missed(rows, name),) if t.rows), peers(rows, name)]
        rest = (halves(rows, name), report.dynamic(rows, name), tiled(rows, name), networks(rows, name))
        out += [t for t in rest if t.rows]
    return out


def _by_group(rows: Sequence[Row]) -> dict[Group, list[Row]]:
    """The rows of each group that has some."""
    groups = {group: [r for r in rows if goals.group(r) is group] for group in Group}
    return {group: mine for group, mine in groups.items() if mine}


def groups(rows: Sequence[Row], threads: str) -> Table:
    """Each group with its goal."""
    columns = ("cases", "count", "not slower than the best peer", "times faster, mean", "least", "wanted",
               "share of the limit, mean", "least", "wanted", "reached")  # fmt: skip
    lines = tuple(_standing(goals.standing(group, mine, rows)) for group, mine in _by_group(rows).items())
    note = (
        "Times faster: the best peer's time divided by AnyRT's; means of these are geometric. Share of the "
        "limit: the limit's time divided by AnyRT's, over cases whose limit is at least 20 µs. 3 % is a tie."
    )
    return Table(f"Goals, {threads}", columns, lines, note)


def _standing(standing: goals.Standing) -> tuple[str, ...]:
    goal, leads, shares = goals.GOALS[standing.group], Leads(standing.leads), standing.shares
    whole, least = (percent(x) for x in (goal.share, goal.least))
    return (
        *(standing.group.value, str(len(standing.rows)), leads.share),
        *((leads.mean, leads.least) if leads.numbers else ("", "")),
        _wanted(goal),
        *(percent(sum(shares) / len(shares) if shares else None), percent(min(shares, default=None))),
        *(f"mean {whole}" if whole else f"each {least}" if least else "",),
        f"no: {', '.join(standing.faults)}" if standing.faults else "yes",
    )


def _wanted(goal: goals.Goal) -> str:
    each = f"each {goal.each:g}" if goal.each else ""
    whom = f" ({', '.join(goal.peers)})" if goal.peers else ""
    return ", ".join(filter(None, (each + whom, f"mean {goal.mean:g}" if goal.mean else "")))


def cases(group: Group, rows: Sequence[Row], every: Sequence[Row], threads: str) -> Table:
    """The cases of a group."""
    columns = ("case", "limit µs", "decided by", "tiles µs", "AnyRT µs", "GFLOP/s", "share of the limit",
               "best peer µs", "best peer", "times faster", "error ulp", "best peer's", "holds")  # fmt: skip
    return Table(f"{title(group.value)}, {threads}", columns, tuple(_case(r, every) for r in rows))


def _case(row: Row, every: Sequence[Row]) -> tuple[str, ...]:
    mine, best = row.ours, goals.rival(row)
    missing = [*goals.faults(row, every), *disturbance(row)]
    return (
        *(row.case, digits(row.limit), goals.decides(row), digits(row.facts.get("tiles_us"))),
        *(digits(mine.median), digits(row.facts["flops"] / mine.median / 1e3 or math.nan)),
        *(percent(row.limit / mine.median), digits(best.median), best.name, digits(goals.lead(row))),
        *(shown(e.error, ".2g") for e in (mine, best)),
        f"no: {', '.join(missing)}" if missing else "yes",
    )


def missed(rows: Sequence[Row], threads: str) -> Table:
    """The cases that miss their goals, by how much, and what was tried."""
    lines = []
    for row in rows:
        misses = goals.faults(row, rows)
        if misses and row.ours is not MISSING:
            lines.append((row.case, ", ".join(misses), *attempts(row.case)))
    columns = ("case", "by how much", "tried", "tried", "tried")
    return Table(f"Missed, {threads}", columns, tuple(lines))


def peers(rows: Sequence[Row], threads: str) -> Table:
    """Each peer's time as a multiple of AnyRT's."""
    note = (
        "The fastest way of each peer, as a multiple of AnyRT's time, or in µs if AnyRT has none. –: it has "
        "no way to compute the case; wrong: its result differs from the reference."
    )
    return report.every_peer(f"Every peer, {threads}", rows, _beside, note)


def _beside(row: Row, name: str) -> str:
    entry = goals.fastest(row, (name,))
    if row.ours is MISSING and entry is not MISSING:
        return f"{digits(entry.median)} µs"
    return digits(entry.paired) or why(row, name)


def halves(rows: Sequence[Row], threads: str) -> Table:
    """Half types beside our float32."""
    lines = []
    for row in rows:
        ratios = goals.beside_float(row, rows)
        if ratios:
            lines.append((row.case, goals.decides(row), digits(ratios[0]), f"{ratios[1]:g}"))
    columns = ("case", "decided by", "times as fast as float32", "wanted")
    return Table(f"Half types, {threads}", columns, tuple(lines))


def tiled(rows: Sequence[Row], threads: str) -> Table:
    """Convolutions of 3 × 3 as they are built by default, beside those without Winograd."""
    lines = []
    for row in rows:
        plain, mine = row.entry(OURS, UNTILED), row.ours
        if MISSING not in (plain, mine):
            times = (plain.median, mine.median)
            errors = (f"{e.error:.2g}" for e in (plain, mine))
            lines.append((row.case, *map(digits, times), digits(times[0] / times[1]), *errors))
    columns = ("case", "plain µs", "by default µs", "times faster", "error ulp, plain", "by default")
    return Table(f"Winograd's tiles, {threads}", columns, tuple(lines))


def networks(rows: Sequence[Row], threads: str) -> Table:
    """The costs of building and loading whole networks."""
    columns = ("network", "what", "ms", "wanted ms", "ONNX Runtime's session ms")
    return Table(
        f"Networks: building and loading, {threads}", columns, tuple(x for r in rows for x in _costs(r))
    )


def _costs(row: Row) -> Iterator[tuple[str, ...]]:
    if goals.group(row) is not Group.NETWORK or row.ours is MISSING:
        return
    theirs = digits(1e3 * row.facts.get("ort_build_s", math.nan))
    for key, what, most in (("build_s", "build, cold", goals.BUILD_SECONDS),
                            ("mapped_s", "load a file, warm", goals.LOAD_SECONDS),
                            ("unverified_s", "load a file, warm, weights not verified", math.inf),
                            ("load_s", "load bytes, warm", math.inf)):  # fmt: skip
        yield row.case, what, digits(1e3 * row.facts[key]), below(1e3 * most), theirs
