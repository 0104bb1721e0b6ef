"""Steps of a strategy, and what they may ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from anyrt.schedule.nontemporal import Past
from anyrt.schedule.pieces import Pieces
from anyrt.schedule.tables import Tables


@dataclass(frozen=True, slots=True)
class Trace:
    """A kernel after a step, or why the step did not apply."""

    step: str
    result: Kernel | Fail | FusionFailure


@dataclass(frozen=True, slots=True)
class Context:
    """What steps ask besides the kernel: fresh names, the tables of taps, sizes, the machine, and how
    large pieces are on it.
    `volume`: elements of the result. `repeated`: what every tile would compute again; `folded`: the value of
    each register; both for refusals. `past`: outputs that may be written past the caches. `trace` gets what
    each step did."""

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

    def estimate(self, var: Sym) -> int:
        """Turns of a loop, at least one."""
        return self.sizes.turns(var)

    def bytes(self, buffer: Buffer) -> int:
        """Bytes of a buffer, roughly."""
        return self.sizes.of(buffer.entries) * BITS[buffer.stored] // 8


Apply: TypeAlias = Callable[[Kernel, Context], Kernel | Fail | FusionFailure]


@dataclass(frozen=True, slots=True)
class Step:
    """A transformation with its parameters chosen; a FusionFailure is a value that needs a buffer first."""

    name: str
    apply: Apply


Strategy: TypeAlias = tuple[Step, ...]


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
