"""What a build is asked for: everything the compiler takes from the API, as frozen values."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Protocol

from anyrt.ir.graph import Graph
from anyrt.plan.plan import LayerRecord, Range


class Verify(enum.Enum):
    """How much of the fused code is compared with the interpreter while building."""

    OFF = "off"
    SAMPLE = "sample"  # at the smallest shapes of each profile
    FULL = "full"      # at the smallest, the optimal and the largest


class Monitor(Protocol):
    """Whoever follows a build."""

    def start(self, phase: str, parent: str | None, steps: int) -> None:
        """A phase of `steps` steps begins."""

    def step(self, phase: str, step: int) -> None:
        """Step number `step` is done; raises BuildCancelled when the build shall end."""

    def finish(self, phase: str) -> None:
        """The phase is over."""


class Silent:
    """A monitor that does nothing."""

    def start(self, phase: str, parent: str | None, steps: int) -> None:
        """Nothing."""

    def step(self, phase: str, step: int) -> None:
        """Nothing."""

    def finish(self, phase: str) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What of the builder's configuration changes the result.

    `level`: optimisation level 0–5. `round_each_layer`: half types are rounded after every layer instead of where a value is
    stored. `memory_limit`: bytes of intermediate memory allowed, None for no limit. `detailed`: the inspector tells everything.
    """

    verify: Verify = Verify.OFF
    level: int = 3
    round_each_layer: bool = False
    memory_limit: int | None = None
    detailed: bool = False


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """A graph to compile. `shape_inputs`: inputs whose values decide sizes. `profiles`: for each profile the ranges of the
    dynamic inputs (empty when everything is static)."""

    graph: Graph
    name: str = ""
    profiles: tuple[tuple[Range, ...], ...] = ()
    shape_inputs: frozenset[str] = frozenset()
    settings: Settings = Settings()
    layers: tuple[LayerRecord, ...] = ()
    dim_names: tuple[tuple[str, tuple[str, ...]], ...] = ()
    monitor: Monitor = field(default_factory=Silent)
