"""Bounds of a sum of products, found by letting its atoms grow from their lowest values.

With h = 1 + a and w = 1 + b, the product h·w is 1 + a + b + a·b. Where a and b are at least -1, each of these
terms may be negative; as a function of the steps a + 1 and b + 1 it is their product, so at least 0:

>>> by_growth([((), 1), (("a",), 1), (("b",), 1), (("a", "b"), 1)], lambda atom: (-1, 99), (-9, 9999))
(0, 9999)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

A = TypeVar("A")
Term = tuple[tuple[A, ...], int]

# Longer products are left as they are: each atom doubles what is to be counted.
DEGREE = 4


def by_growth(
    terms: Sequence[Term[A]], of: Callable[[A], tuple[int, int]], bounds: tuple[int, int]
) -> tuple[int, int]:
    """`bounds` of a sum, or narrower ones; `of`: a function for the bounds of one atom."""
    degree = max(len(m) for m, _ in terms)
    if not (bounds[0] < 0 < bounds[1] and len(terms) > 2 and 1 < degree <= DEGREE):
        return bounds
    steps = _sums(part for term in terms for part in _in_steps(term, of))
    start = steps.pop((), 0)
    low = start if all(c >= 0 for c in steps.values()) else bounds[0]
    high = start if all(c <= 0 for c in steps.values()) else bounds[1]
    return max(low, bounds[0]), min(high, bounds[1])


def _in_steps(term: Term[A], of: Callable[[A], tuple[int, int]]) -> Iterable[Term[A]]:
    """A product as a sum of products of steps above the lowest values."""
    parts: dict[tuple[A, ...], int] = {(): term[1]}
    for atom in term[0]:
        low = of(atom)[0]
        at_lowest = [(m, c * low) for m, c in parts.items()]
        parts = _sums([*at_lowest, *(((*m, atom), c) for m, c in parts.items())])
    return parts.items()


def _sums(terms: Iterable[Term[A]]) -> dict[tuple[A, ...], int]:
    sums: dict[tuple[A, ...], int] = {}
    for m, c in terms:
        sums[m] = sums.get(m, 0) + c
    return sums
