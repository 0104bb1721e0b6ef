"""Samples of the tests for the daily run. ANYRT_FUZZ=1 runs all cases, as `make long` does.

@pytest.mark.rare  # only in a long run, because daily tests cover the same by other means

@pytest.mark.thirds  # in `make long`, a third of its cases, by date (ANYRT_THIRD=0, 1 or 2)

@pytest.mark.sampled(5)  # a fifth of the cases of a test, or more: see `choose`
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)

for seed in range(tries(20)):  # 20 of them; ANYRT_FUZZ=2000 tries 2000
for case in sample(CASES, 8):  # an eighth

A sample is fair. Each value of a parameter keeps its share: among k selected cases, the number with this
value is k times its share of all cases, within a fifth, or rounded up or down (`fair`). Every pair of values
of two parameters occurs. A value that only one case has identifies the case and forms no pairs. Taking every
fifth case would not do: if a parameter cycles through five values, every fifth case has the same one.
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
FAR: Final = 1 << 40  # weight of a pair, larger than any share
FUZZ: Final = int(os.environ.get("ANYRT_FUZZ", "0"))
THIRD: Final = os.environ.get("ANYRT_THIRD", "")
COLLECTED: Final = pytest.StashKey[list[pytest.Item]]()  # all tests that pytest has collected


def tries(everyday: int) -> int:
    """How many random cases to try: at least `count`, and in a long run as many as ANYRT_FUZZ says."""
    return max(FUZZ, everyday)


def sample(cases: Sequence[T], stride: int) -> Sequence[T]:
    """All cases in a long run, otherwise one of `stride`. The items of a tuple are its parameters."""
    if FUZZ:
        return cases
    places = [tuple(enumerate(case)) if isinstance(case, tuple) else () for case in cases]
    return [cases[n] for n in choose([[_value(str(at), it) for at, it in each] for each in places], stride)]


def waits(item: pytest.Item) -> bool:
    """Whether a case waits for a long run of another day. Its name determines the day permanently."""
    rotates = FUZZ and THIRD and item.get_closest_marker("thirds") is not None
    return bool(rotates and crc32(item.nodeid.encode()) % 3 != int(THIRD))


def everyday(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """The tests to run, in the order of collection: no `rare` test, and some cases of each `sampled` test."""
    often = [item for item in items if FUZZ or item.get_closest_marker("rare") is None]
    often = [item for item in often if not waits(item)]
    for _, cases in groupby(often, test_of):
        yield from _some(list(cases))


def test_of(item: Any) -> tuple[pytest.Collector, str]:
    """The key that all cases of one test share."""
    return item.parent, getattr(item, "originalname", None) or item.name


def _some(cases: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    mark = cases[0].get_closest_marker("sampled")
    if FUZZ or mark is None:
        return iter(cases)
    (stride,) = mark.args
    return (cases[n] for n in choose([values(case) for case in cases], stride))


def values(case: Any) -> list[Value]:
    """The values of a case's parameters."""
    return [_value(name, value) for name, value in case.callspec.params.items()]


def _value(name: str, value: object) -> Value:
    """A key that equal values share; values that cannot be compared are equal if they are the same object."""
    try:
        hash(value)
    except TypeError:
        return name, id(value)
    return name, (type(value), value)


def fair(count: int, expected: float) -> bool:
    """Whether this number of cases is a fair share of a value. There are no fractions of cases."""
    return abs(count - expected) < 1 or abs(count - expected) <= 0.2 * expected


def choose(cases: Sequence[Sequence[Value]], stride: int) -> list[int]:
    """The cases to run, selected by their values: at least one of `stride`, and a fair sample; deterministic.

    Greedy selection: each step takes the case with the most missing pairs, and among these the one whose
    values are farthest behind their shares. Neighbouring cases are alike, so the section of the list that a
    case is in counts as a value.
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
    """A row for each case, with a 1 for each of its values and pairs."""
    results = {thing: n for n, thing in enumerate(dict.fromkeys(thing for row in rows for thing in row))}
    table = np.zeros((len(rows), len(results)), np.int64)
    for n, row in enumerate(rows):
        table[n, [results[thing] for thing in row]] = 1
    return table
