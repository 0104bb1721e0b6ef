"""What the everyday run of the tests leaves out: ANYRT_FUZZ=1 runs all of it, in an hour or two.

@pytest.mark.rare  # in a long run alone, as what it repeats is tried every day in another way

@pytest.mark.sampled(5)  # every fifth of the cases of a test, and what else it takes to meet every
@pytest.mark.parametrize("dtype", DTYPES)  # value of a parameter that several cases share
@pytest.mark.parametrize("shape", SHAPES)

for seed in range(tries(20)):  # 20 of them, ANYRT_FUZZ=2000 tries 2000
for case in sample(CASES, 8):  # every eighth
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, TypeVar

import pytest

T = TypeVar("T")
FUZZ: Final = int(os.environ.get("ANYRT_FUZZ", "0"))


def tries(everyday: int) -> int:
    """How many random cases to try: in a long run as many as it asks for, and no fewer."""
    return max(FUZZ, everyday)


def sample(cases: Sequence[T], stride: int) -> Sequence[T]:
    """All cases in a long run, otherwise every `stride`-th."""
    return cases if FUZZ else cases[::stride]


def everyday(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Of tests in the order of collection, those to run: no `rare` one, of each `sampled` one some cases."""
    often = [item for item in items if FUZZ or item.get_closest_marker("rare") is None]
    for _, cases in groupby(often, _test):
        yield from _some(list(cases))


def _test(item: Any) -> tuple[pytest.Collector, str]:
    """What all cases of one test have in common."""
    return item.parent, getattr(item, "originalname", None) or item.name


def _some(cases: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    mark = cases[0].get_closest_marker("sampled")
    if FUZZ or mark is None:
        return iter(cases)
    (stride,) = mark.args
    values = [_values(case) for case in cases]
    shared = {value for value, count in Counter(v for each in values for v in each).items() if count > 1}
    chosen = set(range(0, len(cases), stride))
    met = set().union(*(values[n] for n in chosen))
    while missing := shared - met:  # cases that differ in many values at once tell more than those in one
        best = max(range(len(cases)), key=lambda n: len(values[n] & missing))
        chosen.add(best)
        met |= values[best]
    return (cases[n] for n in sorted(chosen))


def _values(case: Any) -> set[tuple[str, int]]:
    """The values of the parameters of a case: cases that share one have the same object."""
    return {(name, id(value)) for name, value in case.callspec.params.items()}
