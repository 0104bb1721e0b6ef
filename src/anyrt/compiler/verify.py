"""Compares every fused kernel with the interpreter during the build: `verify` returns the kernels that
differ, and the elements.

Kernels run one by one, natively and in this thread, each on the interpreter's values of its operands (rounded
to their types), so that one wrong kernel does not affect the next ones. The inputs of the graph are random,
with zeros and both signs. At the first sizes each kernel runs once more, on its own operands with infinities,
NaN and numbers near the ends of their range. The allowed error of a kernel follows from types, scalar
functions and lengths of reductions (compiler/bounds.py).

    mismatches = verify(lowered, target, device, [{"x.0": 1}])
    lower(graph, offsets, sizes, alone=groups_failed(mismatches))
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from math import prod
from typing import Final

import numpy as np

from anyrt.codegen.target import Store
from anyrt.compiler.bounds import SAFETY, Bounded, bounded, differing, exact, stored
from anyrt.compiler.native import Lowered, Target
from anyrt.compiler.progress import COMPILING, VERIFYING, Progress
from anyrt.compiler.trial import Loaded, Trial, load
from anyrt.core.counts import at_most, is_open
from anyrt.core.dimvalues import evaluate
from anyrt.core.dtype import bits, cast, is_float, is_integer, is_signed, numpy_dtype
from anyrt.core.enums import DataType
from anyrt.core.requirement import FINE
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.compute import HostStep
from anyrt.ir.counted import mentioned, sizes_of
from anyrt.ir.graph import Graph, Node, Value, walk
from anyrt.ir.kerneltext import print_kernels
from anyrt.ir.prim import Array
from anyrt.ir.program import Guarded, every
from anyrt.ir.statements import stores
from anyrt.plan.device import Device
from anyrt.prims.concat import Concat
from anyrt.prims.const import Const, Param
from anyrt.schedule.launch import ExternalStep, Launch, RegionStep, Schedule, Step
from anyrt.schedule.layout import Layout, row_major
from anyrt.schedule.versions import originals, serving

SEED: Final = 20
NARROW: Final = frozenset({DataType.HALF, DataType.BF16, DataType.FP8})  # the rounding of tiles in scratch
MEMORY: Final = frozenset({Space.INPUT, Space.OUTPUT, Space.CONST, Space.ARENA})
HARD: Final = (
    np.nan,
    np.inf,
    -np.inf,
    3e38,
    -3e38,
    1e30,
    2.0**-127,
)  # of float32; others have their own limits
INTEGERS: Final = 100  # random integers of 32 bits or more are below: products of a few do not wrap


@dataclass(frozen=True, slots=True)
class Element:
    """An element that is wrong."""

    index: tuple[int, ...]
    got: str
    expected: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A kernel that differs from its reference. `values`: the values of the lowered graph that it computes;
    `inputs`: the graph's inputs as text, long ones shortened, which `random_inputs` generates from `seed`;
    `element`: the first one that is wrong."""

    kernel: str
    text: str
    layers: tuple[str, ...]
    values: frozenset[Value]
    inputs: tuple[str, ...]
    seed: int
    sizes: tuple[tuple[str, int], ...]
    finding: str
    element: Element | None = None

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {n}" for name, n in self.sizes)
        where = f"kernel {self.kernel} ({', '.join(self.layers)})" + (f" at {sizes}" if sizes else "")
        findings = [self.finding]
        if self.element is not None:
            e = self.element
            findings.append(f"element {list(e.index)}: got {e.got}, wanted {e.expected}")
        lines = [
            f"[AR805] {where}: {'; '.join(findings)}",
            f"inputs (seed {self.seed}):",
            *self.inputs,
            self.text,
        ]
        return "\n".join(lines)


def verify(
    lowered: Lowered,
    target: Target,
    device: Device,
    sizes_list: Sequence[Mapping[str, int]],
    progress: Progress | None = None,
    seed: int = SEED,
    store: Store | None = None,
) -> tuple[Mismatch, ...]:
    """The kernels that differ from the interpreter at some of the sizes, each reported once. `progress`
    receives every kernel that is compiled, and verified at one of the sizes, and may stop the work. `store`
    keeps the code."""
    progress = progress or Progress("verification")
    with progress.counted(COMPILING) as report:
        loaded = load(lowered, target, device, report, store)
    failed: dict[str, Mismatch] = {}
    syms = sizes_of(lowered.graph)
    checks = [_Check(loaded, at_most(sizes, syms), seed) for sizes in sizes_list]
    done = 0
    checks += [_Check(loaded, at_most(sizes, syms), seed, hard=True) for sizes in sizes_list[:1]]
    total = sum(len([*c.schedule.everywhere]) for c in checks)
    with progress.counted(VERIFYING) as report:
        report(0, total)
        for check in checks:
            for count, mismatches in check.run():
                failed |= {m.kernel: m for m in mismatches if m.kernel not in failed}
                done += count
                report(done, total)
    return tuple(failed.values())


