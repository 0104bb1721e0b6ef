"""The rows of `python -m benchmarks build`, their limits, and the tables.

Cold: empty kernel cache, process started and modules imported, pool not yet compiled, `verify` off. Limits of
seconds are for the CPU seconds of all processes.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks.clock import Outcome
from benchmarks.networks import Part
from benchmarks.table import Table, digits

EACH = 1.15  # the time of N blocks, by N times that of one
TIE = 1.03
LARGEST_KB = 200.0
EXPONENT = 1.1
STEADY = 200  # layers from which growth counts: below, the fixed costs of a build hide it
USUAL = 0.99  # of the random networks


class Kind(enum.Enum):
    """The measured operation."""

    COLD = "cold"
    AGAIN = "again, warm cache"
    ELSEWHERE = "plan loaded, cold cache"
    RANDOM_LAYERS = "random layers, cold"
    RANDOM_PRIMITIVES = "random primitives, cold"
    WEIGHTS = "plan loaded, warm cache"


RANDOM = (Kind.RANDOM_LAYERS, Kind.RANDOM_PRIMITIVES)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table. network, size: of networks.py; of random networks their number.

    cpu_s, usual_s, wall_s, peak_mb, times, copies: the limits; usual_s: of 99 % of the random networks;
    times: an inference divided by the sum of the parts' inferences. form: the source of the plan.
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
        """The name of the row, which `--only` matches."""
        kind = self.form or self.kind.value
        return f"{self.network} {self.size}, {kind}" if self.network else f"{self.size} of {kind}"


@dataclass(frozen=True, slots=True)
class Built:
    """A row with its outcome. Of random networks: the worst, the time that 99 % stay below, and the seeds of
    those that take longer than that limit."""

    row: Row
    outcome: Outcome
    usual_s: float | None = None
    slow: tuple[int, ...] = ()


def _blocks(network: str, seconds: dict[int, float]) -> tuple[Row, ...]:
    return tuple(
        Row(Kind.COLD, network, n, cpu_s=s, parts=(Part(network, 1, n),), times=EACH if n > 1 else math.inf)
        for n, s in seconds.items()
    )


def _resizes(mode: str, count: int) -> Row:
    parts = tuple(Part(f"one_{mode}", k) for k in range(1, count + 1))
    return Row(Kind.COLD, mode, count, cpu_s=1.0, parts=parts, times=TIE)


def _cold(network: str, seconds: dict[int, float], peak_mb: float = math.inf) -> tuple[Row, ...]:
    return tuple(Row(Kind.COLD, network, n, cpu_s=s, peak_mb=peak_mb) for n, s in seconds.items())


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
    """The limits that a row exceeds; empty if there are none."""
    row, outcome = built.row, built.outcome
    if outcome.error:
        return outcome.error
    limits = _limits(row, outcome, built.usual_s)
    over = [f"{digits(x)} {unit}" for x, most, unit in limits if x is not None and x > most]
    if row.times < math.inf and outcome.run_us is None:
        over.append("no inference was measured")
    if row.kind is Kind.AGAIN and outcome.modules:
        over.append(f"LLVM ran {outcome.modules} times")
    return ", ".join(over)


def requirement(row: Row) -> str:
    """The limits of a row, as text."""
    limits = _limits(row, Outcome(), None)
    texts = [f"{digits(most)} {unit}" for _, most, unit in limits if most < math.inf]
    if row.kind is Kind.AGAIN:
        texts.append("no LLVM")
    return "≤ " + ", ".join(texts) if texts else ""


def _limits(row: Row, outcome: Outcome, usual_s: float | None) -> tuple[tuple[float | None, float, str], ...]:
    """(measured figure, its limit, its unit)."""
    times = outcome.run_us / outcome.parts_us if outcome.run_us and outcome.parts_us else None
    return (
        (outcome.cpu_s, row.cpu_s, "s"),
        (usual_s, row.usual_s, f"s for {USUAL:.0%}"),
        (outcome.wall_s, row.wall_s, "s of wall"),
        (outcome.peak_mb, row.peak_mb, "MB"),
        (times, row.times, "× the parts"),
        (outcome.copies, row.copies, "copies"),
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
    figures = {
        "usual_s": built.usual_s,
        "slow": built.slow,
        "wanted": requirement(row),
        "missing": faults(built),
    }
    return json.dumps({**names, **asdict(built.outcome), **figures})


def tables(all_built: Sequence[Built]) -> list[Table]:
    """A table of builds and one of loading weights."""
    builds = [b for b in all_built if b.row.kind is not Kind.WEIGHTS]
    loads = [b for b in all_built if b.row.kind is Kind.WEIGHTS]
    return [t for t in (_building(builds), _loading(loads)) if t.rows]


def _building(all_built: Sequence[Built]) -> Table:
    columns = ("network", "CPU s", "wall s", "peak MB", "kernels", "LLVM text KB", "largest kernel KB", "µs",
               "parts µs", "wanted", "holds")  # fmt: skip
    note = (
        "Cold: the kernel cache is empty, the process has started, modules are imported, the pool is not yet "
        "compiled, and verification is off. CPU is that of all processes, memory that of the largest one. "
        "Parts: N times the time of one block, or of every layer alone. Of random networks, the worst one "
        "counts."
    )
    rows = [_line(b) for b in all_built]
    return Table("Building", columns, (*rows, *_growth(all_built), *_largest(all_built)), note)


def _line(built: Built) -> tuple[str, ...]:
    outcome = built.outcome
    figures = (outcome.cpu_s, outcome.wall_s, outcome.peak_mb)
    texts = (outcome.text_kb, outcome.largest_kb, outcome.run_us, outcome.parts_us)
    kernels = "" if outcome.kernels is None else str(outcome.kernels)
    missing = faults(built)
    if built.slow:
        missing += f" (seeds {', '.join(map(str, built.slow))})"
    verdict = f"no: {missing}" if missing else "yes"
    return (
        built.row.name,
        *map(digits, figures),
        kernels,
        *map(digits, texts),
        requirement(built.row),
        verdict,
    )


def _growth(all_built: Sequence[Built]) -> list[tuple[str, ...]]:
    """A line for each network that was built cold in several large sizes."""
    points: dict[str, list[tuple[float, float]]] = {}
    for b in all_built:
        if b.row.kind is Kind.COLD and b.row.size >= STEADY and b.outcome.cpu_s and not b.outcome.error:
            points.setdefault(b.row.network, []).append((b.row.size, b.outcome.cpu_s))
    lines = []
    for network, sizes in points.items():
        if len(sizes) > 1:
            slope = exponent(sizes)
            name = f"{network}, exponent from {sizes[0][0]:g} to {sizes[-1][0]:g}"
            lines.append(_extra(name, slope, f"≤ {EXPONENT:g}", slope <= EXPONENT, 1))
    return lines


def _largest(all_built: Sequence[Built]) -> list[tuple[str, ...]]:
    largest = max(all_built, key=lambda b: b.outcome.largest_kb or 0.0, default=None)
    if largest is None or not largest.outcome.largest_kb:
        return []
    most, reason = largest.outcome.largest_kb, largest.outcome.reason
    goal = f"≤ {LARGEST_KB:g} or a reason in the report"
    line = _extra(f"largest kernel, in {largest.row.name}", most, goal, most <= LARGEST_KB or bool(reason), 6)
    return [(*line[:-1], f"{line[-1]}: {reason}") if most > LARGEST_KB and reason else line]


def _extra(name: str, figure: float, goal: str, holds: bool, column: int) -> tuple[str, ...]:
    cells = [name, *[""] * 8, goal, "yes" if holds else "no"]
    cells[column] = digits(figure)
    return tuple(cells)


def _loading(all_built: Sequence[Built]) -> Table:
    columns = ("plan of 100 MB given as", "ms", "copies", "wanted", "holds")
    rows = []
    for b in all_built:
        ms = None if b.outcome.wall_s is None else 1e3 * b.outcome.wall_s
        missing = faults(b)
        verdict = f"no: {missing}" if missing else "yes"
        rows.append((b.row.form, digits(ms), digits(b.outcome.copies), requirement(b.row), verdict))
    note = (
        "The cache is warm. Copies: the peak of memory that loading takes, without files, divided by the "
        "size of the plan."
    )
    return Table("Loading weights", columns, tuple(rows), note)
