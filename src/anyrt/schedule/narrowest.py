"""The value to store for a contraction whose results are read elsewhere: not its sums, but the narrowest
value computed from them element by element.

    sums: int32  →  numbers: float32  →  codes: int8  →  numbers again: float32        the codes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from anyrt.core.dtype import bits
from anyrt.ir.compute import Contracted, Elements
from anyrt.ir.graph import Value


@dataclass(slots=True)
class _Chain:
    """The values computed from a contraction element by element. `through`: the value that all later ones
    depend on; `last`: the position up to which any of them is read."""

    through: list[Value]
    last: float = -inf


def narrowest(order: Sequence[Value], users: Mapping[Value, Sequence[Value]]) -> dict[Value, Value]:
    """For each value computed from a contraction element by element: the last of the narrowest values that
    all of them depend on, from that one on, if it is narrower than the contraction. `order`: producers
    first."""
    place = {v: k for k, v in enumerate(order)}
    chains = _chains(place, users)
    least = {v: min(c.through, key=lambda u: (bits(u.dtype), -place[u])) for v, c in chains.items()}
    narrower = {v for v, c in chains.items() if bits(least[v].dtype) < bits(c.through[0].dtype)}
    return {v: u for v, u in least.items() if v in narrower and place[u] <= place[v]}


def _chains(place: Mapping[Value, int], users: Mapping[Value, Sequence[Value]]) -> dict[Value, _Chain]:
    """The values computed from a contraction, with their chains, producers first."""
    chains: dict[Value, _Chain] = {}
    for value, at in place.items():
        chain = _Chain([]) if isinstance(value.compute, Contracted) else _before(value, chains)
        if chain is not None:
            chains[value] = chain
            if chain.last <= at:
                chain.through.append(value)
            chain.last = max([chain.last, *(place[u] for u in users[value])])
    return chains


def _before(value: Value, chains: Mapping[Value, _Chain]) -> _Chain | None:
    """The one contraction that a value is computed from; None if others read values between."""
    read = [a for a in value.args if a in chains]
    sources = {id(chains[a]): chains[a] for a in read}
    how = value.compute
    alone = isinstance(how, Elements) and how.same and all(a.shape == value.shape for a in read)
    if alone and len(sources) == 1:
        return next(iter(sources.values()))
    for chain in sources.values():
        chain.last = inf
    return None