def groups_failed(mismatches: Iterable[Mismatch]) -> frozenset[Value]:
    """Every value that a wrong kernel computes: these are built unfused (`alone` of native.lower)."""
    return frozenset().union(*(m.values for m in mismatches))


def random_array(
    rng: np.random.Generator, dtype: DataType, shape: tuple[int, ...], hard: bool = False
) -> Array:
    """Elements of either sign and some zeros, of moderate size; small integers over their whole range.
    `hard`: a few are NaN, infinite or close to the ends of their type's range."""
    count = prod(shape)
    if hard and is_float(dtype):
        numbers = random_array(rng, DataType.DOUBLE, (count,))
        some = min(len(HARD), count // 4)
        numbers[rng.choice(count, some, replace=False)] = rng.choice(HARD, some, replace=False)
        return cast(numbers, dtype).reshape(shape)
    if is_float(dtype):
        numbers = rng.standard_normal(count) * rng.choice(
            [0.0, 0.5, 2.0, 8.0], count, p=[0.05, 0.4, 0.5, 0.05]
        )
        return cast(numbers, dtype).reshape(shape)
    if is_integer(dtype) and bits(dtype) > 16:
        low = -INTEGERS if is_signed(dtype) else 0
        return rng.integers(low, INTEGERS, count).astype(numpy_dtype(dtype)).reshape(shape)
    return cast(rng.integers(0, 256, count) - 128, dtype).reshape(shape)


def random_inputs(
    graph: Graph, sizes: Mapping[str, int], seed: int = SEED, hard: bool = False
) -> dict[str, Array]:
    """Random arrays for the inputs of a graph; those that determine sizes give these sizes."""
    rng, feeds = np.random.default_rng(seed), dict[str, Array]()
    for name, value in graph.inputs:
        shape = tuple(evaluate(d, sizes) for d in value.shape)
        feeds[name] = random_array(rng, value.dtype, shape, hard)
        if isinstance(value.op, Param) and value.op.dynamic_values:
            known = [sizes[s.name] for s in value.op.dynamic_values]
            feeds[name] = np.array(known, numpy_dtype(value.dtype)).reshape(shape)
    return feeds


@dataclass(frozen=True, eq=False)
class _Check:
    """One run of the kernels of the version for `sizes`."""

    loaded: Loaded
    sizes: dict[str, int]  # data-dependent ones at their maximum, until they are computed
    seed: int
    hard: bool = False

    def run(self) -> Iterator[tuple[int, list[Mismatch]]]:
        """The number of kernels that were run, with the differences, each time that a tensor is complete."""
        before = [x for v in self._versions[: self.version] for x in every(v.steps)]
        yield from self._part(self.schedule, len(before))

    def _part(self, schedule: Schedule, number: int) -> Iterator[tuple[int, list[Mismatch]]]:
        """The kernels of a graph, and of its regions, which get random numbers like the graph; `number`: that
        of the first step. If data violate a condition, an inference would end, and if the rounding of
        data-dependent sizes is uncertain, nothing can be concluded."""
        held, first = self._leaves(schedule.graph), dict[Buffer, Value]()
        for _, value in schedule.graph.inputs:  # a region may read one tensor under several names
            buffer = schedule.buffers[value]
            held[value] = held[first.setdefault(buffer, value)]
            if buffer.space is Space.CONST:  # its input is a constant of the graph around it
                held[value] = self.trial.read(buffer, value.dtype, held[value].shape)
        fitting = _fitting(schedule.graph)
        for steps in _writers(schedule.steps):
            if isinstance(steps, RegionStep | ExternalStep):
                yield from self._part(steps.before, number)
                number += _numbered(steps.before) + 1
            if isinstance(steps, ExternalStep):
                held |= self._left(steps.node)
                continue
            if isinstance(steps, RegionStep):
                for body in steps.bodies:
                    yield from self._part(body, number)
                    number += _numbered(body)
                held |= self._left(steps.node)
                continue
            yield len(steps), self._step(schedule, steps, held, number)
            number += len(steps)
            tells = {v for x in steps for v in x.makes if v.op.tells is not None}
            if not tells <= held.keys() or any(int(held[v]) != FINE for v in fitting if v in held):
                return

    def _step(
        self,
        schedule: Schedule,
        launches: Sequence[Launch],
        held: dict[Value, Array],
        number: int,
    ) -> list[Mismatch]:
        """The differences of the joint result of some launches, which is stored in `held` then; `number`: of
        the first."""
        values = _results(schedule, launches)
        is_copy = any(x.group.copy for x in launches)
        anew = frozenset[Value]().union(*(x.group.anew for x in launches))
        stops = {v: a for v, a in held.items() if (v not in values.values() and v not in anew) or is_copy}
        on_the_way = NARROW if any(x.group.tile is not None for x in launches) else frozenset()
        references = {v: reference(v, stops, self.sizes, on_the_way) for v in values.values()}
        self._feed(schedule, launches, held)
        for k in range(len(launches)):
            self.trial.step(number + k)
        differences: list[Mismatch] = []
        for buffer, value in values.items():
            differences += self._compare(schedule, launches, buffer, value, references[value])
            sym = value.op.tells
            if sym is not None and not is_open(sym) and not references[value].exact:
                continue
            held[value] = cast(references[value].array, value.dtype)
            if sym is not None and is_open(sym):  # it keeps its assumed value, as memory does
                held[value] = np.array(self.sizes[sym.name])
            elif sym is not None:
                self.sizes[sym.name] = int(
                    np.clip(held[value], 0, at_most(self._known_sizes, [sym])[sym.name])
                )
            elif self.hard and is_float(value.dtype) and not isinstance(value.op, Const):
                # otherwise all later values would be NaN; constants stay in memory as they are
                rng = np.random.default_rng(self.seed + len(held))
                held[value] = random_array(rng, value.dtype, held[value].shape, hard=True)
        return [*differences, *self._overrun(schedule, launches)]

    @property
    def _known_sizes(self) -> dict[str, int]:
        """The sizes that do not depend on data."""
        symbols = (s.sym for s in self.loaded.lowered.graph.symbols)
        return {s.name: self.sizes[s.name] for s in symbols if s.most is None or is_open(s)}

    @cached_property
    def trial(self) -> Trial:
        return Trial(self.loaded, self.sizes)

    @cached_property
    def version(self) -> int:
        return serving((v.guard for v in self._versions), self.sizes)

    @property
    def _versions(self) -> Sequence[Guarded]:
        return self.loaded.lowered.module.versions

    @property
    def schedule(self) -> Schedule:
        return self.loaded.lowered.schedules[self.version]

    def _leaves(self, graph: Graph) -> dict[Value, Array]:
        """Inputs and constants, as stored."""
        feeds = random_inputs(graph, self.sizes, self.seed, self.hard)
        held = {value: feeds[name] for name, value in graph.inputs}
        for value in graph.values:
            if isinstance(value.op, Const):
                held[value] = value.op.blob.data.reshape(value.op.shape)
        return held

    def _left(self, node: Node) -> dict[Value, Array]:
        """The results of regions: random numbers, of the sizes that are known by then."""
        rng, results = np.random.default_rng(self.seed), dict[Value, Array]()
        for k, of in enumerate(node.types):
            shape = tuple(evaluate(d, self.sizes) for d in of.shape)
            results[Value(node, k)] = random_array(rng, of.dtype, shape, self.hard)
        return results

    def _feed(self, schedule: Schedule, launches: Sequence[Launch], held: Mapping[Value, Array]) -> None:
        """Write the operands of the launches; if values share memory, the operands come last."""
        touched = {b for x in launches for b in x.call.buffers}
        values = (v for x in launches for v in (*x.makes, *x.inlined))
        read = {a for v in values for a in (v, *(() if isinstance(v.compute, HostStep) else v.args))}
        for value in sorted(schedule.buffers, key=read.__contains__):
            buffer = schedule.buffers[value]
            if buffer in touched and value in held and buffer.space is not Space.CONST:
                self.trial.write(buffer, _layout(schedule, value).stored(held[value]), value.dtype)

    def _compare(
        self,
        schedule: Schedule,
        launches: Sequence[Launch],
        buffer: Buffer,
        value: Value,
        expected: Bounded,
    ) -> Iterator[Mismatch]:
        known = buffer == schedule.buffers.get(value)
        layout = _layout(schedule, value) if known else row_major(value.shape)
        shape = tuple(expected.array.shape[k] for k in layout.order)
        got = layout.read(self.trial.read(buffer, value.dtype, shape))
        wrong = differing(got, expected, value.dtype)
        if wrong.any():
            first = tuple(int(i) for i in np.argwhere(wrong)[0])
            allowed = SAFETY * float(np.broadcast_to(expected.error, wrong.shape)[first])
            element = Element(first, str(got[first]), f"{expected.array[first]} ± {allowed:.3g}")
            launch = _maker(launches, value, first, self.sizes)
            finding = f"{int(wrong.sum())} of {wrong.size} elements differ"
            yield self._mismatch(schedule, launch, element, finding)

    def _overrun(self, schedule: Schedule, launches: Sequence[Launch]) -> Iterator[Mismatch]:
        blocks = self.trial.overrun()
        if blocks:
            self.trial.mend()
            yield self._mismatch(schedule, launches[-1], None, f"it writes behind {', '.join(blocks)}")

    def _mismatch(
        self, schedule: Schedule, launch: Launch, element: Element | None, finding: str
    ) -> Mismatch:
        graph, mine = self.loaded.lowered.graph, schedule.graph
        origin = originals(graph, self.schedule.graph)
        values = [v for v in (*launch.makes, *launch.inlined) if schedule is not self.schedule or v in origin]
        return Mismatch(
            kernel=launch.kernel.name,
            text=print_kernels([launch.kernel]),
            layers=tuple(dict.fromkeys(mine.name(v) for v in values)),
            values=frozenset(origin[v] for v in values if v in origin),
            inputs=tuple(starmap(_describe, random_inputs(mine, self.sizes, self.seed, self.hard).items())),
            seed=self.seed,
            sizes=tuple(self.sizes.items()),
            finding=finding,
            element=element,
        )


def reference(
    value: Value,
    held: Mapping[Value, Array],
    sizes: Mapping[str, int],
    rounded: Container[DataType] = frozenset(),
) -> Bounded:
    """A value with its error bound, computed from the stored arrays `held`; values of the types `rounded` may
    have been stored in between."""
    bounds: dict[Value, Bounded] = {}
    todo = [value]
    while todo:
        top = todo[-1]
        if top in held and top not in bounds:
            bounds[top] = exact(held[top], top.dtype)
        missing = [] if top in bounds else [a for a in top.args if a not in bounds]
        if missing:
            todo += missing
            continue
        todo.pop()
        if top not in bounds and top.op.asserts is not None:  # random data as they are
            bounds[top] = bounds[top.args[0]]
        if top not in bounds:
            result = bounded(top, tuple(bounds[a] for a in top.args), sizes)
            bounds[top] = stored(result, top.dtype) if top.dtype in rounded else result
    return bounds[value]


def _fitting(graph: Graph) -> frozenset[Value]:
    """The conditions on data-dependent sizes."""
    judged = {v.args[-1] for v in graph.values if v.op.asserts is not None}
    return frozenset(v for v in judged if mentioned(walk((v,))))


def _numbered(schedule: Schedule) -> int:
    """The number of steps of the host program for a schedule."""
    every = (schedule.everywhere, schedule.region_steps, schedule.external_steps)
    return sum(1 for steps in every for _ in steps)


def _written(launch: Launch) -> list[Buffer]:
    """The buffers that a kernel stores to."""
    return [s.buffer for s in stores(launch.kernel.body)]


def _results(schedule: Schedule, launches: Sequence[Launch]) -> dict[Buffer, Value]:
    """The buffers that kernels write, with the values in each."""
    owners = {b: v for v, b in schedule.buffers.items()}
    owners |= {schedule.buffers[v]: v for x in launches for v in x.makes if v in schedule.buffers}
    owners |= {x.group.buffer: x.root for x in launches if x.group.copy}
    buffers = {b: None for x in launches for b in _written(x) if b.space in MEMORY}
    return {b: owners.get(b, launches[0].makes[0]) for b in buffers}


def _layout(schedule: Schedule, value: Value) -> Layout:
    return schedule.layouts.get(value) or row_major(value.shape)


def _writers(steps: Sequence[Step]) -> list[list[Launch] | RegionStep | ExternalStep]:
    """Kernels in order, grouped if they write parts of one buffer."""
    groups: list[list[Launch] | RegionStep | ExternalStep] = []
    together: list[Launch] = []
    last: frozenset[Buffer] = frozenset()
    for step in steps:
        if not isinstance(step, Launch):
            groups.append(step)
            last = frozenset()
            continue
        buffers = frozenset(b for b in _written(step) if b.space in MEMORY)
        if buffers.isdisjoint(last):
            together = []
            groups.append(together)
        together.append(step)
        last = buffers
    return groups


def _maker(
    launches: Sequence[Launch], value: Value, index: tuple[int, ...], sizes: Mapping[str, int]
) -> Launch:
    """The kernel that wrote an element of `value`: of a concatenation, that of the part that contains it."""
    if len(launches) == 1 or not isinstance(value.op, Concat):
        return launches[0]
    axis, launches = value.op.axis, [x for x in launches if not x.group.mends]
    ends = np.cumsum([evaluate(a.shape[axis], sizes) for a in value.args if 0 not in a.shape])
    return launches[int(np.searchsorted(ends, index[axis], side="right"))]


def _describe(name: str, array: Array) -> str:
    shown = np.array2string(
        array, threshold=64, edgeitems=2, separator=", ", precision=8, suppress_small=False
    )
    return f"{name} {array.dtype}{list(array.shape)} = {shown}"
