"""From a request to a plan, and from a plan to native code.

    build_parts(request, target, device)  passes, schedule, verification, code, which goes to the cache; the
                                          plan, in segments that share the network's weights
    lower_plan(file, target)              its kernels
    compile_plan(file, target, …)         the code again, on another machine

The caller passes a target, and the device that executes kernels for verification and measurement. Both lower
the graph that the plan contains, so the verified code is the code that runs after loading.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TypeVar

import numpy as np

from anyrt.codegen.target import Target
from anyrt.compiler import native
from anyrt.compiler.agree import check_agreement, conditions, symbol_records
from anyrt.compiler.cached import (
    FunctionCache,
    Log,
    Warn,
    keep_seconds,
    kernel_cache,
    mixer,
    obtain_pool,
    once,
    plan_key,
    report_key,
)
from anyrt.compiler.corners import corner
from anyrt.compiler.derive import derive
from anyrt.compiler.garbage import rare_collections
from anyrt.compiler.progress import COMPILING, MEASURING, SCHEDULING, Phase, Progress, ReportProgress
from anyrt.compiler.recall import Recall
from anyrt.compiler.records import with_records
from anyrt.compiler.report import build_report, written_lines
from anyrt.compiler.request import BuildRequest, Point, Verify, Winograd
from anyrt.compiler.settled import settled
from anyrt.compiler.tune import Tuned, tune
from anyrt.compiler.verify import groups_failed, verify
from anyrt.core.counts import at_most
from anyrt.core.dims import Dim
from anyrt.core.dtype import numpy_dtype, pack4, storage_bytes, unpack4
from anyrt.core.enums import BuilderFlag, Severity
from anyrt.core.errors import AnyrtError, NotSupportedError, PlanError, ResourceError
from anyrt.core.flags import default_threads, read_flags
from anyrt.core.machine import Machine, this_machine
from anyrt.core.requirement import Requirement
from anyrt.core.units import counted
from anyrt.ir.graph import MAX_REGIONS, Graph, Value, depth, nested
from anyrt.ir.text import parse_graph, print_graph
from anyrt.passes import passes_for
from anyrt.passes.beside import beside, only
from anyrt.passes.copy_caches import copy_caches
from anyrt.plan.abi import align
from anyrt.plan.checksum import Mixer
from anyrt.plan.content import Content
from anyrt.plan.device import Device
from anyrt.plan.file import DIGEST_BYTES, PlanFile, PlanParts, plan_parts
from anyrt.plan.plan import STREAMS, BlobRecord, Plan, lay_out
from anyrt.plan.program import Compiled, Program
from anyrt.plan.refit import Refit
from anyrt.plan.report import Report, kernel_lines, parse_report, print_report, totals
from anyrt.plan.room import THREAD_ROOM, require_room
from anyrt.prims.const import Blob, Origin
from anyrt.prims.table import named_blobs, vocabulary
from anyrt.schedule.cost import Sizes
from anyrt.schedule.measure import BUDGETS
from anyrt.schedule.step import Strategies
from anyrt.schedule.storage import PACKED
from anyrt.schedule.tuning import Tuning, parse_tunings, print_tunings

T = TypeVar("T")
PHASE = "Building engine"
STEPS = ("Optimize graph", "Schedule kernels", "Verify kernels", "Generate code", "Write plan")
ALONE = "alone"  # the setting for values that verification requires unfused
TUNINGS = "tunings"  # the setting for the tunings of kernels: "3 band=8;7 without tile"
STRATEGY = "strategies"  # the setting for other strategies than the default ones
CHECKED = "checked"  # the setting for kernels that check every access
POLL_SECONDS = 0.1
GRACE_SECONDS = 0.5  # for an interrupted build to finish or remove the file that it is writing


def build_parts(request: BuildRequest, target: native.Target, device: Device) -> PlanParts:
    """The plan of a network for a target, with references to its weights; `device` executes kernels to verify
    or measure them. BuildCancelled if its monitor or `cancelled` requests it.

    The work runs in a separate thread: while LLVM runs, Ctrl-C would have to wait for it.
    """
    stopped = threading.Event()

    def cancelled() -> bool:
        return stopped.is_set() or request.cancelled()

    progress = Progress(request.shown, request.log, request.monitor, cancelled)
    with rare_collections():
        return _interruptible(_Build(request, progress, target, device).run, stopped, progress.tick)


def compile_plan(file: PlanFile, target: native.Target, warn: Warn, log: Log) -> Compiled:
    """Native code for a plan on this machine; `warn` receives problems of the kernel cache, `log` the
    progress."""
    stopped = threading.Event()
    progress = Progress(file.plan.name, log, cancelled=stopped.is_set)
    with rare_collections():
        return _interruptible(lambda: _compile_plan(file, target, warn, progress), stopped, progress.tick)


def lower_plan(
    file: PlanFile, target: Target[Strategies], progress: ReportProgress = lambda done, total: None
) -> native.Lowered:
    """The kernels of a plan for the host, as a target can use it; `progress` is called for each, see
    `native.lower`."""
    graph, blobs = _graph_of(file)
    check_agreement(file.plan, graph)
    offsets = {blobs[b.name]: b.offset for b in file.plan.blobs}
    places = {str(n): v for v, n in _order(graph).items()}
    settings = dict(file.plan.settings)
    alone = frozenset(places[n] for n in settings.get(ALONE, "").split() if n in places)
    tunings = parse_tunings(settings.get(TUNINGS, ""), places)
    arguments = (Sizes(plan_sizes(file.plan, Point.OPT)), alone, tunings, build_machine(target), progress)
    how = target.strategies
    return native.lower(graph, offsets, *arguments, strategies=how, checked=CHECKED in settings)


def build_machine(target: Target[Strategies]) -> Machine:
    """The machine that kernels are generated for."""
    return target.limited(this_machine(read_flags()))


def plan_sizes(plan: Plan, point: Point, profile: int = 0) -> dict[str, int]:
    """The value of every size symbol at a corner of a profile; the upper bounds of data-dependent ones."""
    ranges = plan.profiles[profile] if plan.profiles else ()
    corners = {(r.tensor, r.is_values): (r.min, r.opt, r.max)[point] for r in ranges}
    sizes = {s.name: corners[s.tensor, s.is_value][s.axis] for s in plan.symbols if s.most is None}
    return at_most(sizes, (s.sym for s in plan.symbols))


def _compile_plan(file: PlanFile, target: native.Target, warn: Warn, progress: Progress) -> Compiled:
    with progress.counted(SCHEDULING) as report:
        lowered = lower_plan(file, target, report)
    with progress.counted(COMPILING) as report:
        compiled = native.compile_lowered(lowered, target, FunctionCache(kernel_cache(warn)), report)
    return with_records(compiled, lowered)


def _interruptible(work: Callable[[], T], stopped: threading.Event, tick: Callable[[], None]) -> T:
    """`work` in a thread; its exception is raised here. `stopped` is set if this thread is interrupted,
    `tick` is called while it waits."""
    ended, results, errors = threading.Event(), [], []

    def target() -> None:
        try:
            results.append(work())
        except BaseException as error:  # passed to the caller, which raises it
            errors.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=target, name="anyrt-build", daemon=True)
    require_room(THREAD_ROOM, "build")
    try:
        thread.start()
    except RuntimeError as error:  # no memory for its stack, or too many threads
        raise ResourceError("AR802", "build", str(error), "a thread for the build") from None
    try:
        # Not `thread.join`, which considers a thread ended once it was interrupted (CPython 3.11).
        while not ended.wait(POLL_SECONDS):
            tick()
    except BaseException:
        stopped.set()
        ended.wait(GRACE_SECONDS)
        raise
    if errors:
        raise errors[0]
    return results[0]


@dataclass(slots=True)
class _Build:
    """One build, step by step; `warn` receives problems of the cache. `mixer`: of checksums. `seconds`: the
    time of each step."""

    request: BuildRequest
    progress: Progress
    target: native.Target
    device: Device
    warn: Warn = field(init=False)
    mixer: Callable[[], Mixer] = field(init=False)
    seconds: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.warn = once(partial(self.request.log, Severity.WARNING))
        self.mixer = cache(partial(mixer, self.device, lambda: self.target))

    def run(self) -> PlanParts:
        """All steps from the network's graph to the plan."""
        began = self.progress.clock()
        layers = len(self.request.layers)
        of = f", {counted(layers, 'layer')}" if layers else ""
        self.progress.info(f"building {self.request.shown!r}{of}")
        with self.progress.phase(PHASE, len(STEPS), STEPS) as phase:
            parts, report = self._steps(phase)
        taken = f"built {self.request.shown!r} in {self.progress.clock() - began:.2f} s"
        source = "" if self.seconds[1:] else ", from the cache"
        self.progress.info(f"{taken}{source}: {'; '.join(totals(report))}")
        return parts

    def _steps(self, phase: Phase) -> tuple[PlanParts, Report]:
        if (nesting := depth(self.request.graph)) > MAX_REGIONS:  # its plan would be rejected by the reader
            got = f"{nesting} loops and conditionals inside one another"
            do = "put conditions together with And"
            raise NotSupportedError("AR901", self.request.name, got, f"at most {MAX_REGIONS}", do)
        recall = Recall.of(self.request, self.device, self.mixer) if self._is_plain() else None
        same = None if recall is None else self._recalled(recall)
        if same is not None:
            self._done(phase)
            return self._again(phase, *same)
        self.request = settled(self.request)
        target, machine = self.target, build_machine(self.target)
        graph = self._optimised(machine)
        source = _Source.of(self.request, graph, self.device, self.mixer)
        self._done(phase)
        known = source.known(self.warn) if self._is_plain() else None
        if known is not None:
            parts, _, text = known
            self._remember(recall, source, parts, text)
            return self._again(phase, *known)
        lower = source.lower(machine, target.strategies)
        tuned = self._tuned(lower, target, source.needs)
        self._done(phase)
        tuned, alone = self._verified(tuned, lower, target, source.needs)
        report = build_report(tuned.lowered, source.sizes(), source.optimum(), tuned.lines)
        self._log_kernels(report)
        self._done(phase)
        compiled, code = self._compiled(tuned.lowered, target)
        report = replace(report, code=code)
        self._done(phase)
        text = print_report(report)
        parts = source.parts(text, _settings(self.request, graph, alone, tuned.tunings))
        self._keep(parts, compiled)
        if self._is_plain():
            source.remember(parts.code, text, self.warn)
        self._remember(recall, source, parts, text)
        self._done(phase)
        keep_seconds(source.text, text, self.seconds, self.warn)
        return parts, report

    def _compiled(self, lowered: native.Lowered, target: native.Target) -> tuple[Compiled, tuple[str, ...]]:
        """The code, and the part of the report about it."""
        functions = native.written(lowered, target)
        store = FunctionCache(kernel_cache(self.warn))
        with self.progress.counted(COMPILING) as report:
            compiled = native.compile_lowered(lowered, target, store, report, functions)
        self._check_memory(compiled.program)
        return with_records(compiled, lowered), written_lines(lowered, functions)

    def _log_kernels(self, report: Report) -> None:
        """Log each kernel with the layers that it fuses."""
        for line in kernel_lines(report):
            self.request.log(Severity.VERBOSE, line)

    def _is_plain(self) -> bool:
        """True if nothing is measured or verified, so that the same graph gives the same plan."""
        return not self._measures() and self.request.settings.verify is Verify.OFF

    def _measures(self) -> bool:
        """True if variants of kernels are measured, as the level or a selector requires."""
        return self.request.settings.optimization_level in BUDGETS or self.request.selector is not None

    def _recalled(self, recall: Recall) -> tuple[PlanParts, Compiled, str] | None:
        """The result of an earlier build of the same request in the cache."""
        store = kernel_cache(self.warn)
        try:
            recalled = recall.known(store)
        except PlanError as error:
            self.warn(f"kernel cache: what an earlier build has left is damaged: {error}")
            return None
        if recalled is None:
            return None
        parts, report = recalled
        symbols = {s.sym.name: s.sym for s in self.request.graph.symbols}
        compiled = store.get(plan_key(self.device, parts.code), symbols)
        return None if compiled is None else (parts, compiled, report)

    def _remember(self, recall: Recall | None, source: _Source, parts: PlanParts, report: str) -> None:
        """Store the plan without its weights, for the next build of the same request."""
        if recall is not None:
            self.progress.check()  # as above
            recall.remember(parts, source.contents(), report, kernel_cache(self.warn))

    def _again(
        self, phase: Phase, parts: PlanParts, compiled: Compiled, text: str
    ) -> tuple[PlanParts, Report]:
        """The result of an earlier build of the same graph in the cache."""
        self._check_memory(compiled.program)
        report = parse_report(text)
        self._log_kernels(report)
        phase.reach(len(STEPS))
        return parts, report

    def _keep(self, parts: PlanParts, compiled: Compiled) -> None:
        if kernel_cache(self.warn).put(plan_key(self.device, parts.code), compiled):
            self.progress.check()  # an interrupted build has no time left for another file
            obtain_pool(self.device, lambda: self.target, self.warn)  # so that loading needs no LLVM

    def _optimised(self, machine: Machine) -> Graph:
        graph, aside = self.request.graph, self.request.aside
        names = [name for name, _ in graph.outputs]
        if not aside.intersection(names):
            return copy_caches(self._passed(graph, machine))
        shown = self._passed(only(graph, {name for name in names if name not in aside}), machine)
        return copy_caches(beside(shown, self._passed(only(graph, aside), machine), names))

    def _passed(self, graph: Graph, machine: Machine) -> Graph:
        winograd, sizes = self.request.settings.winograd, self.request.sizes(0, Point.OPT)
        usual = passes_for(machine, winograd.tiles, winograd is not Winograd.AUTO, sizes)
        for step in usual if self.request.passes is None else self.request.passes:
            graph = step.run(graph)
            self.progress.check()
        return graph

    def _done(self, phase: Phase) -> None:
        """The current step is done."""
        now = self.progress.clock()
        before = sum(time for _, time in self.seconds)
        self.seconds.append((STEPS[phase.done], now - phase.began - before))
        phase.reach(phase.done + 1)

    def _tuned(
        self, lower: partial[native.Lowered], target: native.Target, needs: Sequence[Requirement]
    ) -> Tuned:
        """Kernels with measured sizes of pieces, at the levels that measure."""
        with self.progress.counted(SCHEDULING) as report:
            lowered = lower(progress=report)
        if not self._measures():
            return Tuned(lowered)
        # Kernels may read outside of memory at sizes that an inference rejects.
        optimum = self.request.sizes(0, Point.OPT)
        unable = ""
        if self.request.profiles and not all(need.holds(optimum) for need in needs):
            unable = "no kernel was measured: the network cannot run at the optimum of the first profile"
        self._check_room(lowered.arena_bytes, native.scratch_bytes(lowered))  # measuring needs as much
        with self.progress.phase(MEASURING, max(len(s.launches) for s in lowered.schedules)) as phase:
            return tune(
                self.request,
                lowered,
                lambda chosen: lower(tunings=chosen),
                target,
                self.device,
                self.progress.check,
                lambda number: phase.reach(number + 1),
                unable,
            )

    def _verified(
        self,
        tuned: Tuned,
        lower: partial[native.Lowered],
        target: native.Target,
        needs: Sequence[Requirement],
    ) -> tuple[Tuned, frozenset[Value]]:
        """Compare kernels with the interpreter at the corners of profiles where the network can run; values
        of differing kernels are reported and built unfused."""
        tried = {Verify.OFF: (), Verify.SAMPLE: (Point.MIN,), Verify.FULL: tuple(Point)}
        points = tried[self.request.settings.verify][: None if self.request.profiles else 1]
        if not points:
            return tuned, frozenset()
        profiles = range(len(self.request.profiles) or 1)
        corners = [self.request.sizes(p, at) for p in profiles for at in points]
        symbols = [s.sym for s in self.request.graph.symbols]
        corners = [x for sizes in corners if (x := corner(needs, sizes, symbols)) is not None]
        if not corners:
            line = "nothing was verified: the network can run at no corner of a profile"
            self.request.log(Severity.WARNING, line)
            return replace(tuned, lines=(*tuned.lines, line)), frozenset()
        store = FunctionCache(kernel_cache(self.warn))  # the plan gets the same kernels
        mismatches = verify(tuned.lowered, target, self.device, corners, self.progress, store=store)
        if not mismatches:
            return replace(tuned, lines=(*tuned.lines, f"verified at {len(corners)} shapes")), frozenset()
        lines = tuple(str(m) for m in mismatches)
        for line in lines:
            self.request.log(Severity.WARNING, line)
        alone = groups_failed(mismatches)
        tunings = {value: tuning for value, tuning in tuned.tunings.items() if value not in alone}
        return Tuned(lower(alone, tunings), tunings, (*tuned.lines, *lines)), alone

    def _check_memory(self, program: Program) -> None:
        self._check_room(program.arena_bytes, program.scratch_bytes)

    def _check_room(self, arena: Dim, scratch: Dim) -> None:
        """The memory of a context, which has the same limit."""
        limit = self.request.settings.memory_limit
        if limit is None:
            return
        corners = [self.request.sizes(p, Point.MAX) for p in range(max(1, len(self.request.profiles)))]
        threads = self.request.settings.num_threads or default_threads()
        needed = max(align(s.of(arena)) + threads * align(s.of(scratch)) for s in map(Sizes, corners))
        if needed > limit:
            got, wanted = f"{needed} bytes of intermediate tensors and scratch", f"at most {limit}"
            do = "raise the WORKSPACE limit of the memory pool, or lower the profile's maximum"
            raise ResourceError("AR801", self.request.name or "network", got=got, wanted=wanted, do=do)


