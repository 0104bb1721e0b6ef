"""Tuning: at the higher optimisation levels a build runs each kernel in several variants and keeps the
fastest one.

    tuned = tune(request, lowered, lower, target, device, check, done)
    tuned.lowered, tuned.tunings, tuned.lines

Each kernel runs alone, on memory of its real sizes at the optimum of the first profile and on the engine's
threads, its variants in turn. Results are stored in `request.timings`, under a key made from the kernel, the
sizes, the threads and the machine; if it has an entry, nothing is measured. If the request has a selector,
everything is measured, and the selector decides. It is called for every kernel of the engine, also for those
with one implementation: of loops and branches, of versions that the optimum does not use, and all of them if
nothing can be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final
from zlib import crc32

import numpy as np

from anyrt.compiler.native import Lowered, Target
from anyrt.compiler.request import Algorithm, Asked, BuildRequest, Point, Selector, Tensor
from anyrt.compiler.trial import Trial, load
from anyrt.compiler.verify import random_array
from anyrt.core.dimvalues import evaluate
from anyrt.core.dtype import storage_bytes
from anyrt.core.enums import BuilderFlag
from anyrt.core.errors import ResourceError
from anyrt.ir.buffer import Space
from anyrt.ir.graph import Value
from anyrt.ir.kernel import Kernel
from anyrt.ir.program import Call, Guarded
from anyrt.ir.statements import buffers_of
from anyrt.plan.device import Device, Memory
from anyrt.plan.pool import Threads
from anyrt.schedule.cost import Sizes
from anyrt.schedule.launch import Launch, Schedule
from anyrt.schedule.measure import BUDGETS, Budget, fastest, measure
from anyrt.schedule.tuning import MODEL, Tuning
from anyrt.schedule.variants import Tunable, Variant, described, tasks, variants
from anyrt.schedule.versions import serving, versions

ROOM: Final = 2 << 30  # bytes of tensors for measuring, at most
SAMPLE: Final = 4096  # different numbers in an operand
Lower = Callable[[Mapping[Value, Tuning]], Lowered]


@dataclass(frozen=True, slots=True)
class Tuned:
    """Kernels as selected: `tunings` of those that differ from the model's, `lines` for the report."""

    lowered: Lowered
    tunings: Mapping[Value, Tuning] = field(default_factory=dict)
    lines: tuple[str, ...] = ()


