"""Numbers for people: sizes, and how many there are of something."""

from __future__ import annotations


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


def counted(n: int, one: str, many: str = "") -> str:
    """A number of things for people; `many`: of those that end in more than an s.

    >>> counted(1, "entry", "entries"), counted(0, "entry", "entries"), counted(2, "layer")
    ('1 entry', '0 entries', '2 layers')
    """
    return f"{n} {one if n == 1 else many or f'{one}s'}"


def percent(part: int, whole: int) -> str:
    """A share for people.

    >>> percent(1, 3), percent(1, 1000), percent(0, 0)
    ('33 %', '< 1 %', '0 %')
    """
    share = 100 * part / whole if whole else 0.0
    return "< 1 %" if 0 < share < 1 else f"{share:.0f} %"
