"""Single layers, each case with its functions for every program."""

from __future__ import annotations

from benchmarks.families.case import inputs, wanted
from benchmarks.families.cases import ALL
from benchmarks.families.reference import distance
from benchmarks.language import Language

LANGUAGE = Language(
    {c.name: c for c in ALL},
    given=inputs,
    exact=wanted,
    outputs=lambda case, exact: exact,
    distance=distance,
)
