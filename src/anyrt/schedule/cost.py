"""What things cost: instructions of an element, elements at the sizes that the profile calls optimal.

The unit is one vector instruction; what memory costs beside that the machine says (`Costs`).
The figures need to be right within a factor of two only: they decide between recomputing and remembering.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from anyrt.core.dims import Dim, Sym, product, symbols
from anyrt.core.dimvalues import evaluate, substitute
from anyrt.core.machine import Machine
from anyrt.ir.compute import Contracted, Elements, Folded, Given, Resampled
from anyrt.ir.graph import Value
from anyrt.schedule.positions import is_far, times

CAP = 1000  # a chain that costs more is cut anyway
ALONG = 2  # for each tap: a load in a row and an FMA


@dataclass(frozen=True, slots=True)
class Sizes:
    """Estimates: the value of every size symbol in the shape the engine should be best at, and of counters
    that have a usual one."""

    values: Mapping[str, int] = field(default_factory=dict)

    def of(self, dim: Dim) -> int:
        """An estimate of `dim`."""
        return evaluate(dim, self.values)

    def turns(self, var: Sym) -> int:
        """Turns of a loop, of a piece's loop for the first piece, where no number of it is given; at least
        one."""
        extent = var.extent or 0
        inner = {s: 0 for s in symbols(extent) if s.extent is not None and s.name not in self.values}
        return max(1, self.of(substitute(extent, inner)))

    def volume(self, value: Value) -> int:
        """Elements of `value`."""
        return self.of(product(value.shape))


def heavy(machine: Machine) -> int:
    """Instructions from which an operand of taps is kept rather than computed for each: storing it and
    loading it again, and a tap."""
    return machine.costs.move + ALONG


@dataclass(frozen=True, slots=True)
class Price:
    """What one element costs. `weight`: instructions; `size`: those that a kernel holds, each counted once;
    `is_far`: what it reads lies where it takes too long to find."""

    weight: int
    size: int
    is_far: bool


def price(value: Value, stored: Container[Value], machine: Machine) -> Price:
    """For one element of `value` when everything in `stored` is loaded and the rest computed anew; what
    several operands read at one position is computed once, what taps read once for each tap."""
    found = times(value, stored)
    made = [pair for there in found.values() for pair in there.items()]
    own = {v: _own(v, stored, machine) for v in dict(made)}
    weight, size = sum(own[v] * n for v, n in made), sum(own[v] for v, _ in made)
    return Price(min(CAP, weight), min(CAP, size), any(there and is_far(at) for at, there in found.items()))


def is_light(value: Value, stored: Container[Value], machine: Machine) -> bool:
    """True for what each tap may load or compute for itself."""
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
    """Instructions that the primitive itself adds to an element."""
    match value.compute:
        case Elements(cost=cost) if value.args:
            return cost(value.args[-1].dtype)
        case Resampled(rule=rule, axis=axis):
            return (ALONG if axis != value.type.rank - 1 else machine.costs.gather) * rule.count
        case _:
            return 0