@dataclass(frozen=True, slots=True)
class _Source:
    """An optimised graph with all parts of a plan except its schedule; `mixer`: of checksums."""

    request: BuildRequest
    graph: Graph
    device: Device
    mixer: Callable[[], Mixer]
    needs: tuple[Requirement, ...]
    blobs: Mapping[str, Blob]
    records: tuple[BlobRecord, ...]
    text: str
    refit: Refit | None = None

    @staticmethod
    def of(request: BuildRequest, graph: Graph, device: Device, mixer: Callable[[], Mixer]) -> _Source:
        """For a request whose graph the passes changed to `graph`, which may drop users of conditions."""
        blobs, refit = named_blobs(graph), None
        if request.refit is not None:
            kind = request.refit
            derived = derive(blobs, request.weights, is_free=kind.is_free, is_stripped=kind.is_stripped)
            blobs, refit = {**blobs, **derived.constants}, derived.refit
        records = lay_out((name, b.dtype, b.size) for name, b in blobs.items())
        text = print_graph(graph, vocabulary(blobs))
        needs = conditions(request.layers, request.graph, graph, before=request.needs)
        return _Source(request, graph, device, mixer, needs, blobs, records, text, refit)

    def sizes(self) -> Sizes:
        """The sizes for which the engine is optimized."""
        return Sizes(self.request.sizes(0, Point.OPT))

    def lower(self, machine: Machine, strategies: Strategies) -> partial[native.Lowered]:
        """The scheduler of the graph for a machine."""
        offsets = {self.blobs[r.name]: r.offset for r in self.records}
        return partial(
            native.lower,
            self.graph,
            offsets,
            self.sizes(),
            machine=machine,
            strategies=self.request.strategies or strategies,
            checked=self.request.settings.checked,
        )

    def parts(self, report: str, settings: tuple[tuple[str, str], ...]) -> PlanParts:
        """The plan."""
        plan = Plan(
            name=self.request.name,
            graph_text=self.text,
            blobs=self.records,
            bindings=self.request.bindings,
            symbols=symbol_records(self.graph),
            requirements=self.needs,
            profiles=self.request.profiles,
            settings=settings,
            layers=self.request.layers,
            report=report,
            refit=self.refit,
        )
        check_agreement(plan, self.graph)
        return plan_parts(plan, self.contents(), self.mixer)

    def contents(self) -> list[Content]:
        """The constants in the form of the plan."""
        return [blob_content(b) for b in self.blobs.values()]

    def optimum(self) -> Iterator[str]:
        """The optimal shapes and values of the first profile, as text, if others are allowed."""
        for r in self.request.profiles[0] if self.request.profiles else ():
            if not r.min == r.opt == r.max:
                yield f"{r.tensor} {'= ' if r.is_values else ''}({', '.join(map(str, r.opt))})"

    def known(self, warn: Warn) -> tuple[PlanParts, Compiled, str] | None:
        """The plan, its code and its report, if they were created before for the same graph, on this machine,
        under any name."""
        store = kernel_cache(warn)
        entry = store.get_bytes(self._key())
        if entry is None:
            return None
        before, report = entry[:DIGEST_BYTES], entry[DIGEST_BYTES:]
        parts = self.parts(report.decode(), _settings(self.request, self.graph, frozenset(), {}))
        symbols = {s.sym.name: s.sym for s in self.graph.symbols}
        compiled = store.get(plan_key(self.device, parts.code), symbols)
        if compiled is None and before != parts.code:
            compiled = store.get(plan_key(self.device, before), symbols)
            if compiled is not None:
                store.put(plan_key(self.device, parts.code), compiled)
        return None if compiled is None else (parts, compiled, report.decode())

    def remember(self, digest: bytes, report: str, warn: Warn) -> None:
        """Store the results of scheduling, whose code all plans of the graph share."""
        kernel_cache(warn).put_bytes(self._key(), [digest, report.encode()])

    def _key(self) -> str:
        """Of weights only those matter that kernels contain as literals."""
        single = ((n, b) for n, b in enumerate(self.blobs.values()) if b.size == 1 and b.is_known)
        literals = (b"%d %s" % (n, b.data.tobytes()) for n, b in single)
        sizes = repr(sorted(self.sizes().values.items()))
        options = f"{self.request.strategies} {self.request.settings.checked}"
        refit = () if self.refit is None else (repr(self.refit.derived), str(self.refit.is_free))
        return report_key(self.device, self.text, sizes, options, b"".join(literals), *refit)


