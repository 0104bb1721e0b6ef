"""Of the cases of an operator those that tell: few in which all pairs of things meet that meet in any: types,
ranks, empty operands, kinds of values of attributes.

telling(op)  # with ANYRT_FUZZ=1 all cases
"""

from enum import Enum
from functools import cache
from itertools import combinations

import numpy as np

from anyrt.core.enums import DataType
from anyrt.prims.const import Blob
from tests.sampling import FUZZ

# What widens and narrows one of them is the same for all functions.
HALVES = {DataType.HALF: "half", DataType.BF16: "half"}


def kind(value):
    """What a value of an attribute has in common with others that need the same code."""
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
    """The cases of an operator to run, in their order: a cover of all pairs of traits, found greedily."""
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
