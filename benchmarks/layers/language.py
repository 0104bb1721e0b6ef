"""Chains of steps, for layers and what becomes one kernel with them."""

from __future__ import annotations

from benchmarks.language import Language
from benchmarks.layers import reference
from benchmarks.layers.cases import ALL
from benchmarks.steps import types
from benchmarks.values import input_values, like

LANGUAGE = Language(
    {c.name: c for c in ALL},
    given=lambda case: {"x": input_values(case.input, case.low, case.high)},
    exact=lambda case, given: (reference.run(case, given["x"]),),
    outputs=lambda case, exact: (like(types(case.steps, case.input)[-1]),),
    empty=lambda case: {"x": like(case.input)},
    distance=lambda case, exact, got: reference.error(case, *exact, *got),
)
