"""Processors to compile for, by the names that tests use."""

from dataclasses import replace

import pytest

from anyrt.backends.cpu import processors
from anyrt.backends.cpu.intrinsics import INTRINSICS
from anyrt.backends.cpu.processors import Level
from anyrt.backends.cpu.target import CpuTarget
from anyrt.codegen.target import Assembled
from anyrt.core.errors import CompileError
from anyrt.core.machine import REFERENCE
from anyrt.ir.kernel import Kernel
from anyrt.ir.kernelread import parse_kernels
from anyrt.ir.program import Module

_DOTS = ("has_sdot", "has_bfdot", "has_i8mm", "has_bfmmla")
_NEON = processors.forced(Level.NEON)
# AArch64 with products of small matrices of bytes and of bfloat16, and a machine with these instructions.
ARM_MM = replace(_NEON, features="+bf16,+dotprod,+i8mm", lacks=_NEON.lacks - set(_DOTS))
NEON_MM = ARM_MM.limited(replace(REFERENCE, **dict.fromkeys(_DOTS, True)))


def host() -> CpuTarget:
    """The processor of this machine, regardless of ANYRT_CPU."""
    return CpuTarget(processors.host())


def choose(level: str | None) -> CpuTarget:
    """The host, or a level that the host can run; skips the test if the host cannot run it."""
    try:
        return CpuTarget(processors.choose(level))
    except CompileError:
        if level is not None and processors.forced(Level(level)).arch is not processors.host().arch:
            pytest.skip(f"this machine is none that has {level}")
        raise


def forced(level: Level) -> CpuTarget:
    """The plainest processor of a level; this machine need not have it."""
    return CpuTarget(processors.forced(level))


def parsed(text: str) -> tuple[Kernel, ...]:
    """The kernels of a text that may use the CPU's intrinsics."""
    return parse_kernels(text, intrinsics=INTRINSICS)


def assembled(module: Module, target: CpuTarget) -> Assembled:
    """A host program with its kernels, as machine code."""
    functions = {id(k): target.emit(k, target.limited(REFERENCE)) for k in module.distinct}
    return target.assemble(module, functions, REFERENCE)
