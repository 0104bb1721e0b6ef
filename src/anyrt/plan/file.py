"""The plan file: a checked preamble, a JSON header, aligned little-endian constants; no code, no pickle.

    0    magic, 8 bytes: text-mode transfers and truncation damage it visibly
    8    format version, uint32            12   0, uint32
    16   length of the header, uint64      24   offset of the constants, uint64
    32   length of the constants, uint64   40   length of the file, uint64
    64   SHA-256 of bytes 0 to 63 and the header, with the checksum of every constant in it (`checksum.py`)
    96   0 up to 128, then the header, then 0 up to the constants, each at a multiple of 64, 0 between them

>>> data = write_plan(Plan("net", "graph"), [])
>>> read_plan(data).plan.name
'net'
>>> read_plan(data[:-1])
Traceback (most recent call last):
anyrt.core.errors.PlanError: [AR601] plan: ...
"""

from __future__ import annotations

import hashlib
import mmap
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from anyrt.core.errors import PlanError
from anyrt.core.foreign import seems
from anyrt.plan.abi import align
from anyrt.plan.checksum import Mixer, checksums, portable
from anyrt.plan.content import Content, parts, write
from anyrt.plan.json import Json, Reader, dump, load
from anyrt.plan.mapped import MappedFile, map_file, watch
from anyrt.plan.plan import Plan, parse_plan

if TYPE_CHECKING:
    from typing_extensions import Buffer  # in collections.abc from Python 3.12

MAGIC: Final = b"\x89AnyRT\r\n"
FORMAT: Final = 5
UNNAMED: Final = "Unnamed Network "
SNIFFED: Final = 1 << 12  # bytes that identify another kind of file
MAX_HEADER: Final = 256 << 20
MAX_CONSTANTS: Final = 1 << 46  # bytes

_PREAMBLE: Final = struct.Struct("<8sIIQQQQ16x")
PREAMBLE_BYTES: Final = 128
DIGEST_BYTES: Final = 32
CHUNK: Final = 1 << 24  # bytes per part that is passed on


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan that was read and checked.

    `weights`: the constants in the file, `plan.held`, in the caller's buffer. `checksums`: those of all
    constants. `digest`: SHA-256 of the header, which has the checksums. `code`: the key of the plan's code:
    the same digest, without the parts that a refit changes. `in_place`: nobody writes to `weights` as long as
    they are held, so they need not be copied. `is_intact`: whether a mapped file is unchanged; None if
    nothing is mapped. `mapped`: the file that was mapped here, which ends with `weights`. `path`: of the
    file, if the plan is from one.
    """

    plan: Plan
    weights: memoryview
    digest: bytes
    code: bytes
    checksums: tuple[str, ...] = ()
    in_place: bool = False
    is_intact: Callable[[], bool] | None = None
    mapped: MappedFile | None = None
    path: Path | None = None

    @property
    def shown(self) -> str:
        """The name for displays: that of the network, or of the file in place of TensorRT's default."""
        return display_name(self.plan.name, self.path)


def display_name(name: str, path: Path | None) -> str:
    """`name`, or the name of the file if `name` is TensorRT's default for networks."""
    return path.stem if path is not None and name.startswith(UNNAMED) else name


@dataclass(frozen=True, slots=True)
class PlanParts:
    """A plan file in segments. Its constants are not copied: their owner must not change them yet.

    `digest`, `code`: see `PlanFile`. `owner`: keeps the constants in memory.
    """

    segments: tuple[Content, ...]
    digest: bytes
    code: bytes = b""
    owner: object = None

    @property
    def header(self) -> memoryview:
        """Everything but the constants."""
        header = self.segments[1]
        assert isinstance(header, memoryview), "a header is bytes"
        return header

    @property
    def nbytes(self) -> int:
        """The length of the file."""
        return sum(segment.nbytes for segment in self.segments)

    def write(self, memory: NDArray[np.uint8]) -> None:
        """Write the file to memory of its length."""
        write(self.segments, memory)

    def chunks(self, most: int) -> Iterator[memoryview]:
        """The file, at most `most` bytes at a time."""
        return (part for segment in self.segments for part in parts(segment, most))


