"""Two source trees, case by case and in turn: which cases a change of the compiler makes faster or slower.

    python -m benchmarks trees --old ../older
    python -m benchmarks trees --old HEAD --changed    only cases whose kernels differ, by tools/replay.py

Each tree has a process, which builds a few cases with its own AnyRT. Then both run in turn, a burst each,
never at the same time. The median of the ratios of neighbouring bursts counts, so that a machine that becomes
slower meanwhile does not change it. Addresses differ between processes: a case that seems slower or faster is
measured again in new processes, and the middle ratio counts.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from benchmarks import record
from benchmarks.child import ROOT, environment
from benchmarks.command import LINES, QUICK, RUNS, THREADS, Command, effort, option, progress
from benchmarks.measure import Effort, length, processors
from benchmarks.registry import CONTRACTIONS, FAMILIES
from benchmarks.registry import LAYERS as CHAINS
from benchmarks.table import Table, digits, geometric_mean, show

BATCH = 8  # cases for which both processes hold engines and memory
MOST_BURST = 1000  # of calls that take a microsecond
NOTABLE = 0.03
LEAST = 0.98  # of the old speed, which each layer or family must keep on average
CLEAR, PATIENCE = 0.01, 4  # at most PATIENCE times the bursts, until the ratio is certain within CLEAR
AGAIN = 2  # times that a case is measured again
NOTCH = 1.57  # of the quartiles' distance, by the root of the count: 95 % of a median (McGill 1978)
NETWORKS = ("residual 1", "gelu 1", "normalizations 1")
LAYERS = {
    **{name: CHAINS.group(c).value for name, c in CHAINS.language.cases.items()},
    **dict.fromkeys(NETWORKS, "networks"),
    **{f"contractions/{n}": f"contractions: {c.group.value}" for n, c in CONTRACTIONS.language.cases.items()},
    **{f"families/{n}": c.family.value for n, c in FAMILIES.language.cases.items()},
}


@dataclass(frozen=True, slots=True)
class Order:
    """The two trees, and how to measure them."""

    old: Path
    new: Path
    threads: int
    effort: Effort


@dataclass(frozen=True, slots=True)
class Pair:
    """A way of a case in both trees: medians in microseconds, the median of the ratios new / old, and its
    uncertainty."""

    case: str
    label: str
    old_us: float = math.nan
    new_us: float = math.nan
    ratio: float = math.nan
    noise: float = math.nan
    error: str = ""

    @property
    def name(self) -> str:
        """The case, with the label of the way if it has one."""
        return f"{self.case} ({self.label})" if self.label else self.case

    @property
    def verdict(self) -> str:
        """slower or faster, if the change is notable beyond the noise; unclear, if noise could hide it."""
        if self.error:
            return self.error
        if self.ratio - self.noise > 1 + NOTABLE:
            return "slower"
        if self.ratio + self.noise < 1 - NOTABLE:
            return "faster"
        return "unclear" if self.noise > NOTABLE else ""


def pairs(cases: Sequence[str], order: Order) -> Iterator[Pair]:
    """All ways of all cases."""
    for start in range(0, len(cases), BATCH):
        for pair in _batch(cases[start : start + BATCH], order):
            yield _again(pair, order) if pair.verdict in ("slower", "faster", "unclear") else pair


def _again(pair: Pair, order: Order) -> Pair:
    """A pair after more measurements in new processes; their differences are noise, too."""
    measured = [pair]
    for _ in range(AGAIN):
        measured += [p for p in _batch([pair.case], order) if p.label == pair.label and not p.error]
    return joined(measured)


def joined(measured: Sequence[Pair]) -> Pair:
    """The pair with the middle ratio; the differences of all are its noise."""
    middle = sorted(measured, key=lambda p: p.ratio)[len(measured) // 2]
    spread = (max(p.ratio for p in measured) - min(p.ratio for p in measured)) / 2
    return replace(middle, noise=max(spread, *(p.noise for p in measured)))


def _batch(names: Sequence[str], order: Order) -> list[Pair]:
    """The ways of some cases. If a process ends, each case is measured on its own."""
    try:
        return list(_measured(names, order))
    except EndedError as error:
        if len(names) == 1:
            return [Pair(names[0], "", error=str(error))]
        return [pair for name in names for pair in _batch([name], order)]


def _measured(names: Sequence[str], order: Order) -> Iterator[Pair]:
    with ExitStack() as stack:
        old, new = (stack.enter_context(Process(t, order.threads)) for t in (order.old, order.new))
        prepared = [(name, old.prepare(name), new.prepare(name)) for name in names]
        for name, before, after in prepared:
            progress(name)
            if isinstance(before, str) or isinstance(after, str):
                yield Pair(name, "", error=f"old: {before}" if isinstance(before, str) else f"new: {after}")
                continue
            for a, b in zip(before, after, strict=True):
                yield _compared(name, (old, a), (new, b), order.effort)


def _compared(case: str, old: Way, new: Way, effort: Effort) -> Pair:
    """Old and new in turn, until the ratio is certain or the patience is over."""
    runs = length(min(old[1].estimate_us, new[1].estimate_us) / 1e6, replace(effort, most_burst=MOST_BURST))
    befores, afters = list[float](), list[float]()
    for _ in range(PATIENCE):
        for turn in range(max(effort.runs, 2)):  # quartiles need two
            both = ((*old, befores), (*new, afters))
            for process, way, times in both[:: -1 if turn % 2 else 1]:
                time.sleep(effort.pause_s)  # until the other's threads sleep
                times.append(process.run(way.number, runs))
        pair = compared(case, old[1].label, befores, afters)
        if pair.noise <= CLEAR:
            break
    return pair


def compared(case: str, label: str, old: Sequence[float], new: Sequence[float]) -> Pair:
    """The ratio of bursts in turn, with its uncertainty.

    >>> compared("c", "", [10, 20, 10], [11, 22, 11]).ratio
    1.1
    """
    ratios = [b / a for a, b in zip(old, new, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    noise = NOTCH * (high - low) / math.sqrt(len(ratios))
    return Pair(case, label, statistics.median(old), statistics.median(new), middle, noise)


# ---- processes ----------------------------------------------------------------------------------


class EndedError(Exception):
    """The process of a tree has ended."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A way of a case in a process: its number there, and its estimated time."""

    number: int
    label: str
    estimate_us: float


