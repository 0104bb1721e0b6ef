"""Tables of results: each case, each layer, every peer, calls, building and loading."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from benchmarks.layers import goals
from benchmarks.layers.cases import Layer
from benchmarks.leads import Leads
from benchmarks.peers import DYNAMIC, OURS
from benchmarks.record import MISSING, Crowd, Entry, Gain, Results, Row, others, why
from benchmarks.table import Page, Table, below, by_threads, digits, geometric_mean, shown

HALF = re.compile("_b?f16(?=_|$)")
LAYER_COLUMNS = ("layer", "cases", "not slower than the best peer", "times faster, mean", "least",
                 "wanted", "× limit, mean", "wanted", "reached")  # fmt: skip
SPELLED = (
    "RMS, LayerNorm and variance from elementary layers, as exporters write them. All programs compute the "
    "same layers. The names state the parts: x · x or a power, a mean or a sum, the root. Twice: the "
    "difference to the mean is computed at each use. The goal is reached if no program is faster (3 % is a "
    "tie)."
)

HEAD = """# Layers and chains of layers

These tables compare AnyRT with other programs, and with the least time that the memory traffic of a case
allows on this machine. Written by `python -m benchmarks ops`; the folder `benchmarks/` describes how. Times
of one machine do not carry over to another; ratios do, roughly.
"""
HOW = """All programs run each case in turn, forwards and backwards. A pause precedes each, because thread
pools spin after a run. The machine is quiet: a loop of multiply-adds, timed first, shows that. Before
anything is timed, results are compared with float64 NumPy. Inputs and outputs are bound beforehand if a
program can do that. OpenVINO computes in float32. The limit is the time of a plain kernel that reads and
writes as many bytes once, in order, with the same threads. It uses the better of normal and non-temporal
stores. Errors are in units of the last place of the result. If a result is smaller than the root mean square
of all results, they are in units of the last place of that mean.
"""
PAGE = Page(HEAD, HOW)


def tables(results: Results) -> list[Table]:
    """All tables, by number of threads."""
    out = []
    for name, rows in by_threads(results.rows):
        spelled = [r for r in rows if r.layer == Layer.SPELLED.value]
        rows = [r for r in rows if r.layer != Layer.SPELLED.value]
        if rows:
            out += [layers(rows, name), cases(rows, name), peers(rows, name)]
            out += [t for t in (halves(rows, name), dynamic(rows, name), building(rows, name)) if t.rows]
        if spelled:
            out += spellings(spelled, name)
    if results.crowds:
        out.append(crowds(results.crowds))
    if results.gains:
        out += mechanisms(results.gains)
    return [*out, *(calls(r) for r in results.calls)]


def cases(rows: Sequence[Row], threads: str) -> Table:
    """A row for each case."""
    columns = ("case", "limit µs", "AnyRT µs", "min", "× limit", "best peer µs", "best peer",
               "times faster", "error ulp", "best peer's", "missing")  # fmt: skip
    note = (
        "Times are medians. × limit: AnyRT's time divided by the limit. Times faster: the best peer's time "
        "divided by AnyRT's."
    )
    return Table(f"Cases, {threads}", columns, tuple(map(_case, rows)), note)


def _case(row: Row) -> tuple[str, ...]:
    mine, best = row.ours, row.best
    return (
        *(row.case, digits(row.limit), digits(mine.median), digits(mine.minimum)),
        digits(mine.median / (row.limit or math.nan)),
        *(digits(best.median), best.name, digits(goals.lead(row))),
        *(shown(mine.error, ".2g"), shown(best.error, ".2g"), goals.verdict(row)),
    )


def layers(rows: Sequence[Row], threads: str) -> Table:
    """Each layer with its goals."""
    lines = [r for layer in Layer if (r := _layer(layer.value, rows))]
    leads, overs = Leads.of(rows, goals.lead), Leads.of(rows, goals.above_limit)
    is_reached = geometric_mean(leads.numbers) >= goals.ALL_FASTER
    total = ("all", str(len(rows)), leads.share, leads.mean, leads.least, f"mean {goals.ALL_FASTER:g}",
             overs.mean, "", _yes(is_reached))  # fmt: skip
    note = (
        "Means are geometric. A layer is reached if two conditions hold. Each case is as many times faster "
        "as wanted (3 % is a tie). The mean ratio to the limit, over cases whose limit is at least 20 µs, is "
        "at most the wanted one."
    )
    return Table(f"Layers, {threads}", LAYER_COLUMNS, (*lines, total), note)


def spellings(rows: Sequence[Row], threads: str) -> list[Table]:
    """Normalisation from elementary layers: its goal, each case, every peer."""
    name = Layer.SPELLED.value
    goal = Table(f"{name}, {threads}", LAYER_COLUMNS, tuple(filter(None, (_layer(name, rows),))), SPELLED)
    tables = (cases(rows, threads), peers(rows, threads))
    return [goal, *(replace(t, title=f"{name}: {t.title[0].lower()}{t.title[1:]}") for t in tables)]


def _layer(name: str, rows: Sequence[Row]) -> tuple[str, ...] | None:
    mine = [r for r in rows if r.layer == name]
    if not mine:
        return None
    leads, overs = Leads.of(mine, goals.lead), Leads.of(mine, goals.above_limit)
    goal, most = goals.GOALS[name], goals.GOALS[name].limit
    is_reached = all(map(goals.is_fast, mine)) and geometric_mean(overs.numbers) <= most
    return (
        *(name, str(len(mine)), leads.share, leads.mean, leads.least, f"{goal.faster:g}"),
        *(overs.mean, below(most), _yes(is_reached)),
    )


def _yes(reached: bool) -> str:
    return "yes" if reached else "no"


def peers(rows: Sequence[Row], threads: str) -> Table:
    """Each peer's time as a multiple of AnyRT's."""
    note = (
        "The fastest way of each peer. –: it has no way to compute the case; wrong: its result differs from "
        "the reference."
    )
    return every_peer(f"Peers' times as multiples of AnyRT's, {threads}", rows, _beside, note)


def every_peer(title: str, rows: Sequence[Row], beside: Callable[[Row, str], str], note: str) -> Table:
    """A row for each case, a column for each peer; beside(row, peer): the cell."""
    names = others(rows)
    lines = tuple((row.case, *(beside(row, name) for name in names)) for row in rows)
    return Table(title, ("case", *names), lines, note)


def _beside(row: Row, name: str) -> str:
    return digits(row.entry(name).median / row.ours.median) or why(row, name)


def halves(rows: Sequence[Row], threads: str) -> Table:
    """Half types beside float32."""
    by_name = {r.case: r for r in rows}
    full = {r.case: by_name.get(HALF.sub("", r.case), r) for r in rows}
    halves = [r for r in rows if full[r.case] is not r and r.limit >= goals.LEAST_LIMIT_US]
    lines = [_ratio(r.case, r.ours, full[r.case].ours) for r in halves]
    note = f"Wanted: at most {goals.HALF_TYPE} if memory bounds the case."
    columns = ("case", "µs", "float32 µs", "ratio")
    return Table(f"Half types, {threads}", columns, tuple(filter(None, lines)), note)


def dynamic(rows: Sequence[Row], threads: str) -> Table:
    """An engine for several shapes beside an engine for each."""
    lines = [_ratio(r.case, r.entry(OURS, DYNAMIC), r.ours) for r in rows]
    columns, note = ("case", "dynamic µs", "static µs", "ratio"), f"Wanted: at most {goals.DYNAMIC}."
    return Table(f"Dynamic engines, {threads}", columns, tuple(filter(None, lines)), note)


def _ratio(case: str, a: Entry, b: Entry) -> tuple[str, ...]:
    """Two medians and their ratio; empty if either is missing."""
    return () if MISSING in (a, b) else (case, *map(digits, (a.median, b.median, a.median / b.median)))


def building(rows: Sequence[Row], threads: str) -> Table:
    """The slowest builds and the slowest loads."""
    kinds = (("build_s", "build, cold cache", goals.BUILD_SECONDS),
             ("load_s", "load, warm cache", goals.LOAD_SECONDS))  # fmt: skip
    return Table(
        f"Building and loading, {threads}",
        ("what", "median ms", "slowest ms", "case", "wanted ms"),
        tuple(line for key, what, limit in kinds for line in _slowest(rows, key, what, limit)),
    )


def _slowest(rows: Sequence[Row], key: str, what: str, limit: float) -> Iterator[tuple[str, ...]]:
    times = sorted((r.facts[key], r.case) for r in rows if key in r.facts)
    if times:
        (middle, _), (worst, case) = times[len(times) // 2], times[-1]
        yield what, digits(1e3 * middle), digits(1e3 * worst), case, f"{1e3 * limit:g}"


def crowds(rows: Sequence[Crowd]) -> Table:
    """AnyRT beside a busy process."""
    lines = tuple(
        (c.case, str(c.threads), digits(c.alone), digits(c.beside), digits(c.beside / c.alone)) for c in rows
    )
    columns = ("case", "threads", "alone µs", "beside a busy process µs", "ratio")
    return Table("AnyRT in a crowd", columns, lines, f"Wanted: at most {goals.CROWD}.")


def calls(row: Row) -> Table:
    """The overhead of a call."""
    limits = {"": f"{goals.BOUND_CALL_US:g}", "plain": f"{goals.PLAIN_CALL_US:g}"}
    lines = [
        (e.peer, e.label or "bound", digits(e.median), digits(e.minimum),
         limits.get(e.label, "") if e.peer == OURS else "")
        for e in sorted(row.entries, key=lambda e: e.median)
    ]  # fmt: skip
    title = f"A call of a (1, 1, 3, 3) network, {row.threads} threads"
    return Table(title, ("program", "way", "median µs", "min", "wanted"), tuple(lines))


def mechanisms(gains: Sequence[Gain]) -> list[Table]:
    """A row for each mechanism and for each attempt."""
    threads = gains[0].threads if gains else 0
    kept = Table(
        f"Mechanisms, {threads} threads",
        ("mechanism", "where", "case", "without µs", "with µs", "times faster", "by minima"),
        tuple(_gain(g, (g.without, g.without_minimum), (g.median, g.minimum)) for g in gains if g.kept),
        "Each case runs in turn without the mechanism and with it; all other mechanisms are on. Times are "
        "medians; the last column compares minima.",
    )
    tried = Table(
        f"Tried and not kept, {threads} threads",
        ("attempt", "where", "case", "as it is µs", "tried µs", "times faster", "by minima"),
        tuple(_gain(g, (g.median, g.minimum), (g.without, g.without_minimum)) for g in gains if not g.kept),
        "Each case runs in turn as it is and with the attempt. Below 1, the attempt is slower. Times are "
        "medians; the last column compares minima.",
    )
    return [kept, *([tried] if tried.rows else [])]


def _gain(gain: Gain, before: tuple[float, float], after: tuple[float, float]) -> tuple[str, ...]:
    """before, after: (median, minimum)."""
    ratios = (b / a for b, a in zip(before, after, strict=True))
    return (gain.name, gain.place, gain.case, *map(digits, (before[0], after[0], *ratios)))
