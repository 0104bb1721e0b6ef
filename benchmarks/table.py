"""Tables of text, for terminals and for Markdown.

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
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table as RichTable

WIDE = 200  # characters, where nobody says


@dataclass(frozen=True, slots=True)
class Table:
    """A title, the names of the columns, rows of text; `note` explains below the title."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def markdown(table: Table) -> str:
    """For a document."""
    lines = [f"### {table.title}", ""]
    lines += [table.note, ""] if table.note else []
    lines += [_line(table.columns), "|" + "---|" * len(table.columns)]
    return "\n".join([*lines, *map(_line, table.rows), ""])


def show(tables: Iterable[Table]) -> None:
    """On the terminal."""
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


def geometric_mean(numbers: Iterable[float]) -> float:
    """The geometric mean; 0 of nothing.

    >>> geometric_mean([2, 8])
    4.0
    """
    logs = [math.log(x) for x in numbers]
    return round(math.exp(math.fsum(logs) / len(logs)), 12) if logs else 0.0


def digits(x: float) -> str:
    """Three digits that count.

    >>> digits(0.01234), digits(1.5), digits(12345.6)
    ('0.0123', '1.50', '12346')
    """
    if x == 0:
        return "0"
    return f"{x:.{max(0, 2 - math.floor(math.log10(abs(x))))}f}"


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"
