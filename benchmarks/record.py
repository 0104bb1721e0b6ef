"""Results as JSON lines, so that commits can be compared: one line for the machine, one for each case."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anyrt.plan.disk import write_text
from benchmarks.machine import Machine
from benchmarks.peers import NAMES, OURS

SAME_AS_BEST = 0.03  # differences below this are a tie


@dataclass(frozen=True, slots=True)
class Entry:
    """The times of one way of a peer, in microseconds; its largest error in ulp. paired: its time by ours,
    turn by turn; 0 where that was not asked."""

    peer: str
    label: str
    median: float
    minimum: float
    runs: int
    error: float
    paired: float = 0.0

    @property
    def name(self) -> str:
        """The peer and, where it has several, the way."""
        return f"{self.peer} ({self.label})" if self.label else self.peer


@dataclass(frozen=True, slots=True)
class Row:
    """Everything about a case at a number of threads.

    limit_minimum, limit: of the fastest plain kernel; memcpy: of the larger of the two sizes. left_out: why
    a peer has no entry. facts: seconds to build and load, bytes. disturbed: bursts that the machine was not
    quiet for, of `bursts`.
    """

    case: str
    layer: str
    threads: int
    limit: float
    limit_minimum: float
    memcpy: float
    known: float | None
    entries: tuple[Entry, ...]
    left_out: dict[str, str]
    facts: dict[str, float]
    disturbed: int
    bursts: int

    def entry(self, peer: str, label: str | None = None) -> Entry | None:
        """The fastest way of a peer, or the one of that label."""
        mine = [e for e in self.entries if e.peer == peer and label in (None, e.label)]
        return min(mine, key=lambda e: e.median, default=None)

    def best(self, ours: str) -> Entry | None:
        """The fastest of all others."""
        return min((e for e in self.entries if e.peer != ours), key=lambda e: e.median, default=None)


def why(row: Row, peer: str) -> str:
    """Why a peer has no time, in a word: – where it has no way to compute the case."""
    reason = next((why for name, why in row.left_out.items() if name.split(" ")[0] == peer), "")
    return "–" if reason.startswith("cannot") else reason.split(":")[0]


def others(rows: Sequence[Row]) -> list[str]:
    """Peers that a table of these rows tells of."""
    return [n for n in NAMES if n != OURS and any(r.entry(n) or why(r, n) for r in rows)]


@dataclass(frozen=True, slots=True)
class Crowd:
    """AnyRT's median alone, and beside a process that keeps a processor busy."""

    case: str
    threads: int
    alone: float
    beside: float


@dataclass(frozen=True, slots=True)
class Gain:
    """Medians and minima of a mechanism's case without and with it, in microseconds."""

    name: str
    place: str
    case: str
    threads: int
    without: float
    without_minimum: float
    median: float
    minimum: float
    kept: bool = True


@dataclass(frozen=True, slots=True)
class Results:
    """A run of the benchmark."""

    machine: Machine
    rows: tuple[Row, ...]
    calls: tuple[Row, ...]
    crowds: tuple[Crowd, ...] = ()
    gains: tuple[Gain, ...] = ()


def line_of(kind: str, item: Row | Machine | Crowd | Gain) -> str:
    """One JSON line."""
    return json.dumps({"kind": kind, **asdict(item)})


def append(path: Path, line: str) -> None:
    """Add a line to a file of results."""
    with path.open("a") as file:
        file.write(line + "\n")


def lines(path: Path | None) -> list[dict[str, Any]]:  # Any: as JSON has them
    """What a file of lines holds, if there is one."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def read(path: Path) -> Results:
    """The results in a file; of several lines for one case the last counts."""
    machine: Machine | None = None
    rows: dict[tuple[str, int], Row] = {}
    calls: dict[tuple[str, int], Row] = {}
    crowds: dict[tuple[str, int], Crowd] = {}
    gains: dict[tuple[str, str, int], Gain] = {}
    for fields in lines(path):
        match fields.pop("kind"):
            case "machine":
                machine = Machine(**fields)
            case "case":
                row = _row(fields)
                rows[row.case, row.threads] = row
            case "call":
                row = _row(fields)
                calls[row.case, row.threads] = row
            case "crowd":
                crowd = Crowd(**fields)
                crowds[crowd.case, crowd.threads] = crowd
            case "gain":
                gain = Gain(**fields)
                gains[gain.name, gain.case, gain.threads] = gain
    if machine is None:
        raise SystemExit(f"{path}: got no line about the machine, wanted a file written by --json")
    found = (tuple(x.values()) for x in (rows, calls, crowds, gains))
    return Results(machine, *found)  # type: ignore[arg-type]  # in the order of the fields


def write(path: Path, results: Results) -> None:
    """All lines into a file."""
    texts = [line_of("machine", results.machine), *(line_of("case", r) for r in results.rows)]
    texts += [line_of("call", r) for r in results.calls]
    texts += [line_of("crowd", c) for c in results.crowds]
    texts += [line_of("gain", g) for g in results.gains]
    write_text(path, "\n".join(texts) + "\n")


def _row(fields: dict[str, object]) -> Row:
    entries = fields.pop("entries")
    assert isinstance(entries, Iterable), "entries are a list"
    return Row(entries=tuple(Entry(**e) for e in entries), **fields)  # type: ignore[arg-type]  # read from JSON
