"""LLVM behind one typed module: which processor there is, and text in, object or assembly out.

This is the only module that imports llvmlite. Every call uses a context of its own, so that any number of
threads may compile at once (llvmlite itself lets one of them at a time into LLVM).

>>> forced(Level.AVX2).vector_bits
256
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

import llvmlite
import llvmlite.binding as llvm
from llvmlite.binding import ffi

from anyrt.core.errors import CompileError
from anyrt.core.machine import Machine
from anyrt.plan.room import require_room

T = TypeVar("T")
PERMUTED_BITS = 512  # of the registers that backends/cpu/permute.py picks from

# A child that is forked while another thread is inside LLVM would find llvmlite's lock taken for ever, and
# what LLVM shares between contexts half changed; so a fork waits for the call to end.
_lock = ffi.lib._lock
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(before=_lock.__enter__, after_in_parent=_lock.__exit__, after_in_child=_lock.__exit__)


class Arch(enum.Enum):
    """The instruction set family."""

    X86_64 = "x86_64"
    AARCH64 = "aarch64"
    OTHER = "other"


class Level(enum.Enum):
    """What code may use: the names that ANYRT_CPU takes."""

    AVX512 = "avx512"
    AVX2 = "avx2"
    SSE2 = "sse2"
    NEON = "neon"
    GENERIC = "generic"


@dataclass(frozen=True, slots=True)
class Target:
    """A processor to compile for; `features` in LLVM's notation ("+avx2,+fma")."""

    level: Level
    arch: Arch
    triple: str
    cpu: str
    features: str
    vector_bits: int
    registers: int
    has_fma: bool
    has_f16c: bool
    has_bf16: bool
    has_vnni: bool

    @property
    def key(self) -> str:
        """Equal for targets that run the same code: part of the cache key."""
        return f"{self.triple} {self.cpu} {self.features}"

    def limited(self, machine: Machine) -> Machine:
        """`machine` without what this processor has not."""
        bytewise = "+avx512vbmi," in self.features
        here = [1] * bytewise + [2, 4] if self.vector_bits == PERMUTED_BITS else []
        return replace(
            machine,
            vector_bits=min(machine.vector_bits, self.vector_bits),
            registers=min(machine.registers, self.registers),
            has_fma=machine.has_fma and self.has_fma,
            has_rounding=machine.has_rounding and self.has_f16c,
            permutes=tuple(size for size in here if size in machine.permutes),
            has_bf16=machine.has_bf16 and self.has_bf16,
        )


@dataclass(frozen=True, slots=True)
class _LevelFacts:
    arch: Arch
    cpu: str
    vector_bits: int
    registers: int
    needs: tuple[str, ...]


