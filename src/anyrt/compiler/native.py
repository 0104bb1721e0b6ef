"""Graph to native code: schedule, LLVM text, objects, one image.

compiled = compile_lowered(lower(graph, blobs, sizes), target)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from anyrt.codegen.emit import Function
from anyrt.codegen.target import NativeTarget, ReportProgress, Store
from anyrt.compiler.inplace import taken_over
from anyrt.core.counts import at_most, highest, is_open
from anyrt.core.dims import Dim, Sym, maximum
from anyrt.core.errors import NotSupportedError
from anyrt.core.machine import REFERENCE, Machine
from anyrt.core.requirement import Fence
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.compute import External
from anyrt.ir.counted import sizes_of
from anyrt.ir.graph import Graph, Node, Value
from anyrt.ir.kernel import Kernel
from anyrt.ir.program import Branch, Call, ExternalCall, Guarded, Module, Step, While, every
from anyrt.ir.statements import decided
from anyrt.ir.verify import assert_kernel
from anyrt.plan import abi
from anyrt.plan.exchange import ExchangeCall
from anyrt.plan.program import Compiled, OutsideCall, PluginCall, PluginTensor, Program
from anyrt.prims.collective import Collective
from anyrt.prims.const import Blob, Const
from anyrt.prims.plugin import Plugin
from anyrt.prims.table import named_blobs
from anyrt.schedule.arena import Arena, arrange
from anyrt.schedule.cost import Sizes
from anyrt.schedule.fuse import schedule
from anyrt.schedule.labels import labelled
from anyrt.schedule.launch import ExternalStep, Launch, Schedule, in_line, read_by, written_by
from anyrt.schedule.nest import Numbers
from anyrt.schedule.ports import port_names
from anyrt.schedule.step import Strategies
from anyrt.schedule.tables import Tables
from anyrt.schedule.task import Task
from anyrt.schedule.tuning import Tuning
from anyrt.schedule.versions import Version, originals, versions

Target: TypeAlias = NativeTarget[Strategies]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A graph as kernels for a machine, with addresses for all buffers; `anyrt explain` shows it before LLVM.
    `schedules`: one for each version (see schedule/versions.py); the last one serves all sizes."""

    graph: Graph
    machine: Machine
    schedules: tuple[Schedule, ...]
    module: Module
    arena_bytes: Dim

    @property
    def schedule(self) -> Schedule:
        """The schedule of the first version, which is nearly always the one executed."""
        return self.schedules[0]


def lower(
    graph: Graph,
    blobs: Mapping[Blob, int],
    sizes: Sizes,
    alone: frozenset[Value] = frozenset(),
    tunings: Mapping[Value, Tuning] | None = None,
    machine: Machine = REFERENCE,
    progress: ReportProgress = lambda done, total: None,
    *,
    strategies: Strategies,
    checked: bool = False,
) -> Lowered:
    """Schedule a graph and place its buffers; `blobs` has each constant's byte offset in the plan, `tunings`
    those of the kernels with these roots, `strategies` those of all kernels. The same machine gets the same
    kernels. `progress` is called after each kernel with the number done and the total, from 0 for every
    version; an exception that it raises ends the work. `checked`: kernels check every access."""
    sizes = Sizes(at_most(sizes.values, sizes_of(graph)))
    tables, scheduled, arenas = Tables(), list[Schedule](), list[Arena]()
    numbers = Numbers()  # a tensor of one version is not one of another, which has another address
    places: dict[Buffer, tuple[int, Dim]] = {}
    kinds = versions(graph)
    for version in kinds:
        origin = originals(graph, version.graph)
        unfused = frozenset(new for new, old in origin.items() if old in alone)
        own = {new: tunings[old] for new, old in origin.items() if old in tunings} if tunings else {}
        task = Task(version.graph, sizes, machine, strategies, unfused, own, tables, progress, numbers)
        scheduled.append(schedule(task))
        arenas.append(_arrange(scheduled[-1]))
        places |= _places(version.graph, scheduled[-1], arenas[-1], blobs)
    read = [b for s in scheduled for x in s.everywhere for b in x.call.buffers if b.space is Space.TABLE]
    tables.read = {b.offset for b in read}
    fills = tables.kernels()
    _check_known(fills)
    schedules = labelled(scheduled, [k.name for k in fills])
    guarded = [Guarded(v.guard, _steps(s)) for v, s in zip(kinds, schedules, strict=True)]
    symbols, bindings = [s.sym for s in graph.symbols], len(graph.inputs) + len(graph.outputs)
    module = Module(fills, guarded, places, symbols, bindings, checked, _inner(kinds, symbols))
    for call in (*module.fills, *module.calls):
        places.update({b: (abi.TABLES, b.offset) for b in call.buffers if b.space is Space.TABLE})
    for kernel in module.distinct:
        assert_kernel(kernel)
    return Lowered(graph, machine, schedules, module, reduce(maximum, (a.bytes for a in arenas)))


