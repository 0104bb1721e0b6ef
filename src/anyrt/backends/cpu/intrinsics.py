"""The intrinsics of processors: the definition of each, and the instruction of a machine for it.

Strategies call `dot_for` for the intrinsic that sums their terms; kernels name it, and `instruction_for`
returns the instruction. If a machine has none, the definition is compiled (ir/intrinsic.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from anyrt.core.machine import Machine
from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Intrinsic

PAIRS: Final = Intrinsic("dot2", Scalar.BF16, Scalar.BF16, Scalar.F32)
BYTES: Final = Intrinsic("dot4", Scalar.I8, Scalar.I8, Scalar.I32)
UNSIGNED: Final = Intrinsic("dot4u", Scalar.U8, Scalar.I8, Scalar.I32)  # the first word's bytes
SHORTS: Final = Intrinsic("dot2s", Scalar.I16, Scalar.I16, Scalar.I32)
INTRINSICS: Final = (PAIRS, BYTES, UNSIGNED, SHORTS)


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction that adds an intrinsic to sums in vector registers of so many `words`: LLVM's `name`,
    with factors of the type `terms`, if a machine `has` it."""

    intrinsic: Intrinsic
    name: str
    words: int
    terms: str
    has: Callable[[Machine], bool]


@dataclass(frozen=True, slots=True)
class Grid:
    """The matrix tiles that instructions sum: `deep` words at once, of up to `rows` × `lanes`, at most
    `sums`; a number of rows above `odd` is even. `apart`: in separate registers, where a product takes a
    sixteenth of the time of dots, for any number of rows."""

    deep: int
    rows: int
    odd: int
    lanes: int
    sums: int
    apart: bool

    def fits(self, rows: int) -> bool:
        """Whether a tile may have so many rows."""
        return 0 < rows <= self.rows and (rows <= self.odd or rows % 2 == 0)

    def wide(self, rows: int) -> int:
        """Lanes of a tile of so many rows."""
        return min(self.lanes, self.sums >> (rows - 1).bit_length())


@dataclass(frozen=True, slots=True)
class OnTiles:
    """An instruction that adds an intrinsic of each row and lane to a matrix tile: LLVM's `name`, and the
    name of the `loop` that is its definition (matrix.py, mmla.py), if a machine `has` it."""

    intrinsic: Intrinsic
    loop: str
    name: str
    grid: Grid
    has: Callable[[Machine], bool]


_AMX: Final = Grid(deep=16, rows=32, odd=16, lanes=32, sums=1024, apart=True)
# Sixteen registers of 2 × 2 sums, beside those of the factors.
_MMLA: Final = Grid(deep=2, rows=8, odd=0, lanes=16, sums=64, apart=False)
AMX: Final = (
    OnTiles(PAIRS, "amx_bf16", "llvm.x86.tdpbf16ps", _AMX, lambda m: m.has_tiles),
    OnTiles(BYTES, "amx_int8", "llvm.x86.tdpbssd", _AMX, lambda m: m.has_tiles),
)
MMLA: Final = (
    OnTiles(BYTES, "smmla", "llvm.aarch64.neon.smmla.v4i32.v16i8", _MMLA, lambda m: m.has_i8mm),
    OnTiles(PAIRS, "bfmmla", "llvm.aarch64.neon.bfmmla", _MMLA, lambda m: m.has_bfmmla),
)

# AVX-512 VNNI and AVX-512 BF16; SDOT, BFDOT and USDOT of NEON.
INSTRUCTIONS: Final = (
    Instruction(UNSIGNED, "llvm.x86.avx512.vpdpbusd.512", 16, "<64 x i8>", lambda m: m.has_vnni),
    Instruction(SHORTS, "llvm.x86.avx512.vpdpwssd.512", 16, "<32 x i16>", lambda m: m.has_vnni),
    Instruction(PAIRS, "llvm.x86.avx512bf16.dpbf16ps.512", 16, "<32 x bfloat>", lambda m: m.has_bf16),
    Instruction(BYTES, "llvm.aarch64.neon.sdot.v4i32.v16i8", 4, "<16 x i8>", lambda m: m.has_sdot),
    Instruction(PAIRS, "llvm.aarch64.neon.bfdot.v4f32.v8bf16", 4, "<8 x bfloat>", lambda m: m.has_bfdot),
    Instruction(UNSIGNED, "llvm.aarch64.neon.usdot.v4i32.v16i8", 4, "<16 x i8>", lambda m: m.has_i8mm),
)


def instruction_for(intrinsic: Intrinsic, machine: Machine) -> Instruction | None:
    """The vector instruction of a machine for an intrinsic."""
    return next((x for x in INSTRUCTIONS if x.intrinsic == intrinsic and x.has(machine)), None)


def intrinsics(machine: Machine) -> tuple[Intrinsic, ...]:
    """The instructions of a machine, those on matrix tiles first."""
    return tuple(dict.fromkeys(x.intrinsic for x in (*AMX, *MMLA, *INSTRUCTIONS) if x.has(machine)))


def tiles_for(intrinsic: Intrinsic, machine: Machine) -> OnTiles | None:
    """The instruction of a machine on matrix tiles for an intrinsic."""
    return next((x for x in (*AMX, *MMLA) if x.intrinsic == intrinsic and x.has(machine)), None)


def dot_for(terms: Scalar, machine: Machine) -> Intrinsic | None:
    """The intrinsic by which a machine sums products of two factors of this type; unsigned ones serve signed
    bytes, too (loops/dots.py)."""
    return next((x for x in intrinsics(machine) if x.second is terms), None)
