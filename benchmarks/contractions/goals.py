"""The goals, as data, and the distance of each case from its goal.

Medians of rounds of all programs count; differences up to 3 % are a tie. Shares of the limit count from 20 µs
on: below that, the overhead of the call dominates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.contractions.cases import ALL, float_name
from benchmarks.contractions.forms import Group, Product
from benchmarks.layers.goals import LEAST_LIMIT_US
from benchmarks.leads import Leads
from benchmarks.peers import OURS
from benchmarks.record import MISSING, SAME_AS_BEST, Entry, Row
from benchmarks.table import geometric_mean

CASES = {c.name: c for c in ALL}
ARITHMETIC, MEMORY = 1.5, 1.6  # required speed of half types relative to float32, by the kind of limit
FROM = 512  # the least side of an int8 product whose share of the limit counts
BUILD_SECONDS, LOAD_SECONDS = 4.0, 0.03


@dataclass(frozen=True, slots=True)
class Goal:
    """each: the lead over the best of `peers` (default: all) in every case, or `instead`: a share of the
    limit; mean: the geometric mean of leads; share: the mean share of the limit; least: the least share."""

    each: float | None = None
    mean: float | None = None
    instead: float = math.inf
    share: float | None = None
    least: float | None = None
    peers: tuple[str, ...] = ()


GOALS = {
    Group.LARGE: Goal(each=1.0, mean=1.1, instead=0.95, share=0.9),
    Group.MEMORY: Goal(each=1.0, least=0.9),
    Group.SMALL: Goal(each=1.0, mean=1.5),
    Group.OTHER: Goal(each=1.0, mean=1.5),
    Group.ATTENTION: Goal(each=1.0, mean=1.3),
    Group.HALF: Goal(),  # beside our float32
    Group.INT8: Goal(each=1.0, least=0.8, peers=("openvino", "ort")),
    Group.NETWORK: Goal(each=1.0, peers=("ort",)),
}


def group(row: Row) -> Group:
    """The group of a row."""
    return Group(row.layer)


def rival(row: Row) -> Entry:
    """The fastest of the peers that the goal names; MISSING if there is none."""
    return fastest(row, GOALS[group(row)].peers)


def fastest(row: Row, names: tuple[str, ...] = ()) -> Entry:
    """The fastest of these peers (default: all), by paired ratios, or by medians if AnyRT has no time."""
    others = [e for e in row.entries if e.peer != OURS and (not names or e.peer in names)]
    return min(others, key=lambda e: e.paired or e.median, default=MISSING)


def lead(row: Row) -> float:
    """The best peer's time divided by ours; NaN if either is missing."""
    best = rival(row)
    return math.nan if row.ours is MISSING else best.paired or best.median / row.ours.median


def share(row: Row) -> float:
    """The limit divided by our time, for cases where that counts; NaN for others."""
    case = CASES[row.case]
    form = case.form
    is_small = not (isinstance(form, Product) and min(form.m, form.k, form.n) >= FROM)
    if row.limit < LEAST_LIMIT_US or (case.group is Group.INT8 and is_small):
        return math.nan
    return row.limit / row.ours.median


def decides(row: Row) -> str:
    """Whether arithmetic or traffic is the limit."""
    return "arithmetic" if row.facts.get("peak_us", 0.0) >= row.facts["traffic_us"] else "memory"


def beside_float(row: Row, rows: Sequence[Row]) -> tuple[float, float] | None:
    """(float32's time divided by that of the half type, the goal)."""
    name = float_name(CASES[row.case])
    full = next((r for r in rows if r.case == name and r.threads == row.threads), None)
    if group(row) is not Group.HALF or full is None or MISSING in (row.ours, full.ours):
        return None
    return full.ours.median / row.ours.median, ARITHMETIC if decides(full) == "arithmetic" else MEMORY


def faults(row: Row, rows: Sequence[Row]) -> list[str]:
    """The goals that a case misses, with figures; empty if it holds."""
    if row.ours is MISSING:
        reason = row.left_out.get(OURS, "AnyRT did not take part")
        return [reason.removeprefix("cannot: ")]
    goal, misses = GOALS[group(row)], list[str]()
    reached, best, part = lead(row), rival(row), share(row)
    if goal.each and reached < goal.each * (1 - SAME_AS_BEST) and not part >= goal.instead:
        misses.append(f"{1 / reached:.2f} × the time of {best.name}")
    if goal.least and part < goal.least:
        misses.append(f"{part:.0%} of the limit, not {goal.least:.0%}")
    half = beside_float(row, rows)
    if half and half[0] < half[1] * (1 - SAME_AS_BEST):
        misses.append(f"{half[0]:.2f} × our float32, not {half[1]:g}")
    return misses + _costs(row)


def _costs(row: Row) -> list[str]:
    """The limits that building and loading a network exceed."""
    if group(row) is not Group.NETWORK:
        return []
    limits = (("build_s", BUILD_SECONDS, "built"), ("mapped_s", LOAD_SECONDS, "loaded"))
    return [
        f"{word} in {row.facts[key]:.3g} s, not {most:g}"
        for key, most, word in limits
        if row.facts.get(key, 0.0) > most
    ]


@dataclass(frozen=True, slots=True)
class Standing:
    """The cases of a group: leads, shares of the limit, and faults."""

    group: Group
    rows: tuple[Row, ...]
    leads: tuple[float, ...]
    shares: tuple[float, ...]
    faults: tuple[str, ...]


def standing(which: Group, rows: Sequence[Row], every: Sequence[Row]) -> Standing:
    """The standing of a group."""
    goal = GOALS[which]
    leads, shares = Leads.of(rows, lead).numbers, Leads.of(rows, share).numbers
    missing = [r for r in rows if r.ours is MISSING]
    short = [r for r in rows if r not in missing and faults(r, every)]
    misses = [f"{len(missing)} missing"] if missing else []
    misses += [f"{len(short)} cases miss"] if short else []
    mean = geometric_mean(leads)
    if goal.mean and leads and mean < goal.mean:
        misses.append(f"mean {mean:.2f}, not {goal.mean:g}")
    average = sum(shares) / len(shares) if shares else 1.0
    if goal.share and average < goal.share:
        misses.append(f"{average:.0%} of the limit, not {goal.share:.0%}")
    return Standing(which, tuple(rows), leads, shares, tuple(misses))
