"""The variants of a kernel: the results of its candidates (schedule/tuning.py), each variant once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from anyrt.ir.graph import Graph, Value
from anyrt.ir.kernel import Kernel
from anyrt.ir.kerneltext import print_kernels
from anyrt.schedule.launch import Schedule
from anyrt.schedule.tuning import MODEL, Tuning, candidates
from anyrt.schedule.versions import originals

# Part of the names of `key`: it changes when tunings change their meaning, or there are more.
VERSION = "anyrt variants 2"


@dataclass(frozen=True, slots=True)
class Tunable:
    """A kernel to tune: as the model creates it, with its root in the graph and its place in the schedule."""

    root: Value
    number: int
    kernel: Kernel

    def key(self, *circumstances: str) -> str:
        """A name for its measurements under these circumstances: the same in every network."""
        text = print_kernels([replace(self.kernel, name="kernel")])
        return sha256("\n".join((VERSION, *circumstances, text)).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Variant:
    """The result of a tuning for a kernel."""

    tuning: Tuning
    kernel: Kernel


def tasks(graph: Graph, version: Graph, schedule: Schedule) -> tuple[Tunable, ...]:
    """The kernels of a version of `graph`, each root once: copies of a stored value are created alike."""
    origin, tunables = originals(graph, version), dict[Value, Tunable]()
    for number, launch in enumerate(schedule.launches):
        root = origin[launch.root]
        tunables.setdefault(root, Tunable(root, number, launch.kernel))
    return tuple(tunables.values())


def variants(
    tasks: Sequence[Tunable], lower: Callable[[Mapping[Value, Tuning]], Schedule], most: int, more: bool
) -> dict[Value, tuple[Variant, ...]]:
    """At most so many variants of each kernel, by root, the model's first; `lower` schedules with tunings."""
    named = {t.root: candidates(t.kernel, more) for t in tasks}
    distinct = {t.root: {print_kernels([t.kernel]): Variant(MODEL, t.kernel)} for t in tasks}
    for n in range(1, max(map(len, named.values()), default=0)):
        part = [t for t in tasks if n < len(named[t.root]) and len(distinct[t.root]) < most]
        if not part:
            break
        schedule = lower({t.root: named[t.root][n] for t in part})
        for t in part:
            kernel = schedule.launches[t.number].kernel
            distinct[t.root].setdefault(print_kernels([kernel]), Variant(named[t.root][n], kernel))
    return {root: tuple(different.values()) for root, different in distinct.items()}


def described(variants: Sequence[Variant], seconds: Sequence[float]) -> str:
    """The measurements, with the numbers of the tunings in timing caches."""
    pairs = zip((variant.tuning for variant in variants), seconds, strict=True)
    return "; ".join(f"{tuning} {t * 1e3:.4g} ms (tactic {tuning.tactic})" for tuning, t in pairs)
