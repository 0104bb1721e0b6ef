"""All cases, by family."""

from __future__ import annotations

from importlib import import_module

from benchmarks.families.case import Case

FAMILIES = (
    *("gathers", "scatters", "selects", "ranks", "sums", "samples", "fills", "codes", "control", "counted"),
    *("experts", "resizes"),
)
ALL: tuple[Case, ...] = tuple(
    case for name in FAMILIES for case in import_module(f"benchmarks.families.{name}").cases()
)
