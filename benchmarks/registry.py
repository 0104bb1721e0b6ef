"""All tables of cases by peers: the cases of a language, their peers, limits, tables and documents.

`python -m benchmarks ops`, `contractions` and `families`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.contractions import forms
from benchmarks.contractions import reference as contractions
from benchmarks.contractions import report as contraction_tables
from benchmarks.families import case as families_case
from benchmarks.families import reference as families
from benchmarks.families import report as family_tables
from benchmarks.language import Language
from benchmarks.layers import cases, report
from benchmarks.layers import reference as layers
from benchmarks.peers import NAMES, OF_ALL, Task
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


# A case of each layer, which also runs beside a busy process.
CROWDED = (
    "scale_c_8x64x112x112",
    "resize_bilinear_hp_8x64x56to112",
    "shuffle_nchw2nhwc_8x64x112x112",
    "norm_ln_8x512x768",
    "chain_preproc_1080p_rst",
)
LAYERS = Suite(
    "ops",
    "measure layers and chains of layers",
    layers.LANGUAGE,
    cases.Layer,
    group=lambda case: case.layer,
    work=lambda task: Work(*cases.traffic(task.case), known=task.case.known),
    tables=report.tables,
    page=report.PAGE,
    document=Path("docs/tables/layers.md"),
    peers=NAMES,
    copies=True,
    call=cases.TINY,
    crowded=CROWDED,
)
CONTRACTIONS = Suite(
    "contractions",
    "measure products, convolutions, attention",
    contractions.LANGUAGE,
    forms.Group,
    group=lambda case: case.group,
    work=lambda task: Work(*forms.traffic(task.case), task.case.form.flops, task.case.dtype),
    tables=contraction_tables.tables,
    page=contraction_tables.PAGE,
    document=Path("docs/tables/contractions.md"),
)
FAMILIES = Suite(
    "families",
    "measure gathers, scatters, top k, sums, samples, fills, codes and more",
    families.LANGUAGE,
    families_case.Family,
    group=lambda case: case.family,
    work=lambda task: Work(*families_case.traffic(task.case, task.inputs, task.outputs)),
    tables=family_tables.tables,
    page=family_tables.PAGE,
    document=Path("docs/tables/families.md"),
    unit="by {:.3g}",
    least=True,
)
SUITES = (LAYERS, CONTRACTIONS, FAMILIES)
