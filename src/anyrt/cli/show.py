"""Tables and headings: drawn with rich on a terminal, plain aligned text elsewhere, so that it can be piped.

>>> print_table(("name", "bytes"), [("x", "12"), ("long name", "4")])
name       bytes
x          12
long name  4
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text below column names; nothing when there are no rows."""
    if not rows:
        return
    if sys.stdout.isatty():
        _draw(columns, rows)
        return
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def print_heading(text: str) -> None:
    """A title with an empty line before it."""
    print(f"\n{text}\n{'-' * len(text)}")


def byte_count(n: int) -> str:
    """A size for people.

    >>> byte_count(3 << 20)
    '3.0 MiB'
    """
    if n < 1024:
        return f"{n} B"
    units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
    size, unit = next((s, u) for s, u in units if n >= s)
    return f"{n / size:.1f} {unit}"


def counted(n: int, one: str, many: str) -> str:
    """A number of things for people.

    >>> counted(1, "entry", "entries"), counted(0, "entry", "entries")
    ('1 entry', '0 entries')
    """
    return f"{n} {one if n == 1 else many}"


def _draw(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False, emoji=False).print(table)
