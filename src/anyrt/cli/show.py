"""The output of commands: tables and text that fit a terminal, uncut in a pipe; JSON.

>>> print_table(("name", "bytes"), [("x", "12"), ("long name", "4")])
name       bytes
x          12
long name  4
>>> print(*table_lines(("name", "problem"), [("model/layer/norm", "an axis too many")], 24), sep="\\n")
name         problem
model…/norm  an axis too
             many
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Final

from anyrt.core.units import byte_count, counted

__all__ = ["byte_count", "counted", "print_heading", "print_json", "print_table", "print_text", "records"]

LEAST: Final = 6  # minimum columns of a shortened cell
GAP: Final = "  "


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text below column names; nothing if there are no rows. On a terminal, cells are shortened
    in their middle and those of the last column wrapped, so that lines fit."""
    for line in table_lines(columns, rows, terminal_columns(sys.stdout)) if rows else ():
        print(line)


def print_heading(text: str) -> None:
    """A title with an empty line before it."""
    print(f"\n{text}\n{'-' * len(text)}")


def print_text(text: str) -> None:
    """Lines, which are wrapped on a terminal, with a deeper indent."""
    for line in text.splitlines():
        print(*(folded(line, terminal_columns(sys.stdout)) or [""]), sep="\n")


def print_json(value: object) -> None:
    """A value as JSON."""
    print(json.dumps(value, indent=2))


def records(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[dict[str, str]]:
    """The rows of a table for JSON."""
    return [dict(zip(columns, row, strict=True)) for row in rows]


def print_facts(facts: Mapping[str, str]) -> None:
    """Names and values."""
    print_table(("what", "value"), list(facts.items()))


def terminal_columns(stream: IO[str]) -> int | None:
    """The width of the terminal; None if there is none."""
    return max(20, shutil.get_terminal_size((80, 24)).columns) if stream.isatty() else None


def folded(line: str, limit: int | None) -> list[str]:
    """A line in parts of at most `limit` columns."""
    if limit is None or len(line) <= limit:
        return [line]
    inside = len(line) - len(line.lstrip())
    indent = " " * min(inside + 2, limit // 2)
    return textwrap.wrap(line, limit, subsequent_indent=indent, drop_whitespace=True, break_on_hyphens=False)


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]], limit: int | None) -> Iterator[str]:
    """The lines of a table."""
    table = [[" ".join(cell.split()) for cell in row] for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    widths = widths if limit is None else fitted(widths, limit - len(GAP) * (len(widths) - 1))
    for row in table:
        cells = [cut(cell, width) for cell, width in zip(row[:-1], widths, strict=False)]
        first, *more = textwrap.wrap(row[-1], widths[-1], break_on_hyphens=False) or [""]
        yield GAP.join([*(f"{c:{w}}" for c, w in zip(cells, widths, strict=False)), first]).rstrip()
        before = sum(widths[:-1]) + len(GAP) * len(cells)
        yield from (" " * before + line for line in more)


def fitted(widths: Sequence[int], room: int) -> list[int]:
    """Widths that sum to at most `room`: the widest columns shrink first.

    >>> fitted([4, 30, 60], 60)
    [4, 28, 28]
    """
    out = list(widths)
    while sum(out) > room and max(out) > LEAST:
        widest = max(out)
        out[out.index(widest)] -= 1
    return out


def cut(text: str, width: int) -> str:
    """A text with its middle omitted if it is too wide: both ends distinguish names."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"
