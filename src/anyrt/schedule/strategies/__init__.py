"""How kernels are made: strategies, each a readable list of transformations (loops/).

A group's kernel begins with serial loops (schedule/naive.py). What it holds decides about its strategy:
rows that taps read again (stencil), folds (reduction), or neither (map). Each step is tried on what the
steps before have left; where it does not apply it says why, and the next one is tried. A step is switched
off by leaving it out of the list: `STRATEGIES.without("tile")`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from anyrt.schedule.strategies.map import MAP
from anyrt.schedule.strategies.reduction import REDUCTION
from anyrt.schedule.strategies.stencil import STENCIL
from anyrt.schedule.strategies.step import Strategy


@dataclass(frozen=True, slots=True)
class Strategies:
    """The list for each kind of kernel."""

    map: Strategy = MAP
    reduction: Strategy = REDUCTION
    stencil: Strategy = STENCIL

    def without(self, *names: str) -> Strategies:
        """The lists without the steps of these names."""
        known = {step.name for f in fields(self) for step in getattr(self, f.name)}
        assert known.issuperset(names), f"no step is called {', '.join(sorted(set(names) - known))}"
        kept = {
            f.name: tuple(step for step in getattr(self, f.name) if step.name not in names)
            for f in fields(self)
        }
        return replace(self, **kept)


STRATEGIES = Strategies()