@dataclass(slots=True)
class Process:
    """The process of a tree, with a kernel cache of its own."""

    tree: Path
    threads: int
    ways: int = 0
    cache: tempfile.TemporaryDirectory[str] = field(default_factory=tempfile.TemporaryDirectory)
    child: subprocess.Popen[str] = field(init=False)

    def __enter__(self) -> Self:
        source = self.tree.resolve() / "src"
        self.child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.tree", str(source), str(self.threads)],
            env=environment(self.tree, Path(self.cache.name)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.child.kill()
        self.child.communicate()
        self.cache.cleanup()

    def prepare(self, case: str) -> list[Prepared] | str:
        """Build a case; the reason if it cannot be built."""
        answer = self._ask("prepare", case)
        if isinstance(answer, str):
            return answer
        assert isinstance(answer, list), f"a list of ways is wanted: {answer}"
        first, self.ways = self.ways, self.ways + len(answer)
        return [Prepared(first + k, label, us) for k, (label, us) in enumerate(answer)]

    def run(self, way: int, runs: int) -> float:
        """The median of a burst, in microseconds."""
        answer = self._ask("run", way, runs)
        assert isinstance(answer, float), f"a time is wanted: {answer}"
        return answer

    def _ask(self, *request: object) -> object:
        assert self.child.stdin is not None, "a pipe"
        assert self.child.stdout is not None, "a pipe"
        try:
            print(json.dumps(request), file=self.child.stdin, flush=True)
            line = self.child.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise EndedError(f"the process of {self.tree} ended with status {self.child.wait()}")
        answer: object = json.loads(line)
        return answer


Way: TypeAlias = tuple[Process, Prepared]


# ---- tables -------------------------------------------------------------------------------------


def line_of(pair: Pair) -> str:
    """A JSON line."""
    return json.dumps({"kind": "pair", **asdict(pair), "verdict": pair.verdict})


def read(path: Path) -> list[Pair]:
    """The pairs in a file of such lines, without the last case, whose ways may be incomplete."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    names = {f.name for f in fields(Pair)}
    measured = [Pair(**{k: v for k, v in x.items() if k in names}) for x in lines if x["kind"] == "pair"]
    return [p for p in measured if p.case != measured[-1].case]


def said(pair: Pair) -> str:
    """A line about a case for a commit that changes its kernels."""
    if pair.error:
        return f"times: none, {pair.name}: {pair.error}"
    old, new = digits(pair.old_us), digits(pair.new_us)
    return f"times: {pair.name.replace(' ', '_')} {old} → {new} µs, {pair.ratio:.3f} ± {pair.noise:.3f}"


def tables(measured: Sequence[Pair]) -> list[Table]:
    """All cases, slower ones first; and all layers."""
    right = [p for p in measured if not p.error]
    cases = [_line(p) for p in sorted(measured, key=lambda p: -math.inf if p.error else -p.ratio)]
    groups = [
        (layer, [p for p in right if LAYERS.get(p.case, "networks") == layer])
        for layer in dict.fromkeys(LAYERS.values())
    ]
    note = (
        "Times are medians. New / old: the median of the ratios of neighbouring bursts. ±: the uncertainty "
        "of that median, or the difference between processes. Slower, faster: by more than "
        f"{NOTABLE:.0%} beyond that. Unclear: the uncertainty is more than {NOTABLE:.0%}. Bold: a mean of "
        f"less than {LEAST} of the speed before."
    )
    columns = ("case", "old µs", "new µs", "new / old", "±", "")
    return [
        Table("Two trees", columns, tuple(cases), note),
        Table(
            "Two trees, by layer",
            ("layer", "ways", "new / old, mean", "slower", "faster", "unclear"),
            tuple(_group(*g) for g in [*groups, ("all", right)] if g[1]),
        ),
    ]


def _line(pair: Pair) -> tuple[str, ...]:
    if pair.error:
        return (pair.name, "", "", "", "", pair.error)
    times = (pair.old_us, pair.new_us)
    return (pair.name, *map(digits, times), f"{pair.ratio:.3f}", f"{pair.noise:.3f}", pair.verdict)


def _group(layer: str, measured: Sequence[Pair]) -> tuple[str, ...]:
    counts = (str(sum(p.verdict == v for p in measured)) for v in ("slower", "faster", "unclear"))
    mean = geometric_mean(p.ratio for p in measured)
    text = f"**{mean:.3f}**" if mean * LEAST > 1 else f"{mean:.3f}"
    return (layer, str(len(measured)), text, *counts)


def _run(options: argparse.Namespace, names: list[str]) -> None:
    from tools.replays.trees import changed, source_tree  # which lowers all networks, as no other command

    processors(options.threads)
    done = read(options.json) if options.resume and options.json and options.json.exists() else []
    record.begin(options.json, map(line_of, done))
    with source_tree(options.old) as old:
        names = changed(old, options.only) if options.changed else names
        left = [n for n in names if n not in {p.case for p in done}]
        for pair in pairs(left, Order(old, ROOT, options.threads, effort(options))):
            done.append(pair)
            record.append(options.json, line_of(pair))
    show(tables(done))
    if options.changed:
        print("\n".join(map(said, done)))


COMMAND = Command(
    "trees",
    "measure this source tree and another one in turn",
    _run,
    (
        option("--old", required=True, metavar="TREE", help="the other source tree, or a commit"),
        option(
            "--changed", action="store_true", help="measure only cases whose kernels differ (tools/replay.py)"
        ),
        *(THREADS, RUNS, QUICK, LINES),
        option("--resume", action="store_true", help="continue where the file of --json ends"),
    ),
    rows=lambda: LAYERS,
)
