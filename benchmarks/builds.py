"""What building networks may cost: the rows of `python -m benchmarks build`, what each must reach, tables.

Cold means: empty kernel cache, process started and modules imported, pool not yet compiled, `verify` off.
What is wanted holds for CPU seconds of all processes.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks.jobs import Outcome, Part
from benchmarks.table import Table, digits

EACH = 1.15  # the time of N blocks, by N times that of one
TIE = 1.03
LARGEST_KB = 200.0
EXPONENT = 1.1
STEADY = 200  # layers from which growth is judged: below, what every build costs hides it
USUAL = 0.99  # of the random networks


class Kind(enum.Enum):
    """What is done."""

    COLD = "cold"
    AGAIN = "again, warm cache"
    ELSEWHERE = "plan loaded, cold cache"
    RANDOM_LAYERS = "random layers, cold"
    RANDOM_PRIMITIVES = "random primitives, cold"
    WEIGHTS = "plan loaded, warm cache"


RANDOM = (Kind.RANDOM_LAYERS, Kind.RANDOM_PRIMITIVES)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table. network, size: of networks.py; for random ones how many.

    cpu_s, usual_s, wall_s, peak_mb, times, copies: the most that is wanted; usual_s: of all but a hundredth
    of the random ones; times: of the sum of the parts' inferences. form: how a plan is given.
    """

    kind: Kind
    network: str
    size: int
    cpu_s: float = math.inf
    usual_s: float = math.inf
    wall_s: float = math.inf
    peak_mb: float = math.inf
    parts: tuple[Part, ...] = ()
    times: float = math.inf
    copies: float = math.inf
    form: str = ""

    @property
    def name(self) -> str:
        """What it is called, which `--only` looks at."""
        kind = self.form or self.kind.value
        return f"{self.network} {self.size}, {kind}" if self.network else f"{self.size} of {kind}"


@dataclass(frozen=True, slots=True)
class Built:
    """A row with what it took; of random ones the worst, `usual_s` of all but a hundredth, and the seeds of
    those that take longer than is usual."""

    row: Row
    outcome: Outcome
    usual_s: float | None = None
    slow: tuple[int, ...] = ()


def _blocks(network: str, wanted: dict[int, float]) -> tuple[Row, ...]:
    return tuple(
        Row(Kind.COLD, network, n, cpu_s=s, parts=(Part(network, 1, n),), times=EACH if n > 1 else math.inf)
        for n, s in wanted.items()
    )


def _resizes(mode: str, count: int) -> Row:
    parts = tuple(Part(f"one_{mode}", k) for k in range(1, count + 1))
    return Row(Kind.COLD, mode, count, cpu_s=1.0, parts=parts, times=TIE)


def _cold(network: str, wanted: dict[int, float], peak_mb: float = math.inf) -> tuple[Row, ...]:
    return tuple(Row(Kind.COLD, network, n, cpu_s=s, peak_mb=peak_mb) for n, s in wanted.items())


ROWS = (
    *_blocks("residual", {1: 0.5, 3: 0.7, 12: 1.0, 48: 2.0}),
    *_blocks("gelu", {1: 0.5, 2: 0.6, 6: 0.9, 12: 1.2, 48: 2.5}),
    _resizes("linear", 9),
    _resizes("cubic", 4),
    *_cold("normalizations", {10: 0.4, 50: 0.6, 200: 1.5}),
    *_cold("mixed", {10: 0.5, 50: 1.0, 200: 2.0, 1000: 6.0, 3000: 20.0}, peak_mb=600),
    *_cold("varied", {200: 8.0, 1000: 40.0}),
    *(Row(Kind.AGAIN, "mixed", n, cpu_s=0.15 * n / 100) for n in (200, 1000)),
    Row(Kind.ELSEWHERE, "mixed", 200, cpu_s=2.0),
    *(Row(kind, "", 200, cpu_s=2.0, usual_s=0.7) for kind in RANDOM),
    Row(Kind.WEIGHTS, "weights", 100, copies=1.05, form="bytes"),
    Row(Kind.WEIGHTS, "weights", 100, copies=0.05, form="aligned memory"),
    Row(Kind.WEIGHTS, "weights", 100, wall_s=0.12, copies=0.05, form="mapped file"),
    Row(Kind.WEIGHTS, "weights", 100, wall_s=0.01, copies=0.05, form="mapped file, not verified"),
)


def faults(built: Built) -> str:
    """What is missing; empty when nothing is."""
    row, found = built.row, built.outcome
    if found.error:
        return found.error
    limits = _limits(row, found, built.usual_s)
    over = [f"{digits(x)} {unit}" for x, most, unit in limits if x is not None and x > most]
    if row.times < math.inf and found.run_us is None:
        over.append("no inference was measured")
    if row.kind is Kind.AGAIN and found.modules:
        over.append(f"LLVM ran {found.modules} times")
    return ", ".join(over)


def wanted(row: Row) -> str:
    """What a row must reach."""
    limits = _limits(row, Outcome(), None)
    told = [f"{digits(most)} {unit}" for _, most, unit in limits if most < math.inf]
    if row.kind is Kind.AGAIN:
        told.append("no LLVM")
    return "≤ " + ", ".join(told) if told else ""