def _order(graph: Graph) -> dict[Value, int]:
    """A number for each value of a graph, and then of its regions."""
    values = dict.fromkeys(v for inner in nested(graph) for v in inner.values)
    return {v: n for n, v in enumerate(values)}


def _settings(
    request: BuildRequest, graph: Graph, alone: frozenset[Value], tunings: Mapping[Value, Tuning]
) -> tuple[tuple[str, str], ...]:
    order, s = _order(graph), request.settings
    pairs = [("level", str(s.optimization_level)), ("verify", s.verify.value)]
    pairs += [("verbosity", s.verbosity.name)]
    pairs += [("threads", str(s.num_threads))] if s.num_threads is not None else []
    pairs += [("memory_limit", str(s.memory_limit))] if s.memory_limit is not None else []
    pairs += [("winograd", s.winograd.value)] if s.winograd is not Winograd.AUTO else []
    pairs += [(CHECKED, "on")] if s.checked else []
    pairs += [(STREAMS, "on")] if s.flags >> BuilderFlag.WEIGHT_STREAMING & 1 else []
    pairs += [(ALONE, " ".join(str(order[v]) for v in alone))] if alone else []
    pairs += [(TUNINGS, print_tunings(tunings, order))] if tunings else []
    pairs += [(STRATEGY, str(request.strategies))] if request.strategies is not None else []
    return tuple(pairs)


