"""The machine that kernels are generated for: caches, cores, vectors, and relative costs.

`this_machine` detects it: caches from the system's tables, cores from the processors that the process may
use. Only LLVM knows the vectors and instructions of a processor, so a detected description has all of them,
and `backends/cpu/processors.py` removes those that are missing. A file overrides the fields that it names.

>>> parse_machine('{"l1_bytes": 32768, "costs": {"gather": 8}}', REFERENCE, "a file").costs
Costs(move=6, store=2, gather=8, convert=3, latency=4, branch=16, wake=16384)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from anyrt.core.enums import DataType
from anyrt.core.errors import ArgumentError
from anyrt.core.flags import Flags, processors

T = TypeVar("T", "Machine", "Costs")


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs, in vector instructions or operations of equal duration."""

    move: int = 6  # to store a vector in the last-level cache and to load it again
    store: int = 2  # to store a vector in a cache near the core
    gather: int = 4  # to gather: for each lane of a vector, from a cache near the core
    convert: int = 3  # to convert a vector of a half type to float32
    latency: int = 4  # latency of a sum or product: cycles
    branch: int = 16  # a mispredicted branch: cycles
    wake: int = 16384  # elements that a core computes while another one wakes up


@dataclass(frozen=True, slots=True)
class Machine:
    """A description of a machine. `l2_bytes`: the share of one core; `last_bytes`: of the last level, as far
    as it is reliably available; `pages`: the number of pages whose addresses a core caches; `cores`: those
    that the process may use.

    `has_rounding`: rounding and half conversion instructions. `permutes`: element sizes in bytes for which
    one instruction selects lanes from two 64-byte registers. `has_bf16`: conversion from float32 to bfloat16,
    and dots of bfloat16 pairs, by AVX-512. `has_extremes`: maxima and minima that return the second operand
    if either is NaN, as on x86. `has_vnni`: dots of four bytes by AVX-512. `has_tiles`: matrix tile registers
    (AMX). `has_sdot`, `has_bfdot`: dots of four bytes, and of two bfloat16, by NEON. `has_i8mm`: products of
    matrices of 2 × 8 bytes by NEON, and dots of bytes of which one factor is unsigned; `has_bfmmla`: products
    of matrices of 2 × 4 bfloat16.
    """

    l1_bytes: int = 48 << 10
    l2_bytes: int = 1 << 20
    last_bytes: int = 32 << 20
    line_bytes: int = 64
    pages: int = 64
    cores: int = 2
    vector_bits: int = 512
    registers: int = 32
    has_fma: bool = True
    has_rounding: bool = True
    permutes: tuple[int, ...] = (1, 2, 4)
    has_bf16: bool = True
    has_extremes: bool = True
    has_vnni: bool = True
    has_tiles: bool = False
    has_sdot: bool = False
    has_bfdot: bool = False
    has_i8mm: bool = False
    has_bfmmla: bool = False
    costs: Costs = field(default_factory=Costs)

    def __str__(self) -> str:
        return json.dumps(asdict(self))

    @property
    def lanes(self) -> int:
        """Elements of float32 in a vector."""
        return self.vector_bits // 32

    @property
    def halves(self) -> frozenset[DataType]:
        """The half types whose products are faster than those of float32: dots sum bfloat16; tiles sum both,
        float16 as four products of bfloat16."""
        tiled = {DataType.HALF, DataType.BF16} if self.has_tiles else set()
        dots = self.has_bf16 or self.has_bfdot or self.has_bfmmla
        return frozenset(tiled | {DataType.BF16} if dots else tiled)

    @property
    def sums_bytes(self) -> bool:
        """Whether one instruction sums products of unsigned codes and int8, four at a time: codes of eight
        bits are then stored in words."""
        return self.has_vnni

    @property
    def tile_rows(self) -> int:
        """Rows of the largest tile whose sums stay in registers: two registers of lanes, beside those of a
        term and a row's factor."""
        return (self.registers - 3) // 2

    @property
    def panel(self) -> int:
        """Lanes of float32 in packed constants of products: two cache lines, which are fetched together and
        suit vectors of every width."""
        return 2 * self.line_bytes // 4


# Every machine-dependent size was measured on this machine (AMD EPYC, family 26 model 2). It supplies the
# fields that cannot be detected.
REFERENCE: Final = Machine()
LAST_MOST: Final = 32 << 20  # bytes: most of a larger cache belongs to other guests of the host
CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
FILE_MOST: Final = 1 << 16  # bytes of a file with a description
PRINTED: Final = "`anyrt info` prints one"
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "l1_bytes": (1 << 12, 1 << 24),
    "l2_bytes": (1 << 14, 1 << 28),
    "last_bytes": (1 << 16, 1 << 32),
    "line_bytes": (16, 512),
    "pages": (8, 1 << 16),
    "cores": (1, 4096),
    "vector_bits": (128, 2048),
    "registers": (8, 256),
    "permutes": (1, 4),
}
_COSTS: Final = (1, 1 << 24)
_POWERS: Final = frozenset({"line_bytes", "vector_bits", "permutes"})  # of two


