"""The forms that a kernel can take: what its candidates give (schedule/tuning.py), each form once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from anyrt.ir.graph import Graph, Value
from anyrt.ir.kernel import Kernel
from anyrt.ir.kerneltext import print_kernels
from anyrt.schedule.fuse import Schedule
from anyrt.schedule.tuning import MODEL, Tuning, candidates
from anyrt.schedule.versions import originals

VERSION = (
    "anyrt forms 2"  # of the names that `key` makes: another one when tunings come to mean something else
)


@dataclass(frozen=True, slots=True)
class Formed:
    """A kernel as the model cuts it, with its root in the graph that was lowered and its place in the
    schedule."""

    root: Value
    number: int
    kernel: Kernel

    def key(self, *circumstances: str) -> str:
        """A name for what is measured of it under these circumstances: the same in every network."""
        text = print_kernels([replace(self.kernel, name="kernel")])
        return sha256("\n".join((VERSION, *circumstances, text)).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Form:
    """What a tuning makes of a kernel."""

    tuning: Tuning
    kernel: Kernel


def formed(graph: Graph, version: Graph, schedule: Schedule) -> tuple[Formed, ...]:
    """The kernels of a version of `graph`, each root once: what is stored to several places is cut alike."""
    origin, found = originals(graph, version), dict[Value, Formed]()
    for number, launch in enumerate(schedule.launches):
        root = origin[launch.root]
        found.setdefault(root, Formed(root, number, launch.kernel))
    return tuple(found.values())


def forms(
    kernels: Sequence[Formed], lower: Callable[[Mapping[Value, Tuning]], Schedule], most: int, more: bool
) -> dict[Value, tuple[Form, ...]]:
    """At most so many forms of each kernel, by root, the model's first; `lower` schedules with tunings."""
    named = {k.root: candidates(k.kernel, more) for k in kernels}
    found = {k.root: {print_kernels([k.kernel]): Form(MODEL, k.kernel)} for k in kernels}
    for n in range(1, max(map(len, named.values()), default=0)):
        part = [k for k in kernels if n < len(named[k.root]) and len(found[k.root]) < most]
        schedule = lower({k.root: named[k.root][n] for k in part})
        for k in part:
            kernel = schedule.launches[k.number].kernel
            found[k.root].setdefault(print_kernels([kernel]), Form(named[k.root][n], kernel))
    return {root: tuple(different.values()) for root, different in found.items()}


def described(forms: Sequence[Form], seconds: Sequence[float]) -> str:
    """What was measured, with the numbers that timing caches know the tunings by."""
    pairs = zip((form.tuning for form in forms), seconds, strict=True)
    return "; ".join(f"{tuning} {t * 1e3:.4g} ms (tactic {tuning.tactic})" for tuning, t in pairs)
