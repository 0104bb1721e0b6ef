"""The compile side of the CPU: kernels as LLVM text, and a host program with its kernels as an image.

image, entries, program = assemble(module, written(module.distinct, machine), target, machine)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from anyrt.backends.cpu import executor, processors
from anyrt.backends.cpu.bytecode import Encoded
from anyrt.backends.cpu.emit import FUNCTION, emit
from anyrt.backends.cpu.link import Piece, link
from anyrt.backends.cpu.objects import Nowhere, Store, Told, pieces
from anyrt.backends.protocol import Answer, Job
from anyrt.codegen.emit import ATTRIBUTES, Function
from anyrt.codegen.llvmtext import symbol
from anyrt.core.machine import REFERENCE, Machine
from anyrt.ir.kernel import Kernel
from anyrt.ir.prim import Array
from anyrt.ir.program import Module

_EXECUTORS: Final[dict[str, Piece]] = {}  # that this process has compiled, by processor


def text(
    kernels: Iterable[Kernel],
    machine: Machine,
    shared: Iterable[tuple[str, str]] = (),
    *,
    checked: bool = False,
) -> str:
    """LLVM text of kernels for a machine, each under its own name. `shared`: further names, each with the
    kernel that it is for."""
    made = [emit(k, machine, symbol(k.name), checked=checked) for k in kernels]
    declared = sorted(frozenset().union(*(f.declared for f in made)))
    aliases = [f"@{symbol(a)} = alias {FUNCTION}, ptr @{symbol(kernel)}" for a, kernel in shared]
    return "\n\n".join([*declared, *(f.text for f in made), *aliases, *ATTRIBUTES])


def written(kernels: Iterable[Kernel], machine: Machine, *, checked: bool = False) -> dict[int, Function]:
    """Each kernel as LLVM text for a machine, by the kernel's identity."""
    return {id(k): emit(k, machine, checked=checked) for k in kernels}


def assemble(
    module: Module,
    functions: Mapping[int, Function],
    target: processors.Processor,
    machine: Machine,
    store: Store | None = None,
    told: Told = lambda made, of: None,
) -> tuple[bytes, tuple[tuple[str, int], ...], Encoded]:
    """(image, entries, program) of a host program whose kernels are written as `functions`, with work shared
    as it pays on `machine`. Pieces come from `store` where it has them, the executor besides from what this
    process has compiled; `told` hears how many kernels there are of how many, and may stop the compilation of
    the others."""
    loop, kernels = executor.text(target), [f.module for f in functions.values()]
    known = _EXECUTORS.get(target.key) if store is None else None
    if known is not None:
        made = pieces(kernels, target, Nowhere(), told)
        return link(module, known, functions, made, machine, target.alignment)
    # The executor is compiled first, and is no kernel.
    texts, kept = [loop, *kernels], Nowhere() if store is None else store
    made = pieces(texts, target, kept, lambda made, of: told(max(0, made - 1), of - 1))
    _EXECUTORS[target.key] = made[loop]
    return link(module, made[loop], functions, made, machine, target.alignment)


class CpuTarget:
    """Compiling as a backend: what runs the code is the device."""

    def run(self, job: Job, feeds: Mapping[str, Array]) -> Answer:
        """No outputs; how much code this processor needs as a note."""
        target = processors.host()
        functions = written(job.kernels, target.limited(REFERENCE))
        made = pieces((f.module for f in functions.values()), target, Nowhere())
        code = sum(len(piece.image) for piece in made.values())
        return Answer({}, f"kernels: {len(job.kernels)}, bytes of code: {code}")
