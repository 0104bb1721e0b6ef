"""The input of the compiler: a frozen network with its profiles and settings.

`anyrt.compiler.driver.build_parts` returns the plan.

>>> request = BuildRequest("net", Graph((), (), {}, (Symbol(Sym("x.0"), "x", 0),)),
...                        profiles=((Range("x", False, (1,), (4,), (8,)),),))
>>> request.sizes(0, Point.MAX)
{'x.0': 8}
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from anyrt.core.counts import at_most
from anyrt.core.dims import Dim, Sym
from anyrt.core.dimvalues import evaluate
from anyrt.core.enums import DataType, ProfilingVerbosity, Severity
from anyrt.core.requirement import Requirement
from anyrt.ir.counted import sizes_of
from anyrt.ir.graph import Graph, Symbol
from anyrt.plan.plan import Binding, LayerRecord, Range
from anyrt.plan.pool import Threads
from anyrt.plan.refit import WeightsRecord
from anyrt.prims.const import Blob

if TYPE_CHECKING:  # describing a network does not import passes and scheduler
    from anyrt.passes import Pass
    from anyrt.schedule.step import Strategies

__all__ = ["BuildRequest", "Monitor", "Point", "Settings", "Sym", "Symbol", "Verify", "Winograd"]


class Verify(enum.Enum):
    """How thoroughly kernels are checked against the interpreter while building."""

    OFF = "off"
    SAMPLE = "sample"  # at the profile's minimum
    FULL = "full"  # at minimum, optimum and maximum


class Winograd(enum.Enum):
    """The Winograd tiles for sums over windows of 3 × 3 (passes/winograd.py)."""

    OFF = "off"
    F2 = "F(2,3)"  # 2 × 2 results, wherever they can
    F4 = "F(4,3)"  # 4 × 4 results
    AUTO = "auto"  # either, where it is less work

    @property
    def tiles(self) -> tuple[int, ...]:
        """Results of a tile along an axis."""
        return {Winograd.OFF: (), Winograd.F2: (2,), Winograd.F4: (4,), Winograd.AUTO: (4, 2)}[self]


@dataclass(frozen=True, slots=True)
class RefitKind:
    """`is_free`: weights may change, otherwise they must be those of the build; `is_stripped`: the plan has
    none."""

    is_free: bool = True
    is_stripped: bool = False


class Point(enum.IntEnum):
    """A corner of a range."""

    MIN, OPT, MAX = range(3)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a build.

    `memory_limit`: bytes of intermediate memory, None without limit. `num_threads`: None for the machine's
    number. `flags`: every BuilderFlag, as bits. `max_tactics`: maximum number of variants of a kernel to
    measure, below 0 for the level's default. `checked`: kernels check every access.
    """

    optimization_level: int = 3
    verify: Verify = Verify.OFF
    num_threads: int | None = None
    memory_limit: int | None = None
    verbosity: ProfilingVerbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
    flags: int = 0
    max_tactics: int = -1
    winograd: Winograd = Winograd.AUTO
    checked: bool = False


class Monitor(Protocol):
    """Receives the progress of a build; phases may contain phases."""

    def start(self, phase: str, parent: str | None, steps: int) -> None:
        """A phase of so many steps begins."""

    def step(self, phase: str, step: int) -> bool:
        """A step is done; False cancels the build with BuildCancelled (AR804)."""

    def finish(self, phase: str) -> None:
        """The phase has ended, finished or not."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand or result of a kernel; `shapes`: at the corners of the first profile."""

    dtype: DataType
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A kernel with several implementations, by the name of its layers."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An implementation of a kernel: the number of its strategy, and of its sizes of pieces in timing caches.
    `seconds`: its time, 0 if not measured; `scratch`: bytes of its scratch memory."""

    strategy: int
    tactic: int
    seconds: float
    scratch: int


class Selector(Protocol):
    """Selects the implementations of kernels."""

    def select(self, task: Asked, choices: Sequence[Algorithm]) -> Sequence[int]:
        """The choices that may be used, of which the fastest is; none: the default."""

    def report(self, tasks: Sequence[Asked], chosen: Sequence[Algorithm]) -> None:
        """The choices used for all kernels."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """All inputs of a build.

    `profiles`: for each profile, the shapes of every input and the values of every shape tensor. `bindings`:
    inputs, then outputs, as in the plan. `timings`: measurements by key, which a build may extend; `clock`
    measures kernels, in seconds, on the threads of `pool` (None: only the building thread). `selector`:
    selects the implementation of each kernel after measuring. `passes`: those of the graph, `strategies`:
    those of kernels, None for the default; a plan that is loaded without cached code gets default kernels.
    `aside`: outputs that do not affect the others, see passes/beside.py. `weights`: the names of refittable
    constants; `refit`: its kind, None for none. `needs`: conditions that inferences must check besides the
    graph's; `implied`: the values of symbols that these imply. `title`: the title of the model.
    """

    name: str
    graph: Graph
    profiles: tuple[tuple[Range, ...], ...] = ()
    settings: Settings = field(default_factory=Settings)
    bindings: tuple[Binding, ...] = ()
    layers: tuple[LayerRecord, ...] = ()
    monitor: Monitor | None = None
    cancelled: Callable[[], bool] = lambda: False
    log: Callable[[Severity, str], None] = lambda severity, text: None
    timings: MutableMapping[str, tuple[int, float]] = field(default_factory=dict)
    clock: Callable[[], float] = time.perf_counter
    pool: Callable[[], Threads] | None = None
    selector: Selector | None = None
    passes: Sequence[Pass] | None = None
    strategies: Strategies | None = None
    aside: frozenset[str] = frozenset()
    weights: tuple[tuple[Blob, WeightsRecord], ...] = ()
    refit: RefitKind | None = None
    needs: tuple[Requirement, ...] = ()
    implied: tuple[tuple[Sym, Dim], ...] = ()
    title: str = ""

    @property
    def shown(self) -> str:
        """Its name in messages."""
        return self.title or self.name

    def sizes(self, profile: int, point: Point) -> dict[str, int]:
        """The value of every size of the graph and its regions at one corner of a profile, or implied by
        that; the upper bounds of data-dependent ones."""
        ranges = self.profiles[profile] if self.profiles else ()
        corners = {(r.tensor, r.is_values): (r.min, r.opt, r.max)[point] for r in ranges}
        known = (s for s in self.graph.symbols if self.profiles and s.sym.most is None)
        sizes = {s.sym.name: corners[s.tensor, s.is_value][s.axis] for s in known}
        sizes |= {sym.name: evaluate(size, sizes) for sym, size in self.implied if sizes}
        return at_most(sizes, sizes_of(self.graph))
