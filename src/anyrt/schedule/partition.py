"""Which values get a buffer, and which are computed inside the kernels that use them: decided by price,
before any kernel is made.

A value needs a buffer when it is an output, or when computing it again wherever it is read costs more than
storing it and loading it back. What it costs depends on what is stored before it; how often it is read
depends on what is stored behind it. So both are counted for a guess, which is made again from the counts
until it stays the same.

A reader is a loop: a kernel's own, that of a fold inside a kernel, or that of taps. Folds count where what
they read has been folded already: what lies in a row is cheap to read twice, but every norm after a norm
would compute the one before it again for each of its own folds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from anyrt.core.dims import always_le, mul
from anyrt.core.machine import Machine
from anyrt.ir.compute import Elements, Folded, Given, Pieced, Tapped
from anyrt.ir.graph import Graph, Value, users, walk
from anyrt.prims.view import is_turned
from anyrt.schedule.cost import Sizes, heavy, size, weight

CHAIN = 160  # instructions: longer chains are cut, so that kernels stay readable and compile fast
DEPTH = 48  # values inlined into one another
ROUNDS = 6  # guesses: two or three are needed
MANY = 16  # readers are not counted beyond

Reader = tuple[Value, Value]  # what a kernel or taps make, and the fold inside it, or again the same


@dataclass(frozen=True, slots=True)
class Stored:
    """A value with a buffer, and why."""

    value: Value
    reason: str


def partition(graph: Graph, sizes: Sizes, alone: frozenset[Value], machine: Machine) -> tuple[Stored, ...]:
    """What is stored besides inputs, outputs and constants, producers first."""
    return tuple(
        Stored(v, reason) for v, reason in _Partition(graph, sizes, alone, machine).decided().items()
    )


@dataclass(slots=True)
class _Partition:
    graph: Graph
    sizes: Sizes
    alone: frozenset[Value]
    machine: Machine
    order: list[Value] = field(default_factory=list)
    given: frozenset[Value] = frozenset()
    users: Mapping[Value, Sequence[Value]] = field(default_factory=dict)

    def decided(self) -> dict[Value, str]:
        """The guess that gives itself."""
        self.order = list(walk(v for _, v in self.graph.outputs))
        leaves = (v for v in self.order if _is_stored(v))
        self.given = frozenset((*leaves, *(v for _, v in self.graph.outputs)))
        self.users = users(self.graph)
        guess: dict[Value, str] = {}
        for _ in range(ROUNDS):
            readers = self._readers(guess)
            found = self._choose(readers)
            if found.keys() == guess.keys():
                break
            guess = found
        return guess

    def _readers(self, stored: Mapping[Value, str]) -> dict[Value, frozenset[Reader]]:
        """The loops that would compute each value, if it were not stored but all of `stored` were."""
        found: dict[Value, frozenset[Reader]] = {}
        for value in reversed(self.order):
            readers: set[Reader] = set()
            for user in self.users[value]:
                readers.update(self._through(value, user, stored, found))
                if len(readers) > MANY:
                    break
            found[value] = frozenset(readers)
        return found

    def _through(
        self,
        value: Value,
        user: Value,
        stored: Mapping[Value, str],
        found: Mapping[Value, frozenset[Reader]],
    ) -> Iterator[Reader]:
        """The loops that read `value` for the sake of `user`."""
        match user.compute:
            case Pieced():  # each part is written by its own loops
                yield value, value
            case _ if user in stored or user in self.given:
                yield user, user
            case Tapped():
                yield user, user
            case Folded():
                yield from ((kernel, user) for kernel, _ in found[user])
            case _:
                yield from found[user]

    def _choose(self, readers: Mapping[Value, frozenset[Reader]]) -> dict[Value, str]:
        """What to store for these readers, producers first."""
        chosen: dict[Value, str] = {}
        chains = _Chains(self.given, chosen)
        for value in self.order:
            if value in self.alone and not isinstance(value.compute, Given):
                chosen.setdefault(value, "fusing is switched off for it")
            elif value not in self.given and not isinstance(value.compute, Given):
                chains.add(value)
                reason = None if isinstance(value.compute, Folded) else self._reason(value, readers, chains)
                if reason is not None:
                    chosen[value] = reason
        return {v: r for v, r in chosen.items() if v not in self.given}

    def _goes_on(self, value: Value, readers: Mapping[Value, frozenset[Reader]]) -> bool:
        """True when all readers of a value read one made from it, which is no larger: if one of them is worth
        storing, then that one."""
        return any(
            not isinstance(u.compute, Folded | Tapped | Pieced)
            and u not in self.given
            and readers[u] == readers[value]
            and self.sizes.volume(u) <= self.sizes.volume(value)
            for u in self.users[value]
        )

    def _reason(
        self, value: Value, readers: Mapping[Value, frozenset[Reader]], chains: _Chains
    ) -> str | None:
        """Why to store a value, None where computing it again is cheaper."""
        uses, cost, depth = self.users[value], weight(value, chains, self.machine), chains.depth[value]
        move, dear = self.machine.costs.move, heavy(self.machine)
        own = frozenset[Reader]() if self._goes_on(value, readers) else readers[value]
        kernels = len({kernel for kernel, _ in own})
        if isinstance(value.compute, Pieced):
            return "its parts are written by loops of their own"
        if is_turned(value) and all(_reads_rows_again(u) for u in uses):
            return "it is transposed, and what reads it reads rows of it several times"
        if depth > 1 and size(value, chains, self.machine) > CHAIN:
            return f"computing it takes more than {CHAIN} instructions an element"
        if depth > DEPTH:
            return f"{DEPTH} values are computed inside one another already"
        if kernels > 1 and cost * (kernels - 1) > 4 * move + dear:
            return f"{kernels} kernels would each spend {cost} instructions on it"
        if value in chains.folded and not self._spreads(value):
            anew = weight(value, _More(chains, readers, len(own)), self.machine)
            if anew * (len(own) - 1) > move + 2:
                return f"{len(own)} loops over folded rows would each spend {anew} instructions on it"
        if cost >= dear and any(_repeats(value, u) for u in uses):
            return f"it is repeated, and costs {cost} instructions each time"
        return next((r for u in uses if (r := self._tapped_again(value, u, cost, chains))), None)

    def _spreads(self, value: Value) -> bool:
        """True for what is computed once for many elements of all that reads it, as a row's mean is."""
        most = max((self.sizes.volume(u) for u in self.users[value]), default=0)
        return most > 4 * self.sizes.volume(value)

    def _tapped_again(self, value: Value, user: Value, cost: int, chains: _Chains) -> str | None:
        """Taps of taps along the same axis: those below would run again for each of those above."""
        taps = user.compute
        if not isinstance(taps, Tapped) or taps.axis not in chains.tapped[value]:
            return None
        count, reads = taps.rule.count, self.sizes.volume(user)
        once = self.sizes.volume(value) * (cost + self.machine.costs.move) + reads * count
        again = reads * count * cost
        if again <= once:
            return None
        return f"taps along axis {taps.axis} would compute it {count} times, which has such taps itself"


