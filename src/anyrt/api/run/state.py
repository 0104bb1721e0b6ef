"""The record of an engine, for contexts, refitters, inspectors and commands, which obtain it by
`state_of`."""

from __future__ import annotations

from dataclasses import dataclass

from anyrt.api.building.marks import Marks
from anyrt.plan.plan import Binding, Plan
from anyrt.runtime.engine import Engine
from anyrt.runtime.loaded import Loaded


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EngineState:
    """A loaded plan. `engine` executes it; `io`: its inputs and outputs."""

    engine: Engine
    plan: Plan
    marks: Marks
    io: tuple[Binding, ...]

    @property
    def loaded(self) -> Loaded:
        """The plan with its code, weights and threads."""
        return self.engine.loaded
