"""Names that users chose, as lines of text show them."""

from __future__ import annotations


def in_line(name: str) -> str:
    r"""The name with what is no visible character escaped, and in quotes if there is nothing to see.

    >>> print(in_line("größe\n"), in_line(" "))
    größe\n ' '
    """
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
    return shown if shown.strip() else repr(shown)
