"""Names that users chose, formatted for lines of text."""

from __future__ import annotations


def in_line(name: str) -> str:
    r"""The name with invisible characters escaped, and in quotes if nothing is visible.

    >>> print(in_line("größe\n"), in_line(" "))
    größe\n ' '
    """
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
    return shown if shown.strip() else repr(shown)
