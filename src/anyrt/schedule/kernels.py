"""Build: the kernel of a group; the last of four steps (fuse.py).

Groups that are equal in sizes, types and stored operands share one kernel, which each calls with its own
buffers. Building a kernel may show that a value cannot be computed inside it: that is a `FusionFailure` with
the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace

from anyrt.ir.buffer import Buffer
from anyrt.ir.graph import Value
from anyrt.ir.kernel import Kernel
from anyrt.ir.program import Call, Finding
from anyrt.ir.statements import buffers_in_order
from anyrt.schedule.elements import FusionFailure
from anyrt.schedule.group import Group, Inside, Signature, signed
from anyrt.schedule.launch import Launch
from anyrt.schedule.layout import Layout
from anyrt.schedule.naive import Builder
from anyrt.schedule.pieces import pieces
from anyrt.schedule.store import Memory
from anyrt.schedule.task import Task
from anyrt.schedule.tuning import Tuning


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """The kernel of the first of equal groups, its buffers in the order of the signature, its strategy, and
    why it does without instructions that a step intended."""

    kernel: Kernel
    buffers: tuple[Buffer, ...]
    kind: str
    unmet: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """The value that the first of equal groups could not compute, by its number in the signature."""

    number: int
    reason: str


Fused = Callable[["Plan", Group, Signature, str], BuiltKernel | FusionFailure]


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions before kernels are created: which values are stored, and how."""

    task: Task
    memory: Memory
    layouts: Mapping[Value, Layout]

    def tuning(self, group: Group) -> Tuning:
        """The tuning of a group's kernel."""
        return self.task.tunings.get(group.root, self.task.strategies.tuning)

    def builder(self, group: Group, name: str) -> Builder:
        """The builder of a group's kernel, on its own buffers."""
        tuning, task = self.tuning(group), self.task
        return Builder(
            group,
            Inside(self.memory.buffers, group.own),
            task.tables,
            task.sizes,
            task.machine,
            pieces(task.machine, tuning),
            name,
            task.strategies.without(*task.strategies.names.intersection(tuning.without)),
            self.memory.past,
            layouts=self.layouts,
        )


def build(
    plan: Plan, group: Group, name: str, created: dict[Hashable, BuiltKernel | Failed], fused: Fused
) -> Launch | FusionFailure:
    """The call of a group's kernel. `created`: the results for equal groups, which grow; `fused` creates the
    kernels of fused tiles."""
    tuning, stored = plan.tuning(group), Inside(plan.memory.buffers, group.own)
    signature = signed(group, stored, plan.memory.past, plan.layouts)
    key = (signature.key, tuning)
    if key not in created:
        first = _first(plan, group, signature, name, fused)
        if not isinstance(first, FusionFailure):
            created[key] = first
        elif first.value in signature.values:
            created[key] = Failed(signature.values.index(first.value), first.reason)
        else:  # below the values of this group
            return first
    outcome = created[key]
    if isinstance(outcome, Failed):
        return FusionFailure(signature.values[outcome.number], outcome.reason)
    return _launched(outcome, plan.memory, group, signature, name, tuning)


def _launched(
    built: BuiltKernel, memory: Memory, group: Group, signature: Signature, name: str, tuning: Tuning
) -> Launch:
    """The call of a kernel that was created for this group, or an equal one."""
    pairs = list(zip(built.buffers, signature.buffers, strict=True))
    binds = {formal: b for formal, b in pairs if formal != b}
    begins = {formal: at for formal, b in pairs if (at := signature.first(b)) != 0}
    judged = ((memory.buffers[v], memory.assertions[v]) for v in group.makes if v in memory.assertions)
    finds = next((Finding(b, a) for b, a in judged), None)
    tells = tuple((v.op.tells, memory.buffers[v]) for v in group.makes if v.op.tells is not None)
    inlined = tuple(v for v in signature.inlined if v not in group.makes)
    call = Call(built.kernel, name, binds, begins, finds, tells)
    return Launch(call, group, inlined, built.kind, tuning, built.unmet)


def _first(
    plan: Plan, group: Group, signature: Signature, name: str, fused: Fused
) -> BuiltKernel | FusionFailure:
    """The kernel of the first of equal groups."""
    if group.tile is not None:
        return fused(plan, group, signature, name)
    builder = _sectioned(plan, group, signature, name)
    kernel = builder.build()
    if isinstance(kernel, FusionFailure):
        return kernel
    marked = {replace(b, nontemporal=0): b for b in buffers_in_order(kernel)}
    formal = (signature.formal(b) for b in signature.buffers)
    return BuiltKernel(kernel, tuple(marked.get(b, b) for b in formal), builder.kind, builder.unmet)


def _sectioned(plan: Plan, group: Group, signature: Signature, name: str) -> Builder:
    """The builder of the kernel for all groups of a signature: of a buffer it knows only the section."""
    if not signature.sections:
        return plan.builder(group, name)
    stored, past = plan.memory.buffers, plan.memory.past
    buffers = {v: stored[v] for v in signature.values if v in stored}
    leaves = {v: b for v, b in buffers.items() if b in signature.sections}
    instead = {v: signature.formal(b) for v, b in leaves.items()}
    part = group.part
    if part is not None and group.layout is None:
        part = replace(part, start=(0,) * len(part.start))
    return replace(
        plan.builder(replace(group, buffer=signature.formal(group.buffer), part=part), name),
        buffers=Inside(stored, group.own, instead),
        first={v: signature.first(b) for v, b in leaves.items()},
        past={signature.formal(b): past[b] for b in signature.buffers if b in past},
    )
