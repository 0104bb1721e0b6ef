"""How kernels are made: strategies, each a readable list of transformations (loops/).

A group's kernel begins with serial loops (schedule/naive.py). What it holds decides about its strategy:
rows that taps read again (stencil), folds (reduction), or neither (map). Each step is tried on what the
steps before have left; where it does not apply it says why, and the next one is tried. A step is switched
off by leaving it out of the list, `STRATEGIES.without("tile")`, and done otherwise by another step in its
place, `STRATEGIES.instead("cache read", Step("cache read for two loops", …))`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from anyrt.schedule.strategies.map import MAP
from anyrt.schedule.strategies.reduction import REDUCTION
from anyrt.schedule.strategies.stencil import STENCIL
from anyrt.schedule.strategies.step import Step, Strategy
from anyrt.schedule.tuning import MODEL, Tuning

NAMES = frozenset(step.name for step in (*MAP, *REDUCTION, *STENCIL))


@dataclass(frozen=True, slots=True)
class Strategies:
    """The list for each kind of kernel, and how to cut pieces where nothing was measured.

    Plans and caches know steps by name: one that does something else has another name.
    """

    map: Strategy = MAP
    reduction: Strategy = REDUCTION
    stencil: Strategy = STENCIL
    tuning: Tuning = MODEL

    def __str__(self) -> str:
        lists = (("map", self.map), ("reduction", self.reduction), ("stencil", self.stencil))
        texts = [f"{kind}: {', '.join(step.name for step in steps)}" for kind, steps in lists]
        return "; ".join([*texts, f"pieces: {self.tuning}"])

    def without(self, *names: str) -> Strategies:
        """The lists without the steps of these names."""
        unknown = set(names) - NAMES - self._names
        assert not unknown, f"no step is called {', '.join(sorted(unknown))}"
        return self._edited(lambda strategy: tuple(s for s in strategy if s.name not in names))

    def instead(self, name: str, step: Step) -> Strategies:
        """The lists with another step in the place of the one of this name."""
        assert name in self._names, f"no step is called {name}"
        assert step.name not in self._names, f"there is a step called {step.name}"
        return self._edited(lambda strategy: tuple(step if s.name == name else s for s in strategy))

    @property
    def _names(self) -> frozenset[str]:
        return frozenset(step.name for step in (*self.map, *self.reduction, *self.stencil))

    def _edited(self, edit: Callable[[Strategy], Strategy]) -> Strategies:
        return replace(self, map=edit(self.map), reduction=edit(self.reduction), stencil=edit(self.stencil))


STRATEGIES = Strategies()
