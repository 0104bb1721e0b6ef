"""The compile side of the CPU: kernels as LLVM text, and a host program with its kernels as an image.

target = CpuTarget()
assembled = target.assemble(module, {id(k): target.emit(k, machine) for k in module.distinct}, machine)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from anyrt.backends.cpu import executor, processors
from anyrt.backends.cpu.emit import FUNCTION, emit
from anyrt.backends.cpu.image import flatten
from anyrt.backends.cpu.intrinsics import INTRINSICS
from anyrt.backends.cpu.link import Image, link
from anyrt.backends.cpu.meet import compile_meeting
from anyrt.backends.cpu.mix import compile_mix
from anyrt.backends.cpu.objects import Nowhere, compiled
from anyrt.backends.cpu.pool import compile_pool
from anyrt.backends.cpu.strategies import STRATEGIES
from anyrt.codegen import llvm
from anyrt.codegen.emit import ATTRIBUTES, Function
from anyrt.codegen.llvmtext import symbol
from anyrt.codegen.target import Answer, Assembled, Job, ReportProgress, Store
from anyrt.core.errors import CompileError
from anyrt.core.flags import read_flags
from anyrt.core.machine import Machine
from anyrt.ir.kernel import Intrinsic, Kernel
from anyrt.ir.prim import Array
from anyrt.ir.program import Module
from anyrt.plan.program import Compiled, Program
from anyrt.schedule.step import Strategies

_EXECUTORS: Final[dict[str, Image]] = {}  # that this process has compiled, by processor
_HARD: Final = llvm.Effort(speed=3, vectorize=True)


def _chosen() -> processors.Processor:
    return processors.choose(read_flags().cpu)


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """A processor to compile for: the host, limited by ANYRT_CPU."""

    processor: processors.Processor = field(default_factory=_chosen)

    @property
    def key(self) -> str:
        """Equal for targets that execute the same code."""
        return self.processor.key

    @property
    def strategies(self) -> Strategies:
        """Of backends/cpu/strategies/."""
        return STRATEGIES

    @property
    def facts(self) -> Sequence[tuple[str, str]]:
        """Names of LLVM, level, vectors."""
        p = self.processor
        return (
            ("processor", f"{p.cpu} ({p.triple})"),
            ("feature level", p.level.value),
            ("vectors", f"{p.vector_bits} bits, {p.registers} registers"),
        )

    def named(self, level: str | None) -> CpuTarget:
        """The baseline processor of a level; None: this machine's."""
        if level is None:
            return CpuTarget(processors.host())
        known = {x.value: x for x in processors.Level}
        if level not in known:
            raise CompileError("AR809", "--cpu", repr(level), f"one of {', '.join(known)}")
        return CpuTarget(processors.forced(known[level]))

    @property
    def intrinsics(self) -> Sequence[Intrinsic]:
        """Of backends/cpu/intrinsics.py."""
        return INTRINSICS

    def limited(self, machine: Machine) -> Machine:
        """`machine` without the features that this processor lacks."""
        return self.processor.limited(machine)

    def emit(self, kernel: Kernel, machine: Machine, *, checked: bool = False) -> Function:
        """A kernel as LLVM text."""
        return emit(kernel, machine, checked=checked)

    def text(
        self,
        kernels: Iterable[Kernel],
        machine: Machine,
        shared: Iterable[tuple[str, str]] = (),
        *,
        checked: bool = False,
    ) -> str:
        """LLVM text of kernels, each under its own name."""
        functions = [emit(k, machine, symbol(k.name), checked=checked) for k in kernels]
        declared = sorted(frozenset().union(*(f.declared for f in functions)))
        aliases = [f"@{symbol(a)} = alias {FUNCTION}, ptr @{symbol(kernel)}" for a, kernel in shared]
        return "\n\n".join([*declared, *(f.text for f in functions), *aliases, *ATTRIBUTES])

    def assembly(self, text: str) -> str:
        """The assembly of LLVM text, after LLVM's own passes."""
        return llvm.assembly(text, self.processor)

    def assemble(
        self,
        module: Module,
        functions: Mapping[int, Function],
        machine: Machine,
        store: Store | None = None,
        progress: ReportProgress = lambda done, total: None,
    ) -> Assembled:
        """Executor, program and kernels, linked. A process compiles the executor once, whatever `store`
        keeps."""
        kernels, cache = [f.module for f in functions.values()], Nowhere() if store is None else store
        executor_image = _EXECUTORS.get(self.key)
        if executor_image is not None:
            images = compiled(kernels, self.processor, cache, progress)
        else:  # the executor is compiled first, and is no kernel
            executor_text = executor.text(self.processor)
            texts = [executor_text, *kernels]
            images = compiled(
                texts, self.processor, cache, lambda done, total: progress(max(0, done - 1), total - 1)
            )
            executor_image = _EXECUTORS[self.key] = images[executor_text]
        image, entries, program = link(
            module, executor_image, functions, images, machine, self.processor.alignment
        )
        return Assembled(image, entries, program.slots, program.frames)

    def compile_pool(self) -> Compiled:
        """The pool of threads."""
        return compile_pool(self.processor)

    def compile_mix(self) -> Compiled:
        """The mixing function of checksums."""
        return compile_mix(self.processor)

    def compile_meeting(self) -> Compiled:
        """The exchange of small arrays between ranks."""
        return compile_meeting(self.processor)

    def compile_text(self, text: str) -> Compiled:
        """Functions of LLVM IR that call nothing external."""
        image, entries = flatten(llvm.compile_text(text, self.processor, _HARD))
        return Compiled(Program((), 0, 0, 0, 0, (), tuple(entries.items())), image)

    def run(self, job: Job, feeds: Mapping[str, Array]) -> Answer:
        """No outputs, since the device runs code; the size of the code as a note."""
        machine = self.limited(job.machine)
        images = compiled((emit(k, machine).module for k in job.module.distinct), self.processor, Nowhere())
        code = sum(len(function.code) for function in images.values())
        return Answer({}, f"kernels: {len(job.kernels)}, bytes of code: {code}")
