"""A cover of an operator's cases: few of them, in which all pairs of traits occur that occur in any case.
Traits are types, ranks, empty operands, and kinds of attribute values.

telling(op)  # all cases with ANYRT_FUZZ=1
"""

from enum import Enum
from functools import cache
from itertools import combinations

import numpy as np

from anyrt.core.enums import DataType
from anyrt.prims.const import Blob
from tests.sampling import FUZZ

# All functions share the code that widens and narrows these types.
HALVES = {DataType.HALF: "half", DataType.BF16: "half"}


def kind(value):
    """A key that values of an attribute share if they need the same code."""
    match value:
        case bool() | Enum() | str() | None:
            return value
        case int() | float():
            return max(-1, min(value, 3)) if np.isfinite(value) and value == int(value) else "fraction"
        case tuple():
            return len(value), frozenset(map(kind, value))
        case Blob():
            return min(value.size, 2), value.dtype


def traits(op, case):
    yield "types", tuple(HALVES.get(t, t) for t in case.dtypes)
    yield "ranks", tuple(shape is not None and len(shape) for shape in case.shapes)
    yield "nothing", tuple(shape is not None and 0 in shape for shape in case.shapes)
    yield "int8", case.int8 is not None
    yield "values", bool(case.data)
    yield from ((s.name, kind(getattr(case.attrs, s.name))) for s in op.specs())


@cache
def telling(op):
    """The cases of an operator to run, in their order: a greedy cover of all pairs of traits."""
    cases = list(op.cases())
    if FUZZ:
        return cases
    pairs = [{case.dtypes, *combinations(traits(op, case), 2)} for case in cases]
    missing, chosen = set().union(*pairs), []
    while missing:
        best = max(range(len(cases)), key=lambda n: len(pairs[n] & missing))
        chosen.append(best)
        missing -= pairs[best]
    return [cases[n] for n in sorted(chosen)]
