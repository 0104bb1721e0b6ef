"""All cases, by family."""

from __future__ import annotations

from benchmarks.families import (
    codes,
    control,
    counted,
    experts,
    fills,
    gathers,
    ranks,
    resizes,
    samples,
    scatters,
    selects,
    sums,
)
from benchmarks.families.case import Case

ALL: tuple[Case, ...] = tuple(
    case
    for family in (
        *(gathers, scatters, selects, ranks, sums, samples, fills, codes, control, counted, experts, resizes),
    )
    for case in family.cases()
)
