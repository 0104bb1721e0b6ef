"""Buffers of kernels: their element types, their memory, and known properties of tables in them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from anyrt.core.dims import Dim, add, floordiv, mul
from anyrt.core.dtype import bits, is_packed
from anyrt.core.enums import DataType


class Scalar(enum.Enum):
    """Machine types of kernel expressions."""

    BOOL = "i1"
    I8 = "i8"
    U8 = "u8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U64 = "u64"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"

    @property
    def is_float(self) -> bool:
        """True for the four floating-point types."""
        return self in FLOATS


FLOATS = frozenset({Scalar.F16, Scalar.BF16, Scalar.F32, Scalar.F64})
BITS = {
    Scalar.BOOL: 1,
    Scalar.I8: 8,
    Scalar.U8: 8,
    Scalar.I16: 16,
    Scalar.I32: 32,
    Scalar.I64: 64,
    Scalar.U64: 64,
    Scalar.F16: 16,
    Scalar.BF16: 16,
    Scalar.F32: 32,
    Scalar.F64: 64,
}

# The type in memory (left) and the type that a kernel computes in (right): narrow types are widened when
# loaded.
STORED = {
    DataType.FLOAT: Scalar.F32,
    DataType.HALF: Scalar.F16,
    DataType.BF16: Scalar.BF16,
    DataType.INT8: Scalar.I8,
    DataType.UINT8: Scalar.U8,
    DataType.INT32: Scalar.I32,
    DataType.INT64: Scalar.I64,
    DataType.BOOL: Scalar.U8,
    DataType.FP8: Scalar.U8,
    DataType.INT4: Scalar.U8,
    DataType.FP4: Scalar.U8,
    DataType.E8M0: Scalar.U8,
    DataType.DOUBLE: Scalar.F64,
    DataType.INT16: Scalar.I16,
    DataType.UINT16: Scalar.I16,
    DataType.UINT32: Scalar.I32,
    DataType.UINT64: Scalar.U64,
    DataType.UINT4: Scalar.U8,
    DataType.INT2: Scalar.U8,
    DataType.UINT2: Scalar.U8,
    DataType.FP8E5M2: Scalar.U8,
    DataType.FP8E4M3FNUZ: Scalar.U8,
    DataType.FP8E5M2FNUZ: Scalar.U8,
}
COMPUTED = {
    DataType.FLOAT: Scalar.F32,
    DataType.HALF: Scalar.F32,
    DataType.BF16: Scalar.F32,
    DataType.INT8: Scalar.I32,
    DataType.UINT8: Scalar.I32,
    DataType.INT32: Scalar.I32,
    DataType.INT64: Scalar.I64,
    DataType.BOOL: Scalar.BOOL,
    DataType.FP8: Scalar.F32,
    DataType.INT4: Scalar.I32,
    DataType.FP4: Scalar.F32,
    DataType.E8M0: Scalar.F32,
    DataType.DOUBLE: Scalar.F64,
    DataType.INT16: Scalar.I32,
    DataType.UINT16: Scalar.I32,
    DataType.UINT32: Scalar.I64,
    DataType.UINT64: Scalar.U64,
    DataType.UINT4: Scalar.I32,
    DataType.INT2: Scalar.I32,
    DataType.UINT2: Scalar.I32,
    DataType.FP8E5M2: Scalar.F32,
    DataType.FP8E4M3FNUZ: Scalar.F32,
    DataType.FP8E5M2FNUZ: Scalar.F32,
}


class Space(enum.Enum):
    """The memory that a buffer is in."""

    INPUT = "input"
    OUTPUT = "output"
    CONST = "const"
    ARENA = "arena"  # intermediate tensors, shared by all threads
    TABLE = "table"  # computed once per shape by `prepare`
    SCRATCH = "scratch"  # one copy per thread
    SHARED = "shared"  # one copy per block, for all threads of its thread loops
    REGISTER = "register"  # accumulators; `size` is fixed


LANES = 16  # entries of a table of positions that are read from one start


@dataclass(frozen=True, slots=True)
class Addresses:
    """For a table of positions with `length` entries for each of `taps`: the least position of every `LANES`
    entries (i32), and the distance of each entry from it (u8). `starts` has those of the first tap only if
    all taps count from there."""

    starts: Buffer
    offsets: Buffer
    taps: int
    length: Dim

    @property
    def blocks(self) -> Dim:
        """Vectors of entries for each tap."""
        return floordiv(add(self.length, LANES - 1), LANES)

    @property
    def common(self) -> bool:
        """Whether all taps count from the start of the first one."""
        return self.starts.size == self.blocks

    def first_block(self, tap: int) -> Dim:
        """The entry of `starts` for a tap."""
        return 0 if self.common else mul(self.blocks, tap)


@dataclass(frozen=True, slots=True)
class Buffer:
    """A named run of `size` elements; `type` is the type in memory."""

    name: str
    type: DataType | Scalar
    space: Space
    size: Dim = 1
    offset: Dim = 0  # bytes from the start of its space (CONST, ARENA, TABLE, SCRATCH)
    # For a table of positions: neighbouring entries ascend by at most `slope` each on average, so a vector
    # reads only a few registers. 0: unknown. `group`: entries per position.
    slope: int = 0
    group: int = 1
    addresses: Addresses | None = None  # for a table of positions: reads stay away from the operand's end
    # If not 0: too large for the caches. Stores bypass them, which saves reading the lines first.
    nontemporal: Dim = 0
    # For scratch: every element is stored before it is read, and the last elements, as many as a vector has
    # lanes, are unused, so that vectors may read whole registers. Memory that was never stored may contain
    # denormal numbers, which cost a processor a hundred cycles even in masked lanes: 3 × the time was
    # measured.
    padded: bool = False
    # For single numbers that kernels load, so that kernels that differ only in such a number are one. A
    # quotient by a loaded float32 becomes a code as one by a literal does, and a number that is added to
    # codes is a small whole number.
    coded: bool = False

    @property
    def stored(self) -> Scalar:
        """The machine type of one element (a whole byte for packed types)."""
        return self.type if isinstance(self.type, Scalar) else STORED[self.type]

    @property
    def entries(self) -> Dim:
        """The number of stored units of `stored`: packed elements share a byte."""
        each = 8 // bits(self.type) if isinstance(self.type, DataType) and is_packed(self.type) else 1
        return floordiv(add(self.size, each - 1), each) if each > 1 else self.size