def plan_parts(
    plan: Plan,
    views: Sequence[Content],
    mixer: Callable[[], Mixer] = portable,
    known: tuple[str, ...] | None = None,
) -> PlanParts:
    """A plan file that is neither in memory nor on disk; `views`: the constants of `plan.blobs`, in their
    order, of which those are written that the plan is not stripped of; `mixer`: see `checksums`; `known`: the
    checksums, if nobody has the constants."""
    sizes, expected = [v.nbytes for v in views], [b.nbytes for b in plan.blobs]
    assert sizes == expected, f"constants of {sizes} bytes for blobs of {expected}"
    sums = tuple(checksums(views, mixer)) if known is None else known
    listed: list[Json] = [*(_without_derived(plan, sums) if _forgets(plan) else sums)]
    names = {b.name for b in plan.held}
    held = [view for blob, view in zip(plan.blobs, views, strict=True) if blob.name in names]
    parts = assembled(dump({**plan.as_json(), "checksums": listed}), held)
    return replace(parts, code=_code(plan, sums, parts.digest))


def assembled(header: bytes, views: Sequence[Content]) -> PlanParts:
    """A plan file from its header and the constants that it names."""
    start = align(PREAMBLE_BYTES + len(header))
    ends = [0, *accumulate((v.nbytes for v in views), lambda at, size: align(at) + size)]
    fields = (len(header), start, ends[-1], start + ends[-1])
    preamble = _PREAMBLE.pack(MAGIC, FORMAT, 0, *fields)
    digest = _checksum(preamble, header)
    segments: list[Content] = [memoryview(preamble + digest + bytes(PREAMBLE_BYTES - 96)), memoryview(header)]
    segments.append(memoryview(bytes(start - PREAMBLE_BYTES - len(header))))
    for end, view in zip(ends, views, strict=False):
        segments += [memoryview(bytes(align(end) - end)), view]
    return PlanParts(tuple(segments), digest, digest)


def _forgets(plan: Plan) -> bool:
    """Whether the digest is independent of the constants that the plan was stripped of."""
    return plan.refit is not None and plan.refit.is_stripped and plan.refit.is_free


def _without_derived(plan: Plan, sums: Sequence[str]) -> list[str]:
    """The checksums of constants, "" for those that are derived from weights."""
    derived = set(plan.refit.derived) if plan.refit is not None else ()
    return ["" if b.name in derived else x for b, x in zip(plan.blobs, sums, strict=True)]


def _code(plan: Plan, sums: Sequence[str], digest: bytes) -> bytes:
    if plan.refit is None:
        return digest
    listed: list[Json] = [*_without_derived(plan, sums)]
    whole = replace(plan, refit=replace(plan.refit, is_stripped=False))
    return hashlib.sha256(dump({**whole.as_json(), "checksums": listed})).digest()


def write_plan(plan: Plan, contents: Sequence[Buffer]) -> bytes:
    """A plan file in memory."""
    return b"".join(plan_parts(plan, [memoryview(x).cast("B") for x in contents]).chunks(CHUNK))


def stated_bytes(start: bytes) -> int | None:
    """The length of the plan that begins with `start`, from its header; None if it is not a plan."""
    if len(start) < PREAMBLE_BYTES or not start.startswith(MAGIC):
        return None
    *_, total = _PREAMBLE.unpack_from(start)
    return int(total)


def read_plan(data: Buffer, check_weights: bool = True, mixer: Callable[[], Mixer] = portable) -> PlanFile:
    """The plan in `data`, checked before it is used; PlanError names the problem.

    With `check_weights` the constants are compared with their checksums; `mixer`: see `checksums`. If `data`
    is read-only, it must not change as long as the plan is used: constants are not copied then.
    """
    view = memoryview(data)
    is_intact = watch(view.obj) if isinstance(view.obj, mmap.mmap) else None
    content = view.cast("B") if view.nbytes else memoryview(b"")  # a shape with a 0 cannot be cast
    return _read(content, mixer if check_weights else None, view.readonly, is_intact)


def map_plan(path: Path, check_weights: bool = True, mixer: Callable[[], Mixer] = portable) -> PlanFile:
    """`read_plan` for a file, which is mapped, not copied: it must not be changed in place meanwhile."""
    mapped = map_file(path, "plan")
    file = _read(mapped.content, mixer if check_weights else None, True, mapped.is_intact)
    if not mapped.is_intact():
        raise PlanError(
            "AR608", str(path), "a file that changed", "one at rest", "load it when it is complete"
        )
    return replace(file, mapped=mapped, path=path)