@dataclass(slots=True)
class _Chains:
    """What leads to each value from the last one stored: how many values deep, along which axes it was
    tapped, and whether it was folded. As a container: what is stored."""

    given: frozenset[Value]
    chosen: Mapping[Value, str]
    depth: dict[Value, int] = field(default_factory=dict)
    tapped: dict[Value, frozenset[int]] = field(default_factory=dict)
    folded: set[Value] = field(default_factory=set)

    def __contains__(self, value: object) -> bool:
        return value in self.given or value in self.chosen

    def add(self, value: Value) -> None:
        """Learn of a value whose operands are known."""
        below = [a for a in value.args if a not in self and not isinstance(a.compute, Given)]
        self.depth[value] = 1 + max((self.depth[a] for a in below), default=0)
        axes = frozenset[int]().union(*(self.tapped[a] for a in below))
        how = value.compute
        if isinstance(how, Tapped):
            axes |= {how.axis}
        elif axes and not (isinstance(how, Elements) and how.same):
            axes = frozenset(range(value.type.rank))  # other places, other axes
        self.tapped[value] = axes
        if isinstance(how, Folded) or any(a in self.folded for a in below):
            self.folded.add(value)


@dataclass(frozen=True, slots=True)
class _More:
    """What is stored, and what has more readers than `count`: storing that would help more."""

    chains: _Chains
    readers: Mapping[Value, frozenset[Reader]]
    count: int

    def __contains__(self, value: object) -> bool:
        return value in self.chains or len(self.readers.get(value, ())) > self.count  # type: ignore[call-overload]  # `object`, as containers ask


def _is_stored(value: Value) -> bool:
    how = value.compute
    return isinstance(how, Given) and how.literal is None


def _reads_rows_again(user: Value) -> bool:
    """Taps along an outer axis that surely make at least half as many rows again as they read."""
    how = user.compute
    if not isinstance(how, Tapped) or how.axis == user.type.rank - 1:
        return False
    return always_le(mul(user.args[0].shape[how.axis], 3), mul(how.size, 2))


def _repeats(value: Value, user: Value) -> bool:
    """True when a broadcasting user reads the same elements again in an outer loop."""
    how = user.compute
    if not isinstance(how, Elements) or not how.same or len(user.shape) != len(value.shape):
        return False
    wide = [k for k, (a, b) in enumerate(zip(value.shape, user.shape, strict=True)) if a == 1 and b != 1]
    return any(any(d != 1 for d in value.shape[k + 1 :]) for k in wide)