_AVX2_NEEDS = ("avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe", "popcnt")
_AVX512_NEEDS = (*_AVX2_NEEDS, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
# Best first: the host gets the first level of its family whose needs it meets.
_LEVELS: dict[Level, _LevelFacts] = {
    Level.AVX512: _LevelFacts(Arch.X86_64, "x86-64-v4", 512, 32, _AVX512_NEEDS),
    Level.AVX2: _LevelFacts(Arch.X86_64, "x86-64-v3", 256, 16, _AVX2_NEEDS),
    Level.SSE2: _LevelFacts(Arch.X86_64, "x86-64", 128, 16, ()),
    Level.NEON: _LevelFacts(Arch.AARCH64, "generic", 128, 32, ("neon",)),
    Level.GENERIC: _LevelFacts(Arch.OTHER, "generic", 128, 16, ()),
}
_TRIPLES = {Arch.X86_64: "x86_64-unknown-linux-gnu", Arch.AARCH64: "aarch64-unknown-linux-gnu"}
_ARCHS = {"x86_64": Arch.X86_64, "amd64": Arch.X86_64, "aarch64": Arch.AARCH64, "arm64": Arch.AARCH64}


@cache
def host() -> Target:
    """The processor of this machine, with every feature that its operating system enables."""
    triple = llvm.get_process_triple()
    arch = _ARCHS.get(triple.split("-")[0], Arch.OTHER)
    found: Mapping[str, bool] = llvm.get_host_cpu_features()
    for level, facts in _LEVELS.items():
        if facts.arch is arch and all(found.get(name, False) for name in facts.needs):
            features = ",".join(("+" if on else "-") + name for name, on in sorted(found.items()))
            return _target(level, facts, triple, llvm.get_host_cpu_name(), features, found)
    return _target(Level.GENERIC, _LEVELS[Level.GENERIC], triple, "generic", "", {})


def forced(level: Level) -> Target:
    """The plainest processor of `level`: what ANYRT_CPU asks for, and cross compilation."""
    facts = _LEVELS[level]
    if facts.arch is Arch.OTHER:
        return _target(level, facts, llvm.get_process_triple(), "generic", "", {})
    on = dict.fromkeys(facts.needs, True)
    return _target(level, facts, _TRIPLES[facts.arch], facts.cpu, "", on)


def choose(name: str | None) -> Target:
    """The host, or the level called `name` when the host can run it."""
    if name is None:
        return host()
    levels = {level.value: level for level in _LEVELS}
    where = "environment variable ANYRT_CPU"
    if name not in levels:
        raise CompileError("AR809", where, got=repr(name), wanted=f"one of {', '.join(levels)}")
    target, found = forced(levels[name]), llvm.get_host_cpu_features()
    missing = [f for f in _LEVELS[target.level].needs if not found.get(f, False)]
    if target.arch not in (host().arch, Arch.OTHER) or missing:
        lacks = f"this machine, which lacks {', '.join(missing) or target.arch.value}"
        raise CompileError("AR809", where, got=f"{name!r} on {lacks}", wanted="a level that the machine has")
    return target


def _target(
    level: Level, facts: _LevelFacts, triple: str, cpu: str, features: str, found: Mapping[str, bool]
) -> Target:
    arm = facts.arch is Arch.AARCH64
    return Target(
        level=level,
        arch=facts.arch,
        triple=triple,
        cpu=cpu,
        features=features,
        vector_bits=facts.vector_bits,
        registers=facts.registers,
        has_fma=arm or found.get("fma", False),
        has_f16c=arm or found.get("f16c", False),
        has_bf16=found.get("avx512bf16", False),
        has_vnni=found.get("avx512vnni", False) or found.get("dotprod", False),
    )


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard LLVM works; it vectorises nothing by default, since kernels come with their vectors chosen."""

    speed: int = 2
    vectorize: bool = False
    unroll: bool = True


NORMAL = Effort()
VERSION = f"llvmlite {llvmlite.__version__}, LLVM {llvm.llvm_version_info}, {NORMAL}"

# Measured on texts of 32 KB to 2 MB: 1 MB and 5.3 times the text; three times as much is asked for.
_ROOM, _ROOM_PER_BYTE = 32 << 20, 16


def compile_text(ir: str, target: Target, effort: Effort = NORMAL) -> bytes:
    """A position-independent object file of the module `ir`."""
    return _with_module(ir, target, effort, lambda machine, module: bytes(machine.emit_object(module)))


def assembly(ir: str, target: Target, effort: Effort = NORMAL) -> str:
    """The assembly that `compile_text` makes an object of."""
    return _with_module(ir, target, effort, lambda machine, module: str(machine.emit_assembly(module)))


def optimised(ir: str, target: Target, effort: Effort = NORMAL) -> str:
    """The module after LLVM's own passes."""
    return _with_module(ir, target, effort, lambda _, module: str(module))


def _with_module(
    ir: str, target: Target, effort: Effort, emit: Callable[[llvm.TargetMachine, llvm.ModuleRef], T]
) -> T:
    require_room(_ROOM + _ROOM_PER_BYTE * len(ir), "LLVM")
    _initialise()
    context = llvm.create_context()
    try:
        machine = llvm.Target.from_triple(target.triple).create_target_machine(
            cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="small"
        )
        with llvm.parse_assembly(ir, context) as module:
            module.triple, module.data_layout = target.triple, str(machine.target_data)
            module.verify()
            _optimise(module, machine, effort)
            return emit(machine, module)
    except RuntimeError as error:  # what llvmlite raises for whatever LLVM says
        raise _refused(str(error), ir) from None


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, effort: Effort) -> None:
    tuning = llvm.create_pipeline_tuning_options(effort.speed)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_interleaving = effort.vectorize
    tuning.loop_unrolling = effort.unroll
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


@cache
def _initialise() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()  # for inline assembly


def _refused(message: str, ir: str) -> CompileError:
    """LLVM's message, with the line of the text that it names."""
    place = re.search(r"<string>:(\d+):(\d+)", message)
    lines = ir.splitlines()
    if place is None or not 0 < int(place[1]) <= len(lines):
        return CompileError("AR808", "generated code", got=message.strip())
    text = re.sub(r"\s+", " ", message.split("error:", 1)[-1]).strip()
    where = f"generated code, line {place[1]} column {place[2]} ({lines[int(place[1]) - 1].strip()})"
    return CompileError("AR808", where, got=text)
