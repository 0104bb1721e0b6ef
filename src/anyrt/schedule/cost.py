"""Costs: instructions per element, and estimates of elements at the optimal sizes of the profile.

The unit is one vector instruction; the machine gives the relative cost of memory (`Costs`). The figures only
need to be right within a factor of two: they decide between recomputing and storing.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Set
from dataclasses import dataclass, field

from anyrt.core.dims import Dim, Sym, product, symbols
from anyrt.core.dimvalues import evaluate, substitute
from anyrt.core.machine import Machine
from anyrt.ir.compute import Contracted, Elements, Folded, Given, Resampled
from anyrt.ir.graph import Value
from anyrt.schedule.positions import Position, Reads, is_far, times

CAP = 1000  # a chain that costs more is cut anyway
ALONG = 2  # per tap: a contiguous load and an FMA


@dataclass(frozen=True, slots=True)
class Sizes:
    """Estimates: the value of every size symbol in the shape that the engine is optimized for, and of
    counters with a typical value."""

    values: Mapping[str, int] = field(default_factory=dict)

    def of(self, dim: Dim) -> int:
        """An estimate of `dim`."""
        return evaluate(dim, self.values)

    def turns(self, var: Sym) -> int:
        """Iterations of a loop; of the first piece for a piece's loop without a number; at least one."""
        extent = var.extent or 0
        inner = {s: 0 for s in symbols(extent) if s.extent is not None and s.name not in self.values}
        return max(1, self.of(substitute(extent, inner)))

    def volume(self, value: Value) -> int:
        """Elements of `value`."""
        return self.of(product(value.shape))


def heavy(machine: Machine) -> int:
    """The cost from which an operand of taps is kept instead of computed for each tap: storing it, loading it
    again, and a tap."""
    return machine.costs.move + ALONG


@dataclass(frozen=True, slots=True)
class Price:
    """The cost of one element. `weight`: instructions; `size`: distinct instructions in the kernel; `is_far`:
    its operand is found by a search that takes too long."""

    weight: int
    size: int
    is_far: bool


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of elements, each kept while the same values that lead to it are stored: successive guesses
    of the stored values differ little. `fixed`: the values that are stored in every guess."""

    fixed: Set[Value]
    machine: Machine
    reads: dict[Value, tuple[Position, Reads]] = field(default_factory=dict)
    known: dict[Value, tuple[Price, Set[Value], Set[Value]]] = field(default_factory=dict)

    def of(self, value: Value, chosen: Mapping[Value, object], stored: Container[Value]) -> Price:
        """See `price`; `stored` contains the values that are `fixed` or `chosen`."""
        kept = self.known.get(value)
        if kept is not None and chosen.keys() >= kept[1] and chosen.keys().isdisjoint(kept[2]):
            return kept[0]
        counts = times(value, stored, self.reads)
        read = {v for there in counts.values() for v in there} - self.fixed
        loaded = frozenset(v for v in read if v in chosen)
        self.known[value] = entry = _priced(counts, stored, self.machine), loaded, frozenset(read - loaded)
        return entry[0]


def price(value: Value, stored: Container[Value], machine: Machine) -> Price:
    """The cost of one element of `value` if everything in `stored` is loaded and the rest recomputed; shared
    operands at one position are computed once, operands of taps once per tap."""
    return _priced(times(value, stored, {}), stored, machine)


def _priced(
    counts: Mapping[Position, Mapping[Value, int]], stored: Container[Value], machine: Machine
) -> Price:
    weight = size = 0
    for v, n in (pair for there in counts.values() for pair in there.items()):
        own = _own(v, stored, machine)
        weight, size = weight + own * n, size + own
    return Price(min(CAP, weight), min(CAP, size), any(there and is_far(at) for at, there in counts.items()))


def is_light(value: Value, stored: Container[Value], machine: Machine) -> bool:
    """True for values that each tap may load or compute for itself."""
    return value in stored or weight(value, stored, machine) < heavy(machine)


def weight(value: Value, stored: Container[Value], machine: Machine) -> int:
    """Instructions for one element of `value`."""
    return price(value, stored, machine).weight


def _own(value: Value, stored: Container[Value], machine: Machine) -> int:
    """A load or an accumulator counts as one instruction."""
    if value in stored or isinstance(value.compute, Given | Folded | Contracted):
        return 1
    return op_weight(value, machine)


def op_weight(value: Value, machine: Machine) -> int:
    """Instructions of the primitive itself per element."""
    match value.compute:
        case Elements(cost=cost) if value.args:
            return cost(value.args[-1].dtype)
        case Resampled(rule=rule, axis=axis):
            return (ALONG if axis != value.type.rank - 1 else machine.costs.gather) * rule.count
        case _:
            return 0
