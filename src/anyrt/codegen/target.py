"""The compiler's interface to the compile side of a backend: `Target`, and `NativeTarget` for native code.

The run side, which native code needs, is `plan.device.Device`; it must work without any compiler.
`backends/loader.py` finds both; the compiler receives them as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from anyrt.codegen.emit import Function
from anyrt.core.dims import Dim
from anyrt.core.dimvalues import evaluate
from anyrt.core.machine import Machine
from anyrt.ir.graph import Graph, Node
from anyrt.ir.kernel import Intrinsic, Kernel
from anyrt.ir.prim import Array
from anyrt.ir.program import Call, Module, every
from anyrt.plan.program import Compiled

S = TypeVar("S", covariant=True)  # strategies, whose type scheduling defines (schedule/step.py)
ReportProgress: TypeAlias = Callable[[int, int], None]  # (compiled kernels, all kernels)


class Store(Protocol):
    """A cache of the code of functions; a problem in it is a miss."""

    def get_bytes(self, key: str) -> bytes | None:
        """The content stored at `key`, or None."""

    def put_bytes(self, key: str, parts: Sequence[bytes | memoryview]) -> bool:
        """Store `parts`, joined, at `key`."""


@dataclass(frozen=True, slots=True)
class Job:
    """A network for a machine, at particular sizes: its graph and host program, and the value of every
    symbol, the upper bound of data-dependent ones. `memory`: constants, and memory for the values between
    kernels, by the words of the argument array (`plan/abi.py`). `external`: the nodes of `module.external`,
    in order."""

    graph: Graph
    module: Module
    machine: Machine
    sizes: Mapping[str, int] = field(default_factory=dict)
    memory: Mapping[int, NDArray[np.uint8]] = field(default_factory=dict)
    external: tuple[Node, ...] = ()

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the version for these sizes, in order, on the buffers of their calls."""
        version = next(v for v in self.module.versions if evaluate(v.guard, self.sizes))
        return tuple(s.bound for s in every(version.steps) if isinstance(s, Call))


@dataclass(frozen=True, slots=True)
class Answer:
    """The outputs by name, none from a backend that computes nothing; `notes`: text for users."""

    outputs: Mapping[str, Array]
    notes: str = ""


class Target(Protocol[S]):
    """The compile side of a backend."""

    @property
    def strategies(self) -> S:
        """How it schedules kernels of serial loops."""

    @property
    def intrinsics(self) -> Sequence[Intrinsic]:
        """The intrinsics that its kernels may use: on each machine an instruction, or their definition is
        compiled."""

    def limited(self, machine: Machine) -> Machine:
        """`machine` without the features that the target lacks."""

    def run(self, job: Job, feeds: Mapping[str, Array]) -> Answer:
        """The result of the network for these inputs."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """A host program with its kernels as an image: `entries` by name and offset, the values `slots` that its
    caller puts behind the bindings, first those of the symbols, and the words `frames` behind these."""

    image: bytes
    entries: tuple[tuple[str, int], ...]
    slots: tuple[Dim, ...]
    frames: int


class NativeTarget(Target[S], Protocol[S]):
    """The compile side of a backend whose device runs native code: one processor to compile for."""

    @property
    def key(self) -> str:
        """Equal for targets that execute the same code: part of the keys of cached code."""

    @property
    def facts(self) -> Sequence[tuple[str, str]]:
        """The properties of the processor that `anyrt info` prints, each with its value."""

    def named(self, level: str | None) -> NativeTarget[S]:
        """The baseline processor of this name, which need not be this machine's; None: this machine's.
        CompileError AR809 for an unknown name."""

    def emit(self, kernel: Kernel, machine: Machine, *, checked: bool = False) -> Function:
        """A kernel as text, with every access checked or not."""

    def text(
        self,
        kernels: Iterable[Kernel],
        machine: Machine,
        shared: Iterable[tuple[str, str]] = (),
        *,
        checked: bool = False,
    ) -> str:
        """The text of kernels for users, each under its own name. `shared`: further names, each with the
        kernel that it is for."""

    def assembly(self, text: str) -> str:
        """The assembly of a text that `text` returned."""

    def assemble(
        self,
        module: Module,
        functions: Mapping[int, Function],
        machine: Machine,
        store: Store | None = None,
        progress: ReportProgress = lambda done, total: None,
    ) -> Assembled:
        """A host program whose kernels are written as `functions`, by their identity, with work shared as it
        pays on `machine`. Code comes from `store` where it has it. `progress` receives the numbers of
        compiled and of all kernels; an exception that it raises stops the compilation of the others."""

    def compile_pool(self) -> Compiled:
        """The pool of threads (`plan/crew.py`)."""

    def compile_mix(self) -> Compiled:
        """The function that mixes checksums (`plan/checksum.py`)."""

    def compile_meeting(self) -> Compiled:
        """The exchange of small arrays between ranks (`backends/meeting.py`)."""

    def compile_text(self, text: str) -> Compiled:
        """Functions that a program has written itself; CompileError for text that the compiler rejects."""
