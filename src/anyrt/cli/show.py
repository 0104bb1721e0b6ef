"""Tables and headings: drawn with rich on a terminal, plain aligned text elsewhere, so that it can be piped.

>>> print_table(("name", "bytes"), [("x", "12"), ("long name", "4")])
name       bytes
x          12
long name  4
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from anyrt.core.units import byte_count, counted

__all__ = ["byte_count", "counted", "print_heading", "print_table"]


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


def _draw(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False, emoji=False).print(table)