def _limits(row: Row, found: Outcome, usual_s: float | None) -> tuple[tuple[float | None, float, str], ...]:
    """(what it was, the most that is wanted, of what)."""
    times = found.run_us / found.parts_us if found.run_us and found.parts_us else None
    return (
        (found.cpu_s, row.cpu_s, "s"),
        (usual_s, row.usual_s, f"s for {USUAL:.0%}"),
        (found.wall_s, row.wall_s, "s of wall"),
        (found.peak_mb, row.peak_mb, "MB"),
        (times, row.times, "× the parts"),
        (found.copies, row.copies, "copies"),
    )


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """How cost grows with size: the slope of the straight line through the logarithms.

    >>> exponent([(10, 3), (100, 30), (1000, 300)])
    1.0
    """
    xs, ys = ([math.log(p[k]) for p in points] for k in range(2))
    x, y = (math.fsum(v) / len(v) for v in (xs, ys))
    over = math.fsum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True))
    return round(over / math.fsum((a - x) ** 2 for a in xs), 9)


def line_of(built: Built) -> str:
    """One JSON line."""
    row = built.row
    names = {"kind": "build", "name": row.name, "network": row.network, "size": row.size}
    told = {"usual_s": built.usual_s, "slow": built.slow, "wanted": wanted(row), "missing": faults(built)}
    return json.dumps({**names, **asdict(built.outcome), **told})


def tables(all_built: Sequence[Built]) -> list[Table]:
    """One for building, one for loading weights."""
    builds = [b for b in all_built if b.row.kind is not Kind.WEIGHTS]
    loads = [b for b in all_built if b.row.kind is Kind.WEIGHTS]
    return [t for t in (_building(builds), _loading(loads)) if t.rows]


def _building(all_built: Sequence[Built]) -> Table:
    columns = ("network", "CPU s", "wall s", "peak MB", "kernels", "LLVM text KB", "largest kernel KB", "µs",
               "parts µs", "wanted", "holds")  # fmt: skip
    note = (
        "Cold: empty kernel cache, process started, modules imported, pool not yet compiled, verification "
        "off. CPU of all processes, memory of the largest. Parts: N times the time of one block, or every "
        "layer alone. Of random networks the worst."
    )
    rows = [_line(b) for b in all_built]
    return Table("Building", columns, (*rows, *_growth(all_built), *_largest(all_built)), note)


def _line(built: Built) -> tuple[str, ...]:
    found = built.outcome
    figures = (found.cpu_s, found.wall_s, found.peak_mb)
    texts = (found.text_kb, found.largest_kb, found.run_us, found.parts_us)
    kernels = "" if found.kernels is None else str(found.kernels)
    missing = faults(built)
    if built.slow:
        missing += f" (seeds {', '.join(map(str, built.slow))})"
    told = f"no: {missing}" if missing else "yes"
    return (built.row.name, *map(_shown, figures), kernels, *map(_shown, texts), wanted(built.row), told)


def _shown(x: float | None) -> str:
    return "" if x is None else digits(x)


def _growth(all_built: Sequence[Built]) -> list[tuple[str, ...]]:
    """A line for each network that was built cold in several large sizes."""
    points: dict[str, list[tuple[float, float]]] = {}
    for b in all_built:
        if b.row.kind is Kind.COLD and b.row.size >= STEADY and b.outcome.cpu_s and not b.outcome.error:
            points.setdefault(b.row.network, []).append((b.row.size, b.outcome.cpu_s))
    lines = []
    for network, found in points.items():
        if len(found) > 1:
            slope = exponent(found)
            name = f"{network}, exponent from {found[0][0]:g} to {found[-1][0]:g}"
            lines.append(_extra(name, slope, f"≤ {EXPONENT:g}", slope <= EXPONENT, 1))
    return lines


def _largest(all_built: Sequence[Built]) -> list[tuple[str, ...]]:
    largest = max(all_built, key=lambda b: b.outcome.largest_kb or 0.0, default=None)
    if largest is None or not largest.outcome.largest_kb:
        return []
    most, reason = largest.outcome.largest_kb, largest.outcome.reason
    told = f"≤ {LARGEST_KB:g} or a reason in the report"
    line = _extra(f"largest kernel, in {largest.row.name}", most, told, most <= LARGEST_KB or bool(reason), 6)
    return [(*line[:-1], f"{line[-1]}: {reason}") if most > LARGEST_KB and reason else line]


def _extra(name: str, figure: float, told: str, holds: bool, column: int) -> tuple[str, ...]:
    cells = [name, *[""] * 8, told, "yes" if holds else "no"]
    cells[column] = digits(figure)
    return tuple(cells)


def _loading(all_built: Sequence[Built]) -> Table:
    columns = ("plan of 100 MB given as", "ms", "copies", "wanted", "holds")
    rows = []
    for b in all_built:
        ms = None if b.outcome.wall_s is None else 1e3 * b.outcome.wall_s
        missing = faults(b)
        told = f"no: {missing}" if missing else "yes"
        rows.append((b.row.form, _shown(ms), _shown(b.outcome.copies), wanted(b.row), told))
    note = "Warm cache. Copies: memory that loading takes at most, beside files, by the size of the plan."
    return Table("Loading weights", columns, tuple(rows), note)
