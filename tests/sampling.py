"""What the everyday run of the tests leaves out: ANYRT_FUZZ=1 runs all of it, as `make long` does.

@pytest.mark.rare  # in a long run alone, as what it repeats is tried every day in another way

@pytest.mark.thirds  # in `make long` a third of its cases, which the date says (ANYRT_THIRD=0, 1 or 2)

@pytest.mark.sampled(5)  # a fifth of the cases of a test, or more: see `choose`
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)

for seed in range(tries(20)):  # 20 of them, ANYRT_FUZZ=2000 tries 2000
for case in sample(CASES, 8):  # an eighth

A sample is fair. Each value of a parameter keeps its share: of k cases that run as many have it as k times
its share among all cases, within a fifth, or rounded up or down (`fair`). Every pair of values of two
parameters occurs; a value that only one case has says which case it is, and makes no pairs. To take every
fifth case would not do: where a parameter has five values, in turn, that is always the same one.
"""

import os
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations, groupby
from random import Random
from typing import Any, Final, TypeVar
from zlib import crc32

import numpy as np
import pytest
from numpy.typing import NDArray

T = TypeVar("T")
Value = tuple[str, Hashable]
FAR: Final = 1 << 40  # what a pair counts for, beside which no share does
FUZZ: Final = int(os.environ.get("ANYRT_FUZZ", "0"))
THIRD: Final = os.environ.get("ANYRT_THIRD", "")
FOUND: Final = pytest.StashKey[list[pytest.Item]]()  # all tests that a run of pytest has collected


def tries(everyday: int) -> int:
    """How many random cases to try: in a long run as many as it asks for, and no fewer."""
    return max(FUZZ, everyday)


def sample(cases: Sequence[T], stride: int) -> Sequence[T]:
    """All cases in a long run, otherwise one of `stride`. The parameters of a tuple are its places."""
    if FUZZ:
        return cases
    places = [tuple(enumerate(case)) if isinstance(case, tuple) else () for case in cases]
    return [cases[n] for n in choose([[_value(str(at), it) for at, it in each] for each in places], stride)]


def waits(item: pytest.Item) -> bool:
    """Whether a case is for a long run of another day: which one follows from its name for good."""
    rotates = FUZZ and THIRD and item.get_closest_marker("thirds") is not None
    return bool(rotates and crc32(item.nodeid.encode()) % 3 != int(THIRD))


def everyday(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Of tests in the order of collection, those to run: no `rare` one, of each `sampled` one some cases."""
    often = [item for item in items if FUZZ or item.get_closest_marker("rare") is None]
    often = [item for item in often if not waits(item)]
    for _, cases in groupby(often, test_of):
        yield from _some(list(cases))


def test_of(item: Any) -> tuple[pytest.Collector, str]:
    """What all cases of one test have in common."""
    return item.parent, getattr(item, "originalname", None) or item.name


def _some(cases: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    mark = cases[0].get_closest_marker("sampled")
    if FUZZ or mark is None:
        return iter(cases)
    (stride,) = mark.args
    return (cases[n] for n in choose([values(case) for case in cases], stride))


def values(case: Any) -> list[Value]:
    """The values of the parameters of a case."""
    return [_value(name, value) for name, value in case.callspec.params.items()]


def _value(name: str, value: object) -> Value:
    """What equal values have in common; those that cannot be compared are equal where they are one object."""
    try:
        hash(value)
    except TypeError:
        return name, id(value)
    return name, (type(value), value)


def fair(count: int, expected: float) -> bool:
    """Whether so many cases are the share that a value should have. There are no fractions of cases."""
    return abs(count - expected) < 1 or abs(count - expected) <= 0.2 * expected


def choose(cases: Sequence[Sequence[Value]], stride: int) -> list[int]:
    """Which cases to run, by their values: at least one of `stride`, and a fair sample; always the same ones.

    One at a time, the case is taken that meets most pairs that are missing, and of these the one whose values
    are farthest behind their shares. Neighbours are alike, so the part of the list where a case is counts as
    a value.
    """
    counts = Counter(value for case in cases for value in case)
    shared = [[value for value in case if counts[value] > 1] for case in cases]
    order = Random(len(cases)).sample(range(len(cases)), len(cases))
    meets = _table([[*combinations(shared[n], 2), *((v, v) for v in shared[n])] for n in order])
    holds = _table([shared[n] for n in order])
    near = _table([[*shared[n], ("part", n // stride)] for n in order])
    missing, left, chosen = np.ones(meets.shape[1], np.int64), np.ones(len(cases), np.bool_), list[int]()

    def unfair() -> bool:
        had, all_had = holds[~left].sum(0), holds.sum(0)
        return not all(fair(n, len(chosen) * of / len(cases)) for n, of in zip(had, all_had, strict=True))

    while missing.any() or len(chosen) * stride < len(cases) or unfair():
        behind = (len(chosen) + 1) * near.sum(0) - near[~left].sum(0) * len(cases)
        gains = (meets @ missing) * FAR + near @ behind
        best = int(np.where(left, gains, gains.min() - 1).argmax())
        missing[meets[best] > 0] = 0
        left[best] = False
        chosen.append(order[best])
    return sorted(chosen)


def _table(rows: Sequence[Sequence[Hashable]]) -> NDArray[np.int64]:
    """A row for each case, with a 1 for everything that it has."""
    results = {thing: n for n, thing in enumerate(dict.fromkeys(thing for row in rows for thing in row))}
    table = np.zeros((len(rows), len(results)), np.int64)
    for n, row in enumerate(rows):
        table[n, [results[thing] for thing in row]] = 1
    return table
