"""A table of cases by peers: the cases of a language, their limits, and the document."""

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
    """The least work of a case: bytes read and written, multiplications and additions of a type.

    known: the time of a plain C kernel, as a multiple of the limit.
    """

    read: int
    written: int
    flops: int = 0
    dtype: Element = Element.F32
    known: float | None = None

    @property
    def facts(self) -> dict[str, float]:
        """The work as facts of a row."""
        return {"read": float(self.read), "written": float(self.written), "flops": float(self.flops)}


@dataclass(frozen=True, slots=True)
class Suite:
    """A command that measures the cases of a language.

    group: the group of a case, one of `groups`. work: the least work of a task. unit: the format of an error.
    copies: whether memcpy is shown beside the limit. least: whether minima count instead of medians. call:
    the case whose calls with arrays are also measured. crowded: cases that also run beside a busy process.
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
        """Whether results belong to this table."""
        names = {g.value for g in self.groups}
        return any(r.layer in names for r in results.rows)

    def write(self, path: Path, results: Results) -> None:
        """Write the document."""
        self.page.write(path, self.tables(results), results.machine)
