"""How kernels are made: strategies, each a readable list of transformations (loops/).

A group's kernel begins with serial loops (schedule/naive.py). What it holds decides about its strategy:
rows that taps read again (stencil), sums of products (contraction), those of the windows of an image
(window), folds (reduction), what is there already (update), or has to be looked at (mend), statements of a
primitive's own (written), or neither (map). Each
step is tried on what the steps before have left; where it does not apply it says why, and the next one is
tried. A step is switched off by leaving it out of the list, `STRATEGIES.without("tile")`, and done otherwise
by another step in its place, `STRATEGIES.instead("cache read", Step("cache read for two loops", …))`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from anyrt.schedule.strategies.contraction import CONTRACTION
from anyrt.schedule.strategies.map import MAP
from anyrt.schedule.strategies.mend import MEND
from anyrt.schedule.strategies.reduction import REDUCTION
from anyrt.schedule.strategies.stencil import STENCIL
from anyrt.schedule.strategies.step import Step, Strategy
from anyrt.schedule.strategies.update import UPDATE
from anyrt.schedule.strategies.window import WINDOW
from anyrt.schedule.strategies.written import WRITTEN
from anyrt.schedule.tuning import MODEL, Tuning


@dataclass(frozen=True, slots=True)
class Strategies:
    """The list for each kind of kernel, and how to cut pieces where nothing was measured.

    Plans and caches know steps by name: one that does something else has another name.
    """

    map: Strategy = MAP
    reduction: Strategy = REDUCTION
    contraction: Strategy = CONTRACTION
    window: Strategy = WINDOW
    stencil: Strategy = STENCIL
    update: Strategy = UPDATE
    written: Strategy = WRITTEN
    mend: Strategy = MEND
    tuning: Tuning = MODEL

    def __str__(self) -> str:
        texts = [f"{kind}: {', '.join(s.name for s in steps)}" for kind, steps in self.lists.items()]
        return "; ".join([*texts, f"pieces: {self.tuning}"])

    @property
    def lists(self) -> dict[str, Strategy]:
        """The lists by the names of their fields."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "tuning"}

    def without(self, *names: str) -> Strategies:
        """The lists without the steps of these names."""
        unknown = set(names) - NAMES - self.names
        assert not unknown, f"no step is called {', '.join(sorted(unknown))}"
        return self._edited(lambda strategy: tuple(s for s in strategy if s.name not in names))

    def instead(self, name: str, step: Step) -> Strategies:
        """The lists with another step in the place of the one of this name."""
        assert name in self.names, f"no step is called {name}"
        assert step.name not in self.names, f"there is a step called {step.name}"
        return self._edited(lambda strategy: tuple(step if s.name == name else s for s in strategy))

    @property
    def names(self) -> frozenset[str]:
        """Of all steps."""
        return frozenset(step.name for steps in self.lists.values() for step in steps)

    def _edited(self, edit: Callable[[Strategy], Strategy]) -> Strategies:
        edited = {kind: edit(steps) for kind, steps in self.lists.items()}
        return replace(self, **edited)  # type: ignore[arg-type]  # fields that are lists have these names


STRATEGIES = Strategies()
NAMES = STRATEGIES.names
