"""Steps of a strategy, what they may ask, and the strategies of a target.

`Builder.naive` (schedule/naive.py) names the kind of each kernel: "map", "reduction", "contraction" (sums of
products), "stencil" (rows that taps read again), "update" (what is there already), "extern" (statements of a
primitive's own), "mend" (what has to be looked at). A target has a strategy for some kinds, as a list of
steps; a kernel of another kind stays as it is, in serial loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from anyrt.core.dims import Sym
from anyrt.core.machine import Machine
from anyrt.ir.buffer import BITS, Buffer
from anyrt.ir.graph import Value
from anyrt.ir.kernel import Kernel
from anyrt.ir.rewrite import Fail
from anyrt.loops.nest import Names
from anyrt.schedule.cost import Sizes
from anyrt.schedule.elements import FusionFailure
from anyrt.schedule.nontemporal import NOT_PAST, Past
from anyrt.schedule.pieces import Pieces
from anyrt.schedule.tables import Tables
from anyrt.schedule.tuning import MODEL, Tuning

Result: TypeAlias = Kernel | Fail | FusionFailure


@dataclass(frozen=True, slots=True)
class Trace:
    """A kernel after a step, or why the step did not apply."""

    step: str
    result: Result


@dataclass(frozen=True, slots=True)
class Context:
    """What steps ask besides the kernel: fresh names, the tables of taps, sizes, the machine, and how
    large pieces are on it.
    `volume`: elements of the result. `repeated`: what every tile would compute again; `folded`: the value of
    each register; both for refusals. `past`: outputs that may be written past the caches. `trace` gets what
    each step did, `chosen` what one has decided for those behind it, by the name of the strategy."""

    names: Names
    tables: Tables
    sizes: Sizes
    machine: Machine
    pieces: Pieces
    volume: int
    repeated: Callable[[], Value | None]
    folded: Mapping[Buffer, Value]
    past: Mapping[Buffer, Past]
    trace: list[Trace] = field(default_factory=list)
    chosen: dict[str, object] = field(default_factory=dict)

    def estimate(self, var: Sym) -> int:
        """Turns of a loop, at least one."""
        return self.sizes.turns(var)

    def bytes(self, buffer: Buffer) -> int:
        """Bytes of a buffer, roughly."""
        return self.sizes.of(buffer.entries) * BITS[buffer.stored] // 8

    def past_of(self, buffer: Buffer) -> Past:
        """When a buffer is written past the caches."""
        return self.past.get(buffer, NOT_PAST)

    def stored_first(self, value: Value, why: str) -> FusionFailure:
        """What a step gives where a value needs a buffer before."""
        return FusionFailure(value, why)


Apply: TypeAlias = Callable[[Kernel, Context], Result]


@dataclass(frozen=True, slots=True)
class Step:
    """A transformation with its parameters chosen; a FusionFailure is a value that needs a buffer first."""

    name: str
    apply: Apply


Strategy: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Strategies:
    """A strategy for each kind of kernel that a target makes in its own way, and how to cut pieces where
    nothing was measured. `choice`: the kind to take for a kernel of another one.

    Plans and caches know steps by name: one that does something else has another name.
    """

    lists: Mapping[str, Strategy]
    choice: Callable[[str, Kernel, Machine], str] = lambda kind, kernel, machine: kind
    tuning: Tuning = MODEL
    left_out: frozenset[str] = frozenset()  # names of steps

    def __str__(self) -> str:
        texts = [f"{kind}: {', '.join(s.name for s in steps)}" for kind, steps in self.lists.items()]
        return "; ".join([*texts, f"pieces: {self.tuning}"])

    def of(self, kind: str) -> Strategy:
        """The strategy for kernels of a kind."""
        return self.lists.get(kind, ())

    def without(self, *names: str) -> Strategies:
        """The lists without the steps of these names."""
        unknown = set(names) - self.names - self.left_out
        assert not unknown, f"no step is called {', '.join(sorted(unknown))}"
        edited = self._edited(lambda strategy: tuple(s for s in strategy if s.name not in names))
        return replace(edited, left_out=self.left_out.union(names))

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
        return replace(self, lists={kind: edit(steps) for kind, steps in self.lists.items()})


def carry_out(strategy: Strategy, kernel: Kernel, context: Context) -> Kernel | FusionFailure:
    """The kernel after all steps that apply."""
    context.trace.append(Trace("serial loops", kernel))
    for step in strategy:
        result = step.apply(kernel, context)
        context.trace.append(Trace(step.name, result))
        if isinstance(result, FusionFailure):
            return result
        kernel = kernel if isinstance(result, Fail) else result
    return kernel
