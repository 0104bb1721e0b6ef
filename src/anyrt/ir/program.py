"""The host program: the steps of one native call of an engine, around its kernels.

A `Module` has kernels that fill tables when sizes change, and versions of an inference, each a list of steps
behind a guard. A `Call` applies a kernel to buffers, so equal layers share one kernel. `While` and `Branch`
repeat or select other steps; `ExternalCall` calls foreign code. Nothing here is processor code; a backend
encodes a module (backends/cpu/bytecode.py).

    sizes:
      n 1..64
    memory:
      in_x: FLOAT 4*n, input
      pos0: I32 2*n, table + 0
    prepare:
      table0(pos0, wgt0) over n
    run when eq(n, m):
      add1(in_x, in_y, out_z) over floordiv(n + 4095, 4096)
    run:
      add1 (any sizes)(in_x, in_y, out_z) over floordiv(n + 4095, 4096)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from anyrt.core.dims import Dim, Sym, add
from anyrt.core.dimtext import print_dim
from anyrt.core.requirement import Assertion
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.kernel import Kernel
from anyrt.ir.statements import buffers_in_order
from anyrt.ir.text import size_text
from anyrt.ir.visit import Rewrite


@dataclass(frozen=True, slots=True)
class Finding:
    """An int64 that a call stores in `buffer`: FINE, or the number of an error."""

    buffer: Buffer
    assertion: Assertion


@dataclass(frozen=True, slots=True)
class Call:
    """A call of `kernel` under its own name, with the buffers that `binds` substitutes, starting at the
    elements of `first` if not at the first one. `finds`: the condition on data that its result, a number,
    tests; the inference ends if it does not hold. `tells`: the sizes that its results, numbers, define."""

    kernel: Kernel
    name: str
    binds: Mapping[Buffer, Buffer] = field(default_factory=dict)
    first: Mapping[Buffer, Dim] = field(default_factory=dict)
    finds: Finding | None = None
    tells: tuple[tuple[Sym, Buffer], ...] = ()

    @property
    def bound(self) -> Kernel:
        """The kernel on the buffers of the call."""

        def access(buffer: Buffer, at: Dim) -> tuple[Buffer, Dim]:
            return self.binds.get(buffer, buffer), add(at, self.first.get(buffer, 0))

        return replace(self.kernel, name=self.name, body=Rewrite(access=access).body(self.kernel.body))

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers that it reads and writes, in the order in which the kernel mentions them."""
        return tuple(self.binds.get(b, b) for b in buffers_in_order(self.kernel))


@dataclass(frozen=True, slots=True)
class While:
    """Steps that are repeated while the bool in `flag` is true."""

    name: str
    flag: Buffer
    body: Sequence[Step]


@dataclass(frozen=True, slots=True)
class Branch:
    """The steps `then` if the bool in `flag` is true, else `otherwise`."""

    name: str
    flag: Buffer
    then: Sequence[Step]
    otherwise: Sequence[Step]


@dataclass(frozen=True, slots=True)
class ExternalCall:
    """A call of foreign code, with the addresses of `buffers`, and `sizes`."""

    name: str
    buffers: Sequence[Buffer]
    sizes: Sequence[Dim]


Step: TypeAlias = Call | While | Branch | ExternalCall


def inside(step: Step) -> tuple[Step, ...]:
    """The steps that a step consists of."""
    match step:
        case Call() | ExternalCall():
            return ()
        case While(body=body):
            return tuple(body)
        case Branch(then=then, otherwise=otherwise):
            return (*then, *otherwise)


def every(steps: Iterable[Step]) -> Iterator[Step]:
    """All steps in order, each before those inside it."""
    todo = [*reversed([*steps])]
    while todo:
        yield (step := todo.pop())
        todo += reversed(inside(step))