def _inner(kinds: Sequence[Version], symbols: Sequence[Sym]) -> tuple[Sym, ...]:
    """The sizes that regions compute."""
    every = dict.fromkeys(sym for version in kinds for sym in sizes_of(version.graph))
    return tuple(sym for sym in every if sym not in symbols)


def _check_known(fills: Sequence[Kernel]) -> None:
    """Tables are filled before an inference, which may compute sizes, and at its pauses."""
    for kernel in fills:
        names = sorted(s.name for s in decided(kernel) if not is_open(s))
        if names:
            got, do = f"a resize or border by sizes that depend on data, {names[0]}", "move it before these"
            raise NotSupportedError("AR901", "taps", got, "sizes that follow from those of inputs", do)


def _steps(schedule: Schedule) -> list[Step]:
    """The host program."""
    steps = list[Step]()
    for step in schedule.steps:
        if isinstance(step, Launch):
            steps.append(step.call)
            continue
        before, *bodies = map(_steps, step.parts)
        steps += before
        if isinstance(step, ExternalStep):
            steps.append(_external_call(step))
        elif step.turns:
            steps.append(While(step.name, step.flag, [x for body in bodies for x in body]))
        else:
            steps.append(Branch(step.name, step.flag, *bodies))
    return steps


def _external_call(step: ExternalStep) -> ExternalCall:
    how = Value(step.node).compute
    assert isinstance(how, External), f"{step.name} is computed here"
    return ExternalCall(step.name, (*step.reads, *step.writes), how.sizes)


def _arrange(schedule: Schedule) -> Arena:
    line = in_line(schedule)
    steps = [(written_by(x), read_by(x)) for x in line.steps]
    last = line.last_uses()
    return arrange(steps, last, taken_over(line.steps, last))


def _places(
    graph: Graph, schedule: Schedule, arena: Arena, blobs: Mapping[Blob, int]
) -> dict[Buffer, tuple[int, Dim]]:
    """For each buffer the word of the argument array with its base, and the byte offset from there."""
    words = {name: abi.FIRST_BINDING + n for n, name in enumerate(port_names(graph))}
    places = dict(_constants(schedule, blobs))
    touched = {b for x in schedule.everywhere for b in x.call.buffers}
    touched |= {b for x in schedule.external_steps for b in (*x.reads, *x.writes)}
    for buffer in touched | {x.flag for x in schedule.region_steps}:
        match buffer.space:
            case Space.INPUT | Space.OUTPUT:
                places[buffer] = (words[buffer.name], 0)
            case Space.ARENA:
                places[buffer] = (abi.ARENA, arena.offsets.get(buffer, 0))  # nothing writes an empty tensor
            case _:
                pass
    return places


def _constants(schedule: Schedule, blobs: Mapping[Blob, int]) -> Iterator[tuple[Buffer, tuple[int, Dim]]]:
    """The offsets of the constants of a graph and its regions."""
    for part in schedule.nested:
        for value in part.graph.values:
            buffer = part.buffers.get(value)
            if isinstance(value.op, Const) and buffer is not None and buffer.space is Space.CONST:
                yield buffer, (abi.CONSTS, blobs[value.op.blob])


def text(lowered: Lowered, target: Target) -> str:
    """LLVM text of all kernels for a processor, each under its own name, with the names of calls that share
    it."""
    module = lowered.module
    shared = [(c.name, c.kernel.name) for c in module.calls if c.name != c.kernel.name]
    return target.text(module.distinct, target.limited(lowered.machine), shared, checked=module.checked)


