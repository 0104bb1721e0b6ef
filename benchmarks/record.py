"""Results as JSON lines, to compare commits: a line for the machine and one for each case."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from anyrt.plan.disk import write_text
from benchmarks.machine import Machine, this_machine
from benchmarks.peers import NAMES, OURS

SAME_AS_BEST = 0.03  # differences below this are a tie


@dataclass(frozen=True, slots=True)
class Entry:
    """The times of a way of a peer in microseconds; its largest error in ulp. paired: its time divided by
    ours, by rounds; 0: not measured."""

    peer: str
    label: str
    median: float
    minimum: float
    runs: int
    error: float
    paired: float = 0.0

    @property
    def name(self) -> str:
        """The peer, with the label of the way if it has one."""
        return f"{self.peer} ({self.label})" if self.label else self.peer


# The entry of a peer that has none: its numbers are NaN, as is all that is computed from them.
MISSING = Entry("", "", math.nan, math.nan, 0, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class Row:
    """A case at a number of threads.

    limit, limit_minimum: times of the fastest plain kernel; memcpy: of the larger of the two sizes. left_out:
    reasons why peers have no entry. facts: seconds to build and load, bytes. disturbed: bursts before which
    the machine was not quiet, of `bursts`.
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

    def entry(self, peer: str, label: str | None = None) -> Entry:
        """The fastest way of a peer, or the one with this label; MISSING if there is none."""
        mine = [e for e in self.entries if e.peer == peer and label in (None, e.label)]
        return min(mine, key=lambda e: e.median, default=MISSING)

    @property
    def ours(self) -> Entry:
        """The entry of AnyRT's static engine."""
        return self.entry(OURS, "")

    @property
    def best(self) -> Entry:
        """The fastest way of all other peers; MISSING if there is none."""
        return min((e for e in self.entries if e.peer != OURS), key=lambda e: e.median, default=MISSING)


def why(row: Row, peer: str) -> str:
    """The reason why a peer has no time, in a word."""
    return in_a_word(next((why for name, why in row.left_out.items() if name.split(" ")[0] == peer), ""))


def in_a_word(reason: str) -> str:
    """The first word of a reason; – if the program cannot compute the case."""
    return "–" if reason.startswith("cannot") else reason.split(":")[0]


def disturbance(row: Row) -> list[str]:
    """The share of bursts that the machine was not quiet for, if it is more than a quarter."""
    is_disturbed = row.bursts and row.disturbed > row.bursts / 4
    return [f"disturbed {100 * row.disturbed // row.bursts} %"] if is_disturbed else []


def others(rows: Sequence[Row]) -> list[str]:
    """The peers that have times or reasons in these rows."""
    return [n for n in NAMES if n != OURS and any(r.entry(n).runs or why(r, n) for r in rows)]


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


KINDS: dict[str, type[Machine | Row | Crowd | Gain]] = {
    "machine": Machine,
    "case": Row,
    "call": Row,
    "crowd": Crowd,
    "gain": Gain,
}


def line_of(kind: str, item: Row | Machine | Crowd | Gain) -> str:
    """A JSON line."""
    return json.dumps({"kind": kind, **asdict(item)})


def append(path: Path | None, line: str) -> None:
    """Append a line to a file of results, if there is one."""
    if path is not None:
        with path.open("a") as file:
            file.write(line + "\n")


def begin(path: Path | None, lines: Iterable[str] = ()) -> None:
    """Begin a file of results, if there is one, with the machine and lines of an earlier run."""
    if path is not None:
        write_text(path, "".join(f"{x}\n" for x in (line_of("machine", this_machine({}, {})), *lines)))


def lines(path: Path | None) -> list[dict[str, Any]]:  # Any: as JSON has them
    """The lines of a file; none if there is no file."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def parse(kind: Any, value: Any) -> Any:  # Any: of every type
    """A value of a type from the output of `asdict` and JSON: records in tuples, dictionaries and records.

    >>> parse(Crowd, {"case": "a", "threads": 2, "alone": 1.0, "beside": 1.5})
    Crowd(case='a', threads=2, alone=1.0, beside=1.5)
    """
    if is_dataclass(kind):
        types = get_type_hints(kind)
        return kind(**{name: parse(types[name], x) for name, x in value.items()})  # type: ignore[operator]
    match get_origin(kind), get_args(kind):
        case type() as origin, (of, _) if origin is tuple:
            return tuple(parse(of, x) for x in value)
        case type() as origin, (_, of) if origin is dict:
            return {key: parse(of, x) for key, x in value.items()}
    return value


def read(path: Path) -> Results:
    """The results in a file; the last line of a case counts."""
    items: dict[str, dict[tuple[object, ...], Any]] = {kind: {} for kind in KINDS}
    for fields in lines(path):
        kind = fields.pop("kind")
        if kind in KINDS:
            key = tuple(fields.get(name) for name in ("name", "case", "threads"))
            items[kind][key] = parse(KINDS[kind], fields)
    if not items["machine"]:
        raise SystemExit(f"{path}: got no line about the machine, wanted a file written by --json")
    (machine,) = items.pop("machine").values()
    return Results(machine, *(tuple(x.values()) for x in items.values()))


def write(path: Path, results: Results) -> None:
    """Write all results to a file."""
    items = ((results.machine,), results.rows, results.calls, results.crowds, results.gains)
    texts = [line_of(kind, x) for kind, every in zip(KINDS, items, strict=True) for x in every]
    write_text(path, "\n".join(texts) + "\n")
