"""Processors: the host and the baseline of each level, by LLVM's names, with the instructions that kernels
may use.

>>> forced(Level.AVX2).vector_bits
256
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from anyrt.backends.cpu import aarch64
from anyrt.backends.cpu.image import PAGE
from anyrt.backends.cpu.permission import permit_tiles
from anyrt.backends.cpu.permute import REGISTER
from anyrt.codegen import llvm
from anyrt.core.errors import CompileError
from anyrt.core.machine import Machine

LINE: Final = 64


class Arch(enum.Enum):
    """The instruction set family."""

    X86_64 = "x86_64"
    AARCH64 = "aarch64"
    OTHER = "other"


class Level(enum.Enum):
    """Levels of instructions: the names that ANYRT_CPU accepts."""

    AVX512 = "avx512"
    AVX2 = "avx2"
    SSE2 = "sse2"
    NEON = "neon"
    GENERIC = "generic"


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor to compile for; `features` in LLVM's notation ("+avx2,+fma"), `lacks`: fields of `Machine`
    that it does not have."""

    level: Level
    arch: Arch
    triple: str
    cpu: str
    features: str
    vector_bits: int
    registers: int
    lacks: frozenset[str]

    @property
    def key(self) -> str:
        """Equal for targets that execute the same code: part of the cache key."""
        return f"{self.triple} {self.cpu} {self.features}"

    @property
    def family(self) -> Arch:
        """The baseline of the triple: LLVM's default for unknown processors."""
        return _family(self.triple)

    @property
    def alignment(self) -> int:
        """The alignment of code in bytes: a cache line; on AArch64 a page, which ADRP counts."""
        return PAGE if self.family is Arch.AARCH64 else LINE

    def limited(self, machine: Machine) -> Machine:
        """`machine` without the features that this processor lacks."""
        bytewise = "+avx512vbmi," in self.features
        here = [1] * bytewise + [2, 4] if self.vector_bits == 8 * REGISTER else []
        without: dict[str, Any] = dict.fromkeys(self.lacks, False)  # Any: of fields that are bools
        return replace(
            machine,
            vector_bits=min(machine.vector_bits, self.vector_bits),
            registers=min(machine.registers, self.registers),
            permutes=tuple(size for size in here if size in machine.permutes),
            **without,
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
# Best first: the host gets the first level of its family whose requirements it meets.
_LEVELS: dict[Level, _LevelFacts] = {
    Level.AVX512: _LevelFacts(Arch.X86_64, "x86-64-v4", 512, 32, _AVX512_NEEDS),
    Level.AVX2: _LevelFacts(Arch.X86_64, "x86-64-v3", 256, 16, _AVX2_NEEDS),
    Level.SSE2: _LevelFacts(Arch.X86_64, "x86-64", 128, 16, ()),
    Level.NEON: _LevelFacts(Arch.AARCH64, "generic", 128, 32, ()),
    Level.GENERIC: _LevelFacts(Arch.OTHER, "generic", 128, 16, ()),
}
# Features of a machine, by LLVM's names.
_HAS: Mapping[Arch, Mapping[str, tuple[str, ...]]] = {
    Arch.X86_64: {
        "has_fma": ("fma",),
        "has_rounding": ("f16c",),
        "has_bf16": ("avx512bf16",),
        "has_extremes": (),
        "has_vnni": ("avx512vnni",),
        "has_tiles": ("amx-tile", "amx-int8", "amx-bf16"),
    },
    Arch.AARCH64: {
        "has_fma": (),
        "has_rounding": (),
        "has_sdot": ("dotprod",),
        "has_bfdot": ("bf16",),
        "has_i8mm": ("i8mm",),
        "has_bfmmla": ("bf16",),
    },
    Arch.OTHER: {},
}
_TRIPLES = {Arch.X86_64: "x86_64-unknown-linux-gnu", Arch.AARCH64: "aarch64-unknown-linux-gnu"}
_ARCHS = {"x86_64": Arch.X86_64, "amd64": Arch.X86_64, "aarch64": Arch.AARCH64, "arm64": Arch.AARCH64}


def _family(triple: str) -> Arch:
    return _ARCHS.get(triple.split("-")[0], Arch.OTHER)


@cache
def host() -> Processor:
    """The processor of this machine, with every feature that its operating system enables."""
    triple, cpu, features = llvm.this_processor()
    arch = _family(triple)
    if arch is Arch.AARCH64 and "apple" in triple:
        triple, features = aarch64.APPLE, {**features, **aarch64.APPLE_NEEDS}
    elif arch is Arch.AARCH64:
        features = {**features, **aarch64.dots()}
    for level, facts in _LEVELS.items():
        if facts.arch is arch and all(features.get(name, False) for name in facts.needs):
            listed = ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))
            return _processor(level, facts, triple, cpu, listed, features)
    return _processor(Level.GENERIC, _LEVELS[Level.GENERIC], triple, "generic", "", {})


def forced(level: Level) -> Processor:
    """The baseline processor of `level`, for ANYRT_CPU and cross compilation."""
    facts = _LEVELS[level]
    if facts.arch is Arch.OTHER:
        return _processor(level, facts, llvm.this_processor()[0], "generic", "", {})
    on = dict.fromkeys(facts.needs, True)
    return _processor(level, facts, _TRIPLES[facts.arch], facts.cpu, "", on)


def choose(name: str | None) -> Processor:
    """The host, or the level called `name` if the host supports it."""
    if name is None:
        return host()
    levels = {level.value: level for level in _LEVELS}
    where = "environment variable ANYRT_CPU"
    if name not in levels:
        raise CompileError("AR809", where, got=repr(name), wanted=f"one of {', '.join(levels)}")
    target, (_, _, features) = forced(levels[name]), llvm.this_processor()
    missing = [f for f in _LEVELS[target.level].needs if not features.get(f, False)]
    if target.arch not in (host().arch, Arch.OTHER) or missing:
        lacks = f"this machine, which lacks {', '.join(missing) or target.arch.value}"
        raise CompileError("AR809", where, got=f"{name!r} on {lacks}", wanted="a level that the machine has")
    return target


def _processor(
    level: Level, facts: _LevelFacts, triple: str, cpu: str, features: str, enabled: Mapping[str, bool]
) -> Processor:
    has = {x for x, needs in _HAS[facts.arch].items() if all(enabled.get(name, False) for name in needs)}
    has -= set() if permit_tiles() else {"has_tiles"}
    lacks = frozenset(x for every in _HAS.values() for x in every if x not in has)
    return Processor(level, facts.arch, triple, cpu, features, facts.vector_bits, facts.registers, lacks)
