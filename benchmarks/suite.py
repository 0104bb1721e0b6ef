"""A table of cases by peers: the cases of a language, what limits them, and the document."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.language import Language
from benchmarks.peers import OF_ALL, Task
from benchmarks.record import Results
from benchmarks.steps import Element
from benchmarks.table import Page, Table


@dataclass(frozen=True, slots=True)
class Work:
    """What a case must do: bytes that it reads and writes, multiplications and additions of a type.

    known: the time of a plain C kernel, as a multiple of the limit.
    """

    read: int
    written: int
    flops: int = 0
    dtype: Element = Element.F32
    known: float | None = None

    @property
    def facts(self) -> dict[str, float]:
        """For results."""
        return {"read": float(self.read), "written": float(self.written), "flops": float(self.flops)}


@dataclass(frozen=True, slots=True)
class Suite:
    """A command of the command line.

    group: what a case belongs to, of `groups`. work: what limits it. unit: how an error is told. copies:
    whether memcpy is told beside the limit. least: whether the least times count, not medians. call, crowded:
    the case of which calls with arrays are measured, too, and those that also run beside a busy process.
    """

    command: str
    help: str
    language: Language
    groups: type[enum.Enum]
    group: Callable[[Any], enum.Enum]  # Any: a case of the language
    work: Callable[[Task], Work]
    tables: Callable[[Results], list[Table]]
    page: Page
    document: Path
    peers: tuple[str, ...] = OF_ALL
    unit: str = "{:.3g} ulp"
    copies: bool = False
    least: bool = False
    call: Any = None
    crowded: tuple[str, ...] = ()

    def has(self, results: Results) -> bool:
        """Whether results are of this table."""
        names = {g.value for g in self.groups}
        return any(r.layer in names for r in results.rows)

    def write(self, path: Path, results: Results) -> None:
        """Write the document."""
        self.page.write(path, self.tables(results), results.machine)
