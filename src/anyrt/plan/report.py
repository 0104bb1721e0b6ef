"""The build report: the computation and traffic of each kernel, and why values were stored.

A plan contains it as JSON text, which loading does not read. `short_text` has at most 40 lines, `full_text`
is complete. Sizes are bytes at the optimal shapes of the first profile.

>>> report = Report(("x (4, 8)",), (KernelTraffic("scale+relu", ("scale", "relu"), 128, 128),), layers=2)
>>> print(short_text(parse_report(print_report(report))))
1 kernel for 2 layers, at x (4, 8)
an inference moves 256 B; intermediate tensors take 0 B
the kernels, by the bytes that they move:
  100 %  256 B  scale+relu
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from anyrt.core.lines import in_line
from anyrt.core.units import byte_count, counted, percent
from anyrt.plan.json import Json, Reader, dump, load

LARGEST: Final = 10  # kernels in the short form
KINDS: Final = 8  # reasons in the short form
NOTES: Final = 6  # lines of notes in the short form
WIDTH: Final = 100  # columns of a line in the short form
MAX_TEXT: Final = 256 << 20
MAX_RECORDS: Final = 1 << 24
LEAST: Final = 0.005  # minimum seconds of a step that is reported
NUMBER: Final = re.compile(r"\d+")
Seconds = Sequence[tuple[str, float]]  # phases of a build, with the seconds of each


@dataclass(frozen=True, slots=True)
class KernelTraffic:
    """A kernel with the layers that it computes, and bytes of the tensors that it reads and writes."""

    name: str
    layers: tuple[str, ...]
    reads: int
    writes: int

    @property
    def moved(self) -> int:
        """Bytes read and written."""
        return self.reads + self.writes

    def __str__(self) -> str:
        layers = [in_line(layer) for layer in self.layers]
        whole = self.name.startswith("+".join(layers))  # except for names that are too long
        return self.name if whole else f"{self.name}: {', '.join(layers)}"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A value that is stored instead of fused, its bytes, and why."""

    value: str
    bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a build. `at`: the shapes for all sizes. `layers`: those that kernels compute. `results`:
    of layers that others read and that are no outputs; `fused` of these are never in memory. `tables`: of
    taps. `notes`: further lines; one that begins with a space belongs to the one before. `code`: the size of
    the processor's code, only in the full form."""

    at: tuple[str, ...] = ()
    kernels: tuple[KernelTraffic, ...] = ()
    stored: tuple[StoredTensor, ...] = ()
    layers: int = 0
    results: int = 0
    fused: int = 0
    result_bytes: int = 0
    fused_bytes: int = 0
    tables: int = 0
    arena_bytes: int = 0
    notes: tuple[str, ...] = ()
    code: tuple[str, ...] = ()

    @property
    def moved(self) -> int:
        """Bytes that all kernels read and write."""
        return sum(k.moved for k in self.kernels)

    def as_json(self) -> dict[str, Json]:
        """Plain values that `parse_report` reads."""
        return asdict(self)


def print_report(report: Report) -> str:
    """The text in a plan."""
    return dump(report.as_json()).decode()


def parse_report(text: str) -> Report:
    """The report that `print_report` wrote; PlanError for invalid JSON. Plain text of earlier versions
    becomes a report with notes only."""
    if not text.startswith("{"):
        return Report(notes=tuple(text.splitlines()))
    top = Reader(load(text.encode(), "report", MAX_TEXT), "report")
    return Report(
        at=_texts(top.field("at")),
        kernels=tuple(map(_kernel, top.field("kernels").items(MAX_RECORDS))),
        stored=tuple(map(_stored, top.field("stored").items(MAX_RECORDS))),
        layers=top.field("layers").integer(),
        results=top.field("results").integer(),
        fused=top.field("fused").integer(),
        result_bytes=top.field("result_bytes").integer(),
        fused_bytes=top.field("fused_bytes").integer(),
        tables=top.field("tables").integer(),
        arena_bytes=top.field("arena_bytes").integer(),
        notes=_texts(top.field("notes")),
        code=_texts(top.field("code")),
    )


def by_layer(times: Iterable[tuple[str, float]], kernels: Sequence[KernelTraffic]) -> dict[str, float]:
    """The times of kernels, summed for each layer, the greatest first. The time of a kernel that computes
    several layers is shared evenly among them.

    >>> fused = KernelTraffic("scale+relu", ("scale", "relu"), 128, 128)
    >>> by_layer([("scale+relu", 3.0), ("sum", 2.0)], [fused, KernelTraffic("sum", ("sum",), 64, 64)])
    {'sum': 2.0, 'scale': 1.5, 'relu': 1.5}
    """
    layers, sums = {k.name: k.layers for k in kernels}, dict[str, float]()
    for kernel, time in times:
        names = layers.get(kernel) or (kernel,)
        for name in names:
            sums[name] = sums.get(name, 0.0) + time / len(names)
    return dict(sorted(sums.items(), key=lambda pair: -pair[1]))