def _checksum(preamble: bytes | memoryview, header: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(preamble)
    digest.update(header)
    return digest.digest()


def _read(
    data: memoryview,
    mixer: Callable[[], Mixer] | None,
    in_place: bool,
    is_intact: Callable[[], bool] | None,
) -> PlanFile:
    assert sys.byteorder == "little", "plans are little-endian, and this machine is not"
    header_bytes, start = _check_preamble(data)
    digest = bytes(data[64:96])
    if _checksum(data[:64], data[PREAMBLE_BYTES : PREAMBLE_BYTES + header_bytes]) != digest:
        do = "get a fresh copy of the plan"
        raise PlanError("AR602", "plan header", "another checksum", "that of its bytes", do)
    _check_zero(data[96:PREAMBLE_BYTES], "plan, bytes 96 to 127")
    _check_zero(data[PREAMBLE_BYTES + header_bytes : start], "plan, bytes behind the header")
    header = Reader(load(bytes(data[PREAMBLE_BYTES:][:header_bytes]), "plan header", MAX_HEADER), "")
    plan, weights = parse_plan(header), data[start:]
    held = plan.held
    if plan.blob_bytes > MAX_CONSTANTS:  # those that the plan is stripped of are not compared
        raise PlanError("AR604", "blobs", f"{plan.blob_bytes} bytes", f"at most {MAX_CONSTANTS}")
    if plan.held_bytes != weights.nbytes:
        got, wanted = f"{plan.held_bytes} bytes", f"{weights.nbytes}, which the file has"
        raise PlanError("AR604", "blobs", got=got, wanted=wanted)
    sums = tuple(x.text(64) for x in header.field("checksums").exactly(len(plan.blobs)))
    names = {b.name for b in held}
    stated = [x for b, x in zip(plan.blobs, sums, strict=True) if b.name in names]
    at, contents = 0, []
    for blob in held:
        _check_zero(weights[at : blob.offset], f"plan, bytes before constant {blob.name!r}")
        at = blob.offset + blob.nbytes
        contents.append(weights[blob.offset : at])
    computed = stated if mixer is None else checksums(contents, mixer)
    if computed != stated:
        blob = next(b for b, ours, theirs in zip(held, computed, stated, strict=True) if ours != theirs)
        do = "get a fresh copy of the plan"
        raise PlanError("AR602", f"constant {blob.name!r}", "another checksum", "that of its bytes", do)
    code = _code(plan, sums, digest)
    return PlanFile(plan, weights.toreadonly(), digest, code, sums, in_place, is_intact)


def _check_preamble(data: memoryview) -> tuple[int, int]:
    """(bytes of the header, offset of the constants), consistent with each other and the file."""
    if data[:8] != MAGIC[: data.nbytes]:
        raise _foreign(bytes(data[:SNIFFED]))
    if data.nbytes < PREAMBLE_BYTES:
        raise PlanError("AR601", "plan", got=f"{data.nbytes} bytes", wanted=f"at least {PREAMBLE_BYTES}")
    _, version, reserved, header_bytes, start, blob_bytes, total = _PREAMBLE.unpack_from(data)
    if version not in (0, FORMAT):
        do = "load it with the version that wrote it, or build it again"
        raise PlanError("AR603", "plan", got=f"format {version}", wanted=f"{FORMAT}", do=do)
    if total > data.nbytes:
        raise PlanError("AR601", "plan", got=f"{data.nbytes} bytes", wanted=f"{total}")
    fits = start == align(PREAMBLE_BYTES + header_bytes) and start + blob_bytes == total == data.nbytes
    if version != FORMAT or reserved or not fits:
        got = f"header of {header_bytes} bytes, constants of {blob_bytes} at {start}, {total} in all"
        raise PlanError("AR604", "plan", got=got, wanted=f"sections that fill {data.nbytes} bytes")
    _check_zero(data[48:64], "plan, bytes 48 to 63")
    return header_bytes, start


def _foreign(start: bytes) -> PlanError:
    """For bytes that are not a plan: their kind if it is known."""
    if start.startswith(b"ftrt"):
        do = "build the network with AnyRT; AnyRT does not load TensorRT engines"
        return PlanError("AR606", "plan", "an engine that TensorRT has built", "a plan of AnyRT", do)
    kind = seems(start) if start else None
    if kind is not None:
        return PlanError("AR606", "plan", kind.what, "a plan, an ONNX model or a script", kind.do)
    got = f"bytes that begin with {start[:8]!r}" if start else "no bytes"
    return PlanError("AR606", "plan", got, f"{MAGIC!r}", "pass what build_serialized_network gave")


def _check_zero(data: memoryview, where: str) -> None:
    if any(data):
        raise PlanError("AR602", where, "bytes that are not 0", "zeros between the parts")
