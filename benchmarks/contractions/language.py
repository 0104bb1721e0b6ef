"""Forms and whole networks in calls."""

from __future__ import annotations

from benchmarks.contractions import reference
from benchmarks.contractions.cases import ALL
from benchmarks.contractions.describe import values_of
from benchmarks.contractions.forms import inputs, result
from benchmarks.language import Language
from benchmarks.values import like

LANGUAGE = Language(
    {c.name: c for c in ALL},
    given=values_of,
    exact=lambda case, given: (reference.run(case, given),),
    outputs=lambda case, exact: (like(result(case)),),
    empty=lambda case: {name: like(tensor) for name, tensor in inputs(case).items()},
    distance=lambda case, exact, got: reference.error(case, *exact, *got),
)
