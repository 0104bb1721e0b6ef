"""Digests of kernels as sorted lines, one for each network and machine, so that two concurrent changes seldom
rewrite the same line.

    contractions/product_1x4096x4096 avx2 1 kernel loops 2a55ab0a2d llvm 5bd8ea94e1
    families/gather_1 neon none AR901

Loops are those of the loop language; two lines with equal loops have the same kernels with different LLVM
text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

DIGITS: Final = 10
SHOWN: Final = 20  # networks that a message names
_LINE: Final = re.compile(
    r"(?P<network>\S+) (?P<machine>\S+) (?:(?P<count>\d+) kernels? loops (?P<loops>\S+) llvm (?P<llvm>\S+)"
    r"|none (?P<refused>\S+))"
)


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """The result of a network for a machine: the number of kernels and two digests, or an error."""

    network: str
    machine: str
    count: int = 0
    loops: str = ""
    llvm: str = ""
    refused: str = ""

    def __str__(self) -> str:
        if self.refused:
            return f"{self.network} {self.machine} none {self.refused}"
        kernels = "kernel" if self.count == 1 else "kernels"
        return f"{self.network} {self.machine} {self.count} {kernels} loops {self.loops} llvm {self.llvm}"

    @property
    def key(self) -> tuple[str, str]:
        """The network and the machine."""
        return self.network, self.machine


def digest(texts: Iterable[str]) -> str:
    """The digest of texts in their order."""
    hashed = sha256()
    for text in texts:
        hashed.update(text.encode())
        hashed.update(b"\0")
    return hashed.hexdigest()[:DIGITS]


def read(text: str, where: str) -> dict[tuple[str, str], Row]:
    """The rows of lines; raises SystemExit for an invalid line, as a merge may leave."""
    rows = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise SystemExit(
                f"{where}, line {number}: got {line!r}, wanted a network's digests; renew the file"
            )
        cells = match.groupdict(default="")
        row = Row(**{**cells, "count": int(cells["count"] or 0)})
        rows[row.key] = row
    return rows


def write(path: Path, rows: Iterable[Row]) -> None:
    """Rewrite the file."""
    path.write_text("".join(f"{row}\n" for row in sorted(rows)))


def difference(old: Row | None, new: Row | None) -> str:
    """A short description of the change; "" if there is none."""
    if old == new:
        return ""
    if old is None or new is None:
        return "has no line yet" if old is None else "is no longer lowered"
    if old.refused or new.refused:
        return f"was {_outcome(old)}, is {_outcome(new)}"
    if old.count != new.count:
        return f"{old.count} kernels became {new.count}"
    return "loops" if old.loops != new.loops else "LLVM text, of the same loops"


def _outcome(row: Row) -> str:
    return f"refused ({row.refused})" if row.refused else "lowered"


def changes(old: Mapping[tuple[str, str], Row], new: Mapping[tuple[str, str], Row]) -> list[str]:
    """A line for each network whose rows differ: the change, and the machines."""
    results: dict[str, dict[str, list[str]]] = {}
    for network, machine in sorted({*old, *new}):
        change = difference(old.get((network, machine)), new.get((network, machine)))
        if change:
            results.setdefault(network, {}).setdefault(change, []).append(machine)
    return [
        f"{network}: " + "; ".join(f"{change} ({', '.join(on)})" for change, on in what.items())
        for network, what in results.items()
    ]


def summary(lines: Sequence[str]) -> str:
    """The lines of `changes`; if there are very many, the first ones, with the number in each family."""
    families = Counter(line.partition("/")[0] for line in lines)
    more = [f"  … and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    head = ", ".join(f"{n} of {family}" for family, n in families.items())
    return "\n".join(
        [f"{len(lines)} networks have other kernels: {head}", *(f"  {x}" for x in lines[:SHOWN]), *more]
    )