def tune(
    request: BuildRequest,
    lowered: Lowered,
    lower: Lower,
    target: Target,
    device: Device,
    check: Callable[[], None],
    done: Callable[[int], None],
    unable: str = "",
) -> Tuned:
    """The fastest of several variants of each kernel. `check` is called between measurements, `done` with its
    number after each kernel: their exceptions stop the measuring. `unable`: why nothing can be measured, if
    so."""
    sizes = Sizes(request.sizes(0, Point.OPT))
    ends = (*lowered.graph.inputs, *lowered.graph.outputs)
    needed = sum(storage_bytes(v.dtype, sizes.volume(v)) for _, v in ends) + sizes.of(lowered.arena_bytes)
    if needed > ROOM and not unable:
        unable = f"no kernel was measured: {needed} bytes of tensors are too many"
    if unable and request.selector is None:
        return Tuned(lowered, lines=(unable,))
    pool = None if request.pool is None else request.pool()
    timings = {} if request.settings.flags & 1 << BuilderFlag.DISABLE_TIMING_CACHE else request.timings
    level, asked = request.settings.optimization_level, request.settings.max_tactics
    budget = BUDGETS.get(level, BUDGETS[min(BUDGETS)])
    most = 1 if unable else min(budget.variants, asked) if asked >= 0 else budget.variants
    budget = replace(budget, variants=most)
    version = serving((v.guard for v in lowered.module.versions), sizes.values)
    at = (sizes.values, version, pool, timings, budget)
    tuned = _Search(request, lowered, lower, target, device, check, *at).run(done)
    return replace(tuned, lines=(unable, *tuned.lines[1:])) if unable else tuned


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """The measurements of one build; all its trials share the memory of `blocks`."""

    request: BuildRequest
    lowered: Lowered
    lower: Lower
    target: Target
    device: Device
    check: Callable[[], None]
    sizes: Mapping[str, int]
    version: int
    pool: Threads | None
    timings: MutableMapping[str, tuple[int, float]]
    budget: Budget
    blocks: dict[str, Memory] = field(default_factory=dict)
    chosen: dict[Asked, Algorithm] = field(default_factory=dict)

    def run(self, done: Callable[[int], None]) -> Tuned:
        """Every kernel in order."""
        graph = versions(self.lowered.graph)[self.version].graph
        every = tasks(self.lowered.graph, graph, self.lowered.schedules[self.version])
        unknown = [t for t in every if self._known(t) is None]
        candidates = variants(unknown, self._schedule, self.budget.variants, self.budget.more)
        tunings: dict[Value, Tuning] = {}
        lines = [f"measured on {self.threads} threads, at most {self.budget.seconds} s for a kernel:"]
        for task in every:
            known = self._known(task)
            if known is not None:
                tunings[task.root], line = known, f"{known}, as the timing cache says"
            else:
                tunings[task.root], line = self._measured(task, candidates[task.root])
            lines.append(f"  {task.kernel.name}: {line}")
            done(task.number)
        tunings = {root: tuning for root, tuning in tunings.items() if tuning != MODEL}
        lowered = self.lower(tunings) if tunings else self.lowered
        if self.request.selector is not None:
            self._ask_for_others(lowered, self.request.selector)
            self.request.selector.report([*self.chosen], [*self.chosen.values()])
        return Tuned(lowered, tunings, tuple(lines))

    @property
    def threads(self) -> int:
        """The launches that share a kernel."""
        return 1 if self.pool is None else self.pool.threads

    def _schedule(self, tunings: Mapping[Value, Tuning]) -> Schedule:
        self.check()
        schedule = self.lower(tunings).schedules[self.version]
        assert schedule.tables.needed == self.lowered.schedule.tables.needed, "a tuning changed the tables"
        return schedule

    def _key(self, task: Tunable) -> str:
        sizes = (f"{name}={n}" for name, n in sorted(self.sizes.items()))
        environment = (
            self.target.key,
            str(self.lowered.machine),
            str(self.threads),
            str(self.request.strategies),
        )
        return task.key(*environment, *sizes)

    def _known(self, task: Tunable) -> Tuning | None:
        """The result in the timing cache; None if it has no entry or no valid tuning, or if there is a
        selector."""
        if self.request.selector is not None:
            return None
        entry = self.timings.get(self._key(task))
        return None if entry is None else Tuning.of_tactic(entry[0])

    def _measured(self, task: Tunable, variants: Sequence[Variant]) -> tuple[Tuning, str]:
        """The best variant, and its line of the report."""
        if len(variants) == 1:
            return self._selected(task, variants, None, f"{MODEL}, its only variant")
        try:
            least = measure(self._calls(variants), self.budget, self.request.clock, self.check)
        except ResourceError as error:  # for the trial; the engine may have more memory
            return self._selected(task, variants, None, f"not measured: {error}")
        if least is None:
            return self._selected(task, variants, None, "not measured: it takes too long")
        best = fastest(least)
        if self.request.selector is not None:
            return self._selected(task, variants, least, f"of {described(variants, least)}")
        tuning = variants[best].tuning
        self.timings[self._key(task)] = (tuning.tactic, least[best] * 1e3)
        return tuning, f"{tuning}, of {described(variants, least)}"

    def _selected(
        self, task: Tunable, variants: Sequence[Variant], least: Sequence[float] | None, line: str
    ) -> tuple[Tuning, str]:
        """The fastest variant that the selector allows; the model's without a selector."""
        selector = self.request.selector
        if selector is None:
            return MODEL, line
        schedule = self.lowered.schedules[self.version]
        launch, seconds = schedule.launches[task.number], least or [0.0] * len(variants)
        asked = self._asked(schedule, launch)
        launches = [replace(launch, tuning=v.tuning) for v in variants]
        choices = [
            self._algorithm(x, v.kernel, t) for x, v, t in zip(launches, variants, seconds, strict=True)
        ]
        kept = [*selector.select(asked, choices)] or [*range(len(choices))]
        best = kept[fastest([seconds[n] for n in kept])] if least else kept[0]
        self.chosen[asked] = choices[best]
        return variants[best].tuning, f"{variants[best].tuning}, as was selected, {line}"

    def _ask_for_others(self, lowered: Lowered, selector: Selector) -> None:
        """Those of regions and of other versions, which have one implementation so far."""
        named = {asked.name for asked in self.chosen}
        for schedule in (part for version in lowered.schedules for part in version.nested):
            for launch in (x for x in schedule.launches if x.name not in named):
                asked, only = self._asked(schedule, launch), self._algorithm(launch, launch.kernel, 0.0)
                selector.select(asked, [only])
                self.chosen[asked] = only

    def _asked(self, schedule: Schedule, launch: Launch) -> Asked:
        """A kernel in the form for a selector."""
        read = buffers_of(launch.kernel.body)
        spaces, corners = (Space.INPUT, Space.ARENA), [self.request.sizes(0, point) for point in Point]
        inputs = (v for v, b in schedule.buffers.items() if b in read and b.space in spaces)
        taken = (v for v in inputs if v not in launch.makes)
        return Asked(
            launch.name, *(tuple(_tensor(v, corners) for v in side) for side in (taken, launch.makes))
        )

    def _algorithm(self, launch: Launch, kernel: Kernel, seconds: float) -> Algorithm:
        scratch = evaluate(kernel.scratch, self.sizes) * self.threads
        return Algorithm(crc32(launch.kind.encode()), launch.tuning.tactic, seconds, scratch)

    def _calls(self, variants: Sequence[Variant]) -> list[Callable[[], None]]:
        """A call of each variant on the same memory."""
        kernels = [Call(variant.kernel, f"variant{n}") for n, variant in enumerate(variants)]
        schedule = self.lowered.schedules[self.version]
        module = replace(self.lowered.module, versions=[Guarded(1, kernels)])
        one = replace(self.lowered, module=module, schedules=(schedule,))
        trial = Trial(load(one, self.target, self.device), self.sizes, self.pool, self.blocks)
        rng, read = np.random.default_rng(0), buffers_of(variants[0].kernel.body)
        for value, buffer in schedule.buffers.items():
            if buffer in read and buffer.space in (Space.INPUT, Space.ARENA):
                shape = [evaluate(d, self.sizes) for d in value.shape]
                trial.write(buffer, np.resize(random_array(rng, value.dtype, (SAMPLE,)), shape), value.dtype)
        return [partial(trial.step, n) for n in range(len(kernels))]


def _tensor(value: Value, corners: Sequence[Mapping[str, int]]) -> Tensor:
    return Tensor(value.dtype, tuple(tuple(evaluate(d, sizes) for d in value.shape) for sizes in corners))
