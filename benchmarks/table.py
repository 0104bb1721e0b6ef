"""Tables of text, for the terminal and for Markdown.

>>> print(markdown(Table("Sums", ("a", "b"), (("1", "2"),))))
### Sums
<BLANKLINE>
| a | b |
|---|---|
| 1 | 2 |
<BLANKLINE>
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from rich.console import Console
from rich.table import Table as RichTable

from anyrt.plan.disk import write_text
from benchmarks.machine import Machine


class HasThreads(Protocol):
    """A row of results."""

    @property
    def threads(self) -> int:
        """The number of threads that computed it."""


_Row = TypeVar("_Row", bound=HasThreads)
WIDE = 200  # characters, if the terminal is unknown


@dataclass(frozen=True, slots=True)
class Table:
    """A title, names of columns, rows of text; `note` is printed with the title."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A document of tables: the text above and below the lines about the machine."""

    head: str
    how: str = ""

    def write(self, path: Path, tables: Iterable[Table], machine: Machine, brief: bool = False) -> None:
        """Write the document; brief: only the first line about the machine."""
        lines = [f"- {line}" for line in machine.lines()][: 1 if brief else None]
        path.parent.mkdir(parents=True, exist_ok=True)
        how = [self.how] if self.how else []
        write_text(path, "\n".join([self.head, *lines, "", *how, *map(markdown, tables)]))


def markdown(table: Table) -> str:
    """A table in Markdown."""
    lines = [f"### {table.title}", ""]
    lines += [table.note, ""] if table.note else []
    lines += [_line(table.columns), "|" + "---|" * len(table.columns)]
    return "\n".join([*lines, *map(_line, table.rows), ""])


def show(tables: Iterable[Table]) -> None:
    """Print tables to the terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE)
    for table in tables:
        drawn = RichTable(title=table.title, title_justify="left")
        for i, column in enumerate(table.columns):
            drawn.add_column(column, justify="left" if i == 0 else "right", no_wrap=i == 0)
        for row in table.rows:
            drawn.add_row(*row)
        console.print(drawn)
        if table.note:
            console.print(table.note)


def by_threads(rows: Sequence[_Row]) -> Iterator[tuple[str, list[_Row]]]:
    """The rows of each number of threads, the largest first, with its name for titles."""
    for threads in sorted({r.threads for r in rows}, reverse=True):
        yield "1 thread" if threads == 1 else f"{threads} threads", [r for r in rows if r.threads == threads]


def title(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def geometric_mean(numbers: Iterable[float]) -> float:
    """The geometric mean; 0 without numbers.

    >>> geometric_mean([2, 8])
    4.0
    """
    logs = [math.log(x) for x in numbers]
    return round(math.exp(math.fsum(logs) / len(logs)), 12) if logs else 0.0


def shown(x: float | None, form: str) -> str:
    """A number in a format; "" for None and NaN, which stand for numbers that are missing."""
    return "" if x is None or math.isnan(x) else format(x, form)


def digits(x: float | None) -> str:
    """A number with three significant digits; "" if it is missing.

    >>> digits(0.01234), digits(1.5), digits(12345.6), digits(None)
    ('0.0123', '1.50', '12346', '')
    """
    return shown(x, f".{max(0, 2 - math.floor(math.log10(abs(x))))}f") if x and x == x else shown(x, "g")


def percent(x: float | None) -> str:
    """A part of a whole, in percent; "" if it is missing."""
    return shown(x, ".0%")


def below(most: float) -> str:
    """A limit; "" if it is infinite."""
    return f"{most:g}" if most < math.inf else ""


def ms(microseconds: float) -> str:
    """Milliseconds."""
    return digits(microseconds / 1e3)


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"