def written(lowered: Lowered, target: Target) -> dict[int, Function]:
    """Each kernel as LLVM text, by the kernel's identity."""
    module, machine = lowered.module, target.limited(lowered.machine)
    return {id(k): target.emit(k, machine, checked=module.checked) for k in module.distinct}


def compile_lowered(
    lowered: Lowered,
    target: Target,
    store: Store | None = None,
    progress: ReportProgress = lambda done, total: None,
    functions: Mapping[int, Function] | None = None,
) -> Compiled:
    """Native code for a processor, with the data that its caller needs. Code comes from `store` if it has it;
    `progress` is called with the number of kernels done and the total, and may stop the compilation.
    `functions`: code that is written already."""
    functions = written(lowered, target) if functions is None else functions
    assembled = target.assemble(lowered.module, functions, lowered.machine, store, progress)
    symbols: tuple[Dim, ...] = tuple(s.sym.dim for s in lowered.graph.symbols)
    return Compiled(
        Program(
            # `prepare` fills the slots behind the symbols; the caller only allocates them.
            symbols + (0,) * (len(assembled.slots) - len(symbols)),
            assembled.frames,
            lowered.arena_bytes,
            lowered.schedule.tables.bytes,
            scratch_bytes(lowered),
            tuple(x.name for x in lowered.module.steps),
            assembled.entries,
            assertions=lowered.module.assertions,
            inside=lowered.module.inside,
            loops=lowered.module.loops,
            fences=_fences(lowered.module),
            outside=_outside(lowered),
            guards=tuple(_guards(lowered.module)),
            reads=tuple(_reads(lowered.module)),
        ),
        assembled.image,
    )


def _guards(module: Module) -> Iterator[tuple[Dim, int]]:
    """The guard of each version, and its first step."""
    first = 0
    for version in module.versions:
        yield version.guard, first
        first += sum(1 for _ in every(version.steps))


def _reads(module: Module) -> Iterator[tuple[int, ...]]:
    """The offsets of the constants that each step reads, and at the end of those that tables depend on."""
    fills = [b for call in module.fills for b in call.buffers]
    for read in (*(x.buffers if isinstance(x, Call | ExternalCall) else () for x in module.steps), fills):
        places = [module.places[b] for b in read if b.space is Space.CONST]
        yield tuple(sorted({at for _, at in places if isinstance(at, int)}))


def _outside(lowered: Lowered) -> tuple[OutsideCall, ...]:
    """The calls of plug-ins and communicators, in the order of their numbers."""
    names = {blob: name for name, blob in named_blobs(lowered.graph).items()}
    return tuple(_outside_call(x.node, names) for s in lowered.schedules for x in s.external_steps)


def _outside_call(node: Node, names: Mapping[Blob, str]) -> OutsideCall:
    op = node.op
    if isinstance(op, Collective):
        (x, *_), what = node.args, (op.layer, op.operation, op.fold, op.root, op.group, op.ranks)
        return ExchangeCall(*what, x.dtype, x.type.rank, len(node.args))
    assert isinstance(op, Plugin), f"{op} is no plug-in"
    tensors = tuple(PluginTensor(x.type.dtype, len(x.type.shape), x.format, x.scale) for x in op.sees)
    key = (op.name, op.version, op.space)
    inputs, over = len(node.args), op.over or (-1,) * len(op.outs)
    return PluginCall(op.layer, *key, names[op.made], op.tactic, inputs, tensors, op.workspace, over)


def _fences(module: Module) -> tuple[Fence, ...]:
    """The checks of the accesses of each call, if they are checked."""
    calls = (*module.fills, *module.calls) if module.checked else ()
    return tuple(Fence(c.name, tuple(b.name for b in c.buffers)) for c in calls)


def scratch_bytes(lowered: Lowered) -> Dim:
    """An upper bound of a thread's scratch: the maximum over the kernels, which it runs one after the
    other."""
    none: Dim = 0
    return reduce(maximum, dict.fromkeys(highest(k.scratch) for k in lowered.module.distinct), none)