def _texts(reader: Reader) -> tuple[str, ...]:
    return tuple(x.text() for x in reader.items(MAX_RECORDS))


def _kernel(reader: Reader) -> KernelTraffic:
    name, layers, reads, writes = reader.fields("name", "layers", "reads", "writes")
    return KernelTraffic(name.text(), _texts(layers), reads.integer(), writes.integer())


def _stored(reader: Reader) -> StoredTensor:
    value, nbytes, reason = reader.fields("value", "bytes", "reason")
    return StoredTensor(value.text(), nbytes.integer(), reason.text())


def short_text(report: Report, seconds: Seconds = ()) -> str:
    """Totals, the largest kernels, and how often each reason kept something from being fused."""
    lines = [*_largest(report)]
    if report.stored:
        kinds = reasons(report.stored)
        lines.append(f"{counted(len(report.stored), 'tensor')} stored instead of fused:")
        lines += [f"  {count:5}  {reason}" for count, reason in kinds[:KINDS]]
        lines += [f"  {sum(n for n, _ in kinds[KINDS:]):5}  for other reasons"] if kinds[KINDS:] else []
    heads = [note for note in report.notes if not note.startswith(" ")]
    lines += [heads[k].splitlines()[0] for k in range(min(NOTES, len(heads)))]
    lines += [f"and {counted(len(heads) - NOTES, 'note')} more"] if heads[NOTES:] else []
    cut = (line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in lines)
    return "\n".join([*totals(report, seconds), *cut])


def full_text(report: Report, seconds: Seconds = ()) -> str:
    """Every kernel in the order of an inference, every tensor that was stored, and all notes."""
    lines = totals(report, seconds)
    lines += [f"  {line}" for line in kernel_lines(report)]
    if report.stored:
        lines.append("stored in memory instead of fused:")
        lines += [f"  {s.value}: {byte_count(s.bytes)}; {s.reason}" for s in report.stored]
    return "\n".join([*lines, *report.notes, *report.code])


def kernel_lines(report: Report) -> Iterator[str]:
    """Each kernel with the layers that it computes, and its traffic."""
    for k in report.kernels:
        yield f"{k}; reads {byte_count(k.reads)}, writes {byte_count(k.writes)}"


def reasons(stored: Iterable[StoredTensor]) -> list[tuple[int, str]]:
    """How often each kind of reason occurs, the most frequent first: reasons of a kind differ only in
    numbers, of which the least and the greatest are reported.

    >>> reasons([StoredTensor("a", 4, "2 kernels read it"), StoredTensor("b", 4, "5 kernels read it")])
    [(2, '2 to 5 kernels read it')]
    """
    numbers_of: dict[str, list[list[int]]] = {}
    for record in stored:
        numbers = [int(n) for n in NUMBER.findall(record.reason)]
        numbers_of.setdefault(NUMBER.sub("#", record.reason), []).append(numbers)
    lines = [(len(rows), _with_ranges(kind, rows)) for kind, rows in numbers_of.items()]
    return sorted(lines, key=lambda row: -row[0])


def _with_ranges(kind: str, rows: Sequence[Sequence[int]]) -> str:
    ends = ((min(column), max(column)) for column in zip(*rows, strict=True))
    spans = iter([str(low) if low == high else f"{low} to {high}" for low, high in ends])
    return "".join(next(spans, "#") if c == "#" else c for c in kind)


def totals(report: Report, seconds: Seconds = ()) -> list[str]:
    """The number of kernels, their traffic, and what was fused."""
    kernels = counted(len(report.kernels), "kernel")
    tables = f", {counted(report.tables, 'table')} of taps" if report.tables else ""
    at = f", at {', '.join(report.at)}" if report.at else ""
    lines = [f"{kernels} for {counted(report.layers, 'layer')}{tables}{at}"]
    arena = f"intermediate tensors take {byte_count(report.arena_bytes)}"
    lines.append(f"an inference moves {byte_count(report.moved)}; {arena}")
    if report.results:
        share = percent(report.fused_bytes, report.result_bytes)
        results = counted(report.results, "result that a layer passes", "results that layers pass")
        lines.append(f"fused: {report.fused} of {results} on, {share} of their bytes")
    if seconds:
        parts = ", ".join(f"{name.lower()} {time:.2f}" for name, time in seconds if time >= LEAST)
        lines.append(f"its kernels were made in {sum(time for _, time in seconds):.2f} s: {parts}")
    return lines


def _largest(report: Report) -> Iterator[str]:
    kernels = sorted(report.kernels, key=lambda k: -k.moved)
    shown = kernels[:LARGEST]
    if not kernels:
        return
    which = f"the {LARGEST} largest of {len(kernels)} kernels" if len(kernels) > LARGEST else "the kernels"
    yield f"{which}, by the bytes that they move:"
    rows = [(percent(k.moved, report.moved), byte_count(k.moved), str(k)) for k in shown]
    wide, wider = (max(len(row[n]) for row in rows) for n in (0, 1))
    yield from (f"  {share:>{wide}}  {size:>{wider}}  {name}" for share, size, name in rows)
