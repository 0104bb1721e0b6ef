"""What things cost: instructions of an element, elements at the sizes that the profile calls optimal.

The unit is one vector instruction; what memory costs beside that the machine says (`Costs`).
The figures need to be right within a factor of two only: they decide between recomputing and remembering.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from anyrt.core.dims import Dim, Sym, evaluate, product, substitute, symbols
from anyrt.core.machine import Machine
from anyrt.ir.compute import Elements, Folded, Given, Tapped
from anyrt.ir.graph import Value

CAP = 1000  # a chain that costs more is cut anyway
ALONG = 2  # for each tap: a load in a row and an FMA


@dataclass(frozen=True, slots=True)
class Sizes:
    """Estimates: the value of every size symbol in the shape the engine should be best at."""

    values: Mapping[str, int] = field(default_factory=dict)

    def of(self, dim: Dim) -> int:
        """An estimate of `dim`."""
        return evaluate(dim, self.values)

    def turns(self, var: Sym) -> int:
        """Turns of a loop, of a piece's loop for the first piece; at least one."""
        extent = var.extent or 0
        inner = {s: 0 for s in symbols(extent) if s.extent is not None}
        return max(1, self.of(substitute(extent, inner)))

    def volume(self, value: Value) -> int:
        """Elements of `value`."""
        return self.of(product(value.shape))


def heavy(machine: Machine) -> int:
    """Instructions from which an operand of taps is kept rather than computed for each: storing it and
    loading it again, and a tap."""
    return machine.costs.move + ALONG


def weight(value: Value, stored: Container[Value], machine: Machine) -> int:
    """Instructions for one element of `value` when everything in `stored` is loaded and the rest computed
    anew; what several operands share is computed once, what taps read once for each tap."""
    return min(CAP, sum(n * _own(v, stored, machine) for v, n in _times(value, stored).items()))


def size(value: Value, stored: Container[Value], machine: Machine) -> int:
    """Instructions that a kernel for `value` holds, each counted once."""
    return min(CAP, sum(_own(v, stored, machine) for v in _times(value, stored)))


def _times(value: Value, stored: Container[Value]) -> dict[Value, int]:
    """How often each value that goes into an element is computed or loaded."""
    times: dict[Value, int] = {}
    todo = [(value, 1)]
    while todo:
        v, n = todo.pop()
        if times.get(v, 0) >= n:
            continue
        times[v] = n
        if v not in stored and not isinstance(v.compute, Given | Folded):
            how = v.compute
            below = n * how.rule.count if isinstance(how, Tapped) else n
            todo += [(a, below) for a in v.args]
    return times


def _own(value: Value, stored: Container[Value], machine: Machine) -> int:
    """A load or an accumulator counts as one instruction."""
    return 1 if value in stored or isinstance(value.compute, Given | Folded) else op_weight(value, machine)


def op_weight(value: Value, machine: Machine) -> int:
    """Instructions that the primitive itself adds to an element."""
    match value.compute:
        case Elements(cost=cost) if value.args:
            return cost(value.args[-1].dtype)
        case Tapped(rule=rule, axis=axis):
            return (ALONG if axis != value.type.rank - 1 else machine.costs.gather) * rule.count
        case _:
            return 0
