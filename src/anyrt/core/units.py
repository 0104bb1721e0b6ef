"""Sizes and counts formatted for users."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def byte_count(n: int) -> str:
    """A number of bytes as text.

    >>> byte_count(3 << 20)
    '3.0 MiB'
    """
    if n < 1024:
        return f"{n} B"
    units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
    size, unit = next((s, u) for s, u in units if n >= s)
    return f"{n / size:.1f} {unit}"


def bytes_of(text: str) -> int | None:
    """The number of bytes in a text such as `byte_count` returns; None if it is invalid.

    >>> bytes_of("512M"), bytes_of("2 GiB"), bytes_of("1.5G"), bytes_of("100"), bytes_of("much")
    (536870912, 2147483648, 1610612736, 100, None)
    """
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?) ?([KMG]?)(?:iB|B)?", text.strip(), re.I | re.A)
    return int(float(match[1]) * _UNITS[match[2].upper()]) if match else None


def counted(n: int, one: str, many: str = "") -> str:
    """A count as text; `many`: the plural, if it is not formed with s.

    >>> counted(1, "entry", "entries"), counted(0, "entry", "entries"), counted(2, "layer")
    ('1 entry', '0 entries', '2 layers')
    """
    return f"{n} {one if n == 1 else many or f'{one}s'}"


def percent(part: int, whole: int) -> str:
    """A share as text.

    >>> percent(1, 3), percent(1, 1000), percent(0, 0)
    ('33 %', '< 1 %', '0 %')
    """
    share = 100 * part / whole if whole else 0.0
    return "< 1 %" if 0 < share < 1 else f"{share:.0f} %"