def this_machine(flags: Flags) -> Machine:
    """The machine that this process runs on, with the fields that the file of ANYRT_MACHINE overrides."""
    machine = replace(detected_caches(), cores=processors(), has_tiles=True)
    machine = replace(machine, has_sdot=True, has_bfdot=True, has_i8mm=True, has_bfmmla=True)
    if flags.machine is None:
        return machine
    where = f"file {flags.machine} of ANYRT_MACHINE"
    return parse_machine(_text(flags.machine, where), machine, where)


@cache
def detected_caches(tables: Path = CACHES) -> Machine:
    """The reference with the caches of the system's tables, if these are plausible."""
    caches = [c for c in map(_read_cache, sorted(tables.glob("index*"))) if c is not None]
    sizes = {level: (size, sharing) for level, size, _, sharing in caches}
    fields = {"line_bytes": caches[0][2]} if caches else {}
    if 1 in sizes:
        fields["l1_bytes"], threads = sizes[1]  # of one core
        if 2 in sizes:
            size, sharing = sizes[2]
            fields["l2_bytes"] = size * threads // max(threads, sharing)
        fields["last_bytes"] = min(LAST_MOST, sizes[max(sizes)][0])
    return _replaced(REFERENCE, {name: n for name, n in fields.items() if _in_range(name, n)})


def _read_cache(index: Path) -> tuple[int, int, int, int] | None:
    """(level, bytes, bytes of a line, processors that share it) of a data cache."""
    try:
        names = ("type", "level", "size", "coherency_line_size", "shared_cpu_list")
        kind, level, size, line, sharing = ((index / name).read_text().strip() for name in names)
        if kind == "Instruction":
            return None
        bytes_of = {"K": 1 << 10, "M": 1 << 20}
        size_bytes = int(size[:-1]) * bytes_of[size[-1]] if size[-1:] in bytes_of else int(size)
        return int(level), size_bytes, int(line), _count(sharing)
    except (OSError, ValueError):  # not in this system's format
        return None


def _count(processors: str) -> int:
    """How many processors a list such as "0-3,8" holds."""
    ends = (part.split("-") for part in processors.split(","))
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)


def parse_machine(text: str, base: Machine, where: str) -> Machine:
    """`base` with the fields that `text` sets, in the format of `str(machine)`; ArgumentError AR304 if `text`
    is not a machine description."""
    try:
        return _changed(base, json.loads(text), where)
    except (ValueError, RecursionError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError("AR304", where, got=str(error), wanted="a machine description in JSON") from None


def _text(path: Path, where: str) -> str:
    try:
        if path.is_file() and path.stat().st_size <= FILE_MOST:
            return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError("AR304", where, str(error), "a machine description in JSON", PRINTED) from None
    got = f"not a file of at most {FILE_MOST} bytes" if path.exists() else "no such file"
    raise ArgumentError("AR304", where, got=got, wanted="a machine description in JSON", do=PRINTED)


def _changed(base: T, said: object, where: str) -> T:
    """`base` with other fields."""
    names = [f.name for f in fields(base)]
    if not isinstance(said, dict) or not said.keys() <= set(names):
        others = (repr(name) for name in said if name not in names) if isinstance(said, dict) else ()
        got = ", ".join(others) or repr(said)
        raise ArgumentError("AR304", where, got=got, wanted=f"an object with some of {', '.join(names)}")
    return _replaced(base, {n: _value(getattr(base, n), n, x, where) for n, x in said.items()})


def _replaced(base: T, values: Mapping[str, object]) -> T:
    return replace(base, **values)  # type: ignore[arg-type]  # the callers have seen to it


def _value(before: object, name: str, value: object, where: str) -> object:
    """The value of a field, checked against the type of the field."""
    match before:
        case Costs():
            return _changed(before, value, f"{where}, {name}")
        case bool():
            fits, wanted = isinstance(value, bool), "true or false"
        case tuple():
            fits = isinstance(value, list) and all(_in_range(name, n) for n in value)
            value, wanted = tuple(value) if isinstance(value, list) else value, f"a list, {_range(name)}"
        case _:
            fits, wanted = _in_range(name, value), _range(name)
    if not fits:
        raise ArgumentError("AR304", f"{where}, {name}", got=repr(value), wanted=wanted)
    return value


def _in_range(name: str, n: object) -> bool:
    low, high = _RANGES.get(name, _COSTS)
    if not isinstance(n, int) or isinstance(n, bool):
        return False
    return low <= n <= high and (name not in _POWERS or n & (n - 1) == 0)


def _range(name: str) -> str:
    low, high = _RANGES.get(name, _COSTS)
    return f"{'powers of two' if name in _POWERS else 'numbers'} from {low} to {high}"
