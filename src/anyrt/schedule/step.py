"""The steps of a strategy, their context, and the strategies of a target.

`Builder.naive` (schedule/naive.py) names the kind of each kernel: "map", "reduction", "contraction" (sums of
products), "stencil" (rows that taps read again), "update" (in place), "extern" (statements of a primitive),
"mend" (rows with NaN are recomputed). A target has a strategy for some kinds, as a list of steps; a kernel of
another kind stays in serial loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

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

T = TypeVar("T")
Result: TypeAlias = Kernel | Fail | FusionFailure


@dataclass(frozen=True, slots=True)
class Trace:
    """A kernel after a step, or why the step did not apply."""

    step: str
    result: Result


@dataclass(frozen=True, slots=True)
class Unmet(Fail):
    """Why a step does without an instruction that the machine has for such sums; the build report contains
    it."""


@dataclass(frozen=True, slots=True)
class Context:
    """The context of steps besides the kernel: fresh names, the tables of taps, sizes, the machine, and
    its sizes of pieces. `volume`: elements of the result. `repeated`: the value that every tile would
    recompute; `folded`: the value of each register; both for failures. `past`: outputs that may bypass the
    caches. `trace` receives the result of each step. `numbers`: the elements of constants that kernels may
    contain."""

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
    numbers: Mapping[Buffer, NDArray[np.float32]] = field(default_factory=dict)

    @property
    def unmet(self) -> tuple[str, ...]:
        """Why kernels do without instructions that the steps so far intended."""
        return tuple(t.result.reason for t in self.trace if isinstance(t.result, Unmet))

    def estimate(self, var: Sym) -> int:
        """Turns of a loop, at least one."""
        return self.sizes.turns(var)

    def bytes(self, buffer: Buffer) -> int:
        """Bytes of a buffer, roughly."""
        return self.sizes.of(buffer.entries) * BITS[buffer.stored] // 8

    def past_of(self, buffer: Buffer) -> Past:
        """The condition under which a buffer is stored past the caches."""
        return self.past.get(buffer, NOT_PAST)

    def stored_first(self, value: Value, why: str) -> FusionFailure:
        """The result of a step if a value needs a buffer first."""
        return FusionFailure(value, why)


Apply: TypeAlias = Callable[[Kernel, Context], Result]


@dataclass(frozen=True, slots=True)
class Step:
    """A transformation with selected parameters; a FusionFailure is a value that needs a buffer first."""

    name: str
    apply: Apply

    @property
    def names(self) -> tuple[str, ...]:
        """Its own."""
        return (self.name,)


Edits: TypeAlias = Mapping[str, tuple[Step, ...]]  # replacements of steps, by name


@dataclass(frozen=True, slots=True)
class Recipe:
    """Steps that share a decision: `make` takes it for a kernel after the previous steps, and returns the
    steps called `names`, with the decision as their parameters. `edits`: replacements."""

    names: tuple[str, ...]
    make: Callable[[Kernel, Context], tuple[Step, ...]]
    edits: tuple[Edits, ...] = ()

    def steps(self, kernel: Kernel, context: Context) -> tuple[Step, ...]:
        """For a kernel."""
        steps = self.make(kernel, context)
        for edits in self.edits:
            steps = tuple(s for step in steps for s in edits.get(step.name, (step,)))
        return steps

    def edited(self, edits: Edits) -> Recipe:
        """With some steps replaced."""
        own = {name: edits[name] for name in self.names if name in edits}
        names = tuple(n for name in self.names for n in (names_of(own[name]) if name in own else (name,)))
        return Recipe(names, self.make, (*self.edits, own)) if own else self


def recipe(
    choose: Callable[[Kernel, Context], T | Fail], steps: Mapping[str, Callable[[Kernel, Context, T], Result]]
) -> Recipe:
    """Steps by name, each of which receives the result of `choose`; none applies if that fails."""

    def make(kernel: Kernel, context: Context) -> tuple[Step, ...]:
        choice = choose(kernel, context)
        return tuple(Step(name, _handed(apply, choice)) for name, apply in steps.items())

    return Recipe(tuple(steps), make)


def _handed(apply: Callable[[Kernel, Context, T], Result], choice: T | Fail) -> Apply:
    return lambda kernel, c: choice if isinstance(choice, Fail) else apply(kernel, c, choice)


Strategy: TypeAlias = tuple[Step | Recipe, ...]


def names_of(strategy: Strategy) -> tuple[str, ...]:
    """Of all its steps, in order."""
    return tuple(name for part in strategy for name in part.names)


def _edited(strategy: Strategy, edits: Edits) -> Strategy:
    parts = (
        edits.get(part.name, (part,)) if isinstance(part, Step) else (part.edited(edits),)
        for part in strategy
    )
    return tuple(s for some in parts for s in some)


@dataclass(frozen=True, slots=True)
class Shared:
    """An operand that every item reads: bytes, and how many rows multiply its elements in an item."""

    nbytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class AtItems:
    """What a kernel that computes stages at its items saves and repeats (stages.py), in bytes. `between`:
    of each tensor that is no longer in memory; `shared`: read by each of the `items` in addition to its own
    data; `repeated`: in windows of several items."""

    between: tuple[int, ...]
    shared: tuple[Shared, ...]
    items: int
    repeated: int


@dataclass(frozen=True, slots=True)
class Strategies:
    """A strategy for each kind of kernel, and the default sizes of pieces. `choice`: replaces the kind of a
    kernel. `stages`: the price of kernels that compute several contractions, as instructions saved; None if
    there are none. `is_step`: whether kernels may load a divisor of codes instead of containing it; None if
    they load none.

    Plans and caches identify steps by name: a step with another effect needs another name.
    """

    lists: Mapping[str, Strategy]
    choice: Callable[[str, Kernel, Machine], str] = lambda kind, kernel, machine: kind
    tuning: Tuning = MODEL
    left_out: frozenset[str] = frozenset()  # names of steps
    stages: Callable[[AtItems, Machine], int] | None = None
    is_step: Callable[[float], bool] | None = None

    def __str__(self) -> str:
        texts = [f"{kind}: {', '.join(names_of(steps))}" for kind, steps in self.lists.items()]
        return "; ".join([*texts, f"pieces: {self.tuning}", *(["stages"] if self.stages is not None else [])])

    def of(self, kind: str) -> Strategy:
        """The strategy for kernels of a kind."""
        return self.lists.get(kind, ())

    def without(self, *names: str) -> Strategies:
        """The lists without the steps of these names."""
        unknown = set(names) - self.names - self.left_out
        assert not unknown, f"no step is called {', '.join(sorted(unknown))}"
        edited = self._edited(dict.fromkeys(names, ()))
        return replace(edited, left_out=self.left_out.union(names))

    def instead(self, name: str, step: Step) -> Strategies:
        """The lists with the step of this name replaced."""
        assert name in self.names, f"no step is called {name}"
        assert step.name not in self.names, f"there is a step called {step.name}"
        return self._edited({name: (step,)})

    @property
    def names(self) -> frozenset[str]:
        """Of all steps."""
        return frozenset(name for steps in self.lists.values() for name in names_of(steps))

    def _edited(self, edits: Edits) -> Strategies:
        return replace(self, lists={kind: _edited(steps, edits) for kind, steps in self.lists.items()})


def carry_out(strategy: Strategy, kernel: Kernel, context: Context) -> Kernel | FusionFailure:
    """The kernel after all steps that apply."""
    context.trace.append(Trace("serial loops", kernel))
    for part in strategy:
        for step in (part,) if isinstance(part, Step) else part.steps(kernel, context):
            result = step.apply(kernel, context)
            context.trace.append(Trace(step.name, result))
            if isinstance(result, FusionFailure):
                return result
            kernel = kernel if isinstance(result, Fail) else result
    return kernel