def blob_content(blob: Blob) -> Content:
    """A constant as a plan holds it."""
    if blob.dtype in PACKED:
        return pack4(blob.data).data.cast("B")
    words = blob.stored.view(f"u{blob.stored.itemsize}")
    return words.reshape(-1).view(np.uint8).data if words.flags.c_contiguous else words


def _graph_of(file: PlanFile) -> tuple[Graph, dict[str, Blob]]:
    """The graph of a plan with its constants, which are views of the plan's bytes if their type allows it."""
    plan, blobs = file.plan, dict[str, Blob]()
    free = set(plan.refit.derived) if plan.refit is not None and plan.refit.is_free else ()
    for record in plan.held:
        data = file.weights[record.offset : record.offset + storage_bytes(record.dtype, record.count)]
        raw = np.frombuffer(data, np.uint8)
        if record.dtype in PACKED:
            values = unpack4(raw, record.count, record.dtype)
        else:
            values = raw.view(numpy_dtype(record.dtype))
        origin = Origin() if record.name in free else None
        blobs[record.name] = Blob(values, record.dtype, record.name, origin)
    for record in plan.blobs:
        if record.name not in blobs:  # it was stripped, so no decision depends on its elements
            nothing = np.broadcast_to(np.zeros((), numpy_dtype(record.dtype)), record.count)
            blobs[record.name] = Blob(nothing, record.dtype, record.name, Origin())
    return parse_graph(plan.graph_text, vocabulary(blobs), "plan"), blobs


__all__ = [
    "AnyrtError",
    "build_machine",
    "build_parts",
    "compile_plan",
    "lower_plan",
    "plan_sizes",
]