@dataclass(frozen=True, slots=True)
class Guarded:
    """The steps of an inference in order, for sizes at which `guard` is not 0."""

    guard: Dim
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True)
class Module:
    """All steps of an engine: the kernels that fill tables, and the versions of an inference, of which the
    first whose guard holds is executed. `places`: for each buffer the word of the argument array with its
    base, and the byte offset from there. `checked`: kernels check every access. `inner`: sizes that the
    caller does not know, since steps inside others compute them in each iteration."""

    tables: Sequence[Kernel]
    versions: Sequence[Guarded]
    places: Mapping[Buffer, tuple[int, Dim]]
    symbols: Sequence[Sym]
    bindings: int
    checked: bool = False
    inner: Sequence[Sym] = ()

    @property
    def fills(self) -> tuple[Call, ...]:
        """The kernels that fill tables, by name."""
        return tuple(Call(k, k.name) for k in self.tables)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of all versions, in the order in which `step` counts them."""
        return tuple(s for v in self.versions for s in every(v.steps))

    @property
    def inside(self) -> tuple[tuple[int, int], ...]:
        """The numbers of the steps that contain others, and how many these are."""
        containers, behind = list[tuple[int, int]](), list[int]()
        for n, step in reversed([*enumerate(self.steps)]):  # those behind it are counted
            count = sum(behind.pop() for _ in inside(step))
            containers += [(n, count)] if count else []
            behind.append(1 + count)
        return tuple(reversed(containers))

    @property
    def loops(self) -> tuple[int, ...]:
        """The numbers of the steps that repeat others."""
        return tuple(n for n, step in enumerate(self.steps) if isinstance(step, While))

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls among them."""
        return tuple(s for s in self.steps if isinstance(s, Call))

    @property
    def external(self) -> tuple[ExternalCall, ...]:
        """The calls of foreign code, in the order of their numbers in the interface."""
        return tuple(s for s in self.steps if isinstance(s, ExternalCall))

    @property
    def assertions(self) -> tuple[Assertion, ...]:
        """The conditions that calls test, in the order of the calls."""
        return tuple(c.finds.assertion for c in self.calls if c.finds is not None)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of all versions on their own buffers, for reading."""
        return tuple(c.bound for c in self.calls)

    @property
    def distinct(self) -> tuple[Kernel, ...]:
        """Every kernel once, even if it is called several times."""
        return tuple({id(c.kernel): c.kernel for c in (*self.fills, *self.calls)}.values())


def print_module(module: Module) -> str:
    """The host program as text."""
    return "".join(f"{line}\n" for line in _lines(module))


def _lines(module: Module) -> Iterator[str]:
    if sizes := (*module.symbols, *module.inner):
        yield "sizes:"
        yield from (f"  {size_text(s)}" for s in sizes)
    calls: tuple[Call | ExternalCall, ...] = (*module.fills, *module.calls, *module.external)
    buffers = dict.fromkeys(b for c in calls for b in c.buffers)
    if buffers:
        yield "memory:"
        yield from (_memory(module, b) for b in buffers if b.space is not Space.SCRATCH)
    if module.tables:
        yield "prepare:"
        yield from map(print_call, module.fills)
    for version in module.versions:
        yield "run:" if version.guard == 1 else f"run when {print_dim(version.guard)}:"
        yield from _steps(version.steps, "")


def _steps(steps: Iterable[Step], indent: str) -> Iterator[str]:
    for step in steps:
        match step:
            case Call():
                yield indent + print_call(step)
            case ExternalCall(name, buffers, sizes):
                listed = ", ".join(map(print_dim, sizes)) or "none"
                yield f"{indent}  {name}({', '.join(b.name for b in buffers)}) outside, sizes: {listed}"
            case While(name, flag, body):
                yield f"{indent}  {name} while {flag.name}:"
                yield from _steps(body, f"{indent}  ")
            case Branch(name, flag, then, otherwise):
                yield f"{indent}  {name} if {flag.name}:"
                yield from _steps(then, f"{indent}  ")
                yield f"{indent}  else:"
                yield from _steps(otherwise, f"{indent}  ")


def _memory(module: Module, buffer: Buffer) -> str:
    """The content of a buffer, and where it begins: bytes from the start of its space."""
    _, offset = module.places.get(buffer, (0, buffer.offset))
    own = buffer.space in (Space.INPUT, Space.OUTPUT)
    where = buffer.space.value if own else f"{buffer.space.value} + {print_dim(offset)}"
    return f"  {buffer.name}: {buffer.type.name} {print_dim(buffer.size)}, {where}"


def print_call(call: Call) -> str:
    """One line: the kernel, its memory, and the number of iterations of its parallel loop."""
    lie = [(call.binds.get(b, b), call.first.get(b, 0)) for b in buffers_in_order(call.kernel)]
    names = ", ".join(
        b.name if first == 0 else f"{b.name} + {print_dim(first)}"
        for b, first in lie
        if b.space is not Space.SCRATCH
    )
    judged = "" if call.finds is None else f", or {call.finds.assertion.code}"
    computed = "".join(f", gives {sym}" for sym, _ in call.tells)
    return f"  {call.name}({names}) over {print_dim(call.kernel.var.extent or 0)}{judged}{computed}"
