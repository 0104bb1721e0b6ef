"""Compiled code of plans in one file, for machines that must not compile.

    0    magic, 8 bytes
    8    length of the header, uint64
    16   SHA-256 of the header
    48   the header as JSON, then the entries of the cache, one behind the other

The header identifies the origin of the code (the compiler by the digest of its sources, the processor with
its instructions) and, for each entry, its plan, its length and its SHA-256. Digests detect damage. They prove
nothing about the author of the file: it contains native code, and an import executes what its author wrote.

>>> read(b"something else")
Traceback (most recent call last):
anyrt.core.errors.PlanError: [AR606] exported code: ...
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Final

from anyrt.codegen.sources import source_contents
from anyrt.compiler import cached
from anyrt.compiler.cached import Log, ToTarget, Warn, kernel_cache, once, warn_python
from anyrt.core.errors import CompileError, PlanError, ResourceError
from anyrt.core.flags import read_flags
from anyrt.core.machine import this_machine
from anyrt.plan.device import Device
from anyrt.plan.file import PlanFile
from anyrt.plan.json import Json, Reader, dump, load

MAGIC: Final = b"AnyRTx1\n"
MAX_HEADER: Final = 16 << 20
MAX_ENTRIES: Final = 1 << 16
MADE: Final = ("compiler", "processor", "level", "machine")
POOL, MIX, PLAN = "pool", "checksums", "plan"
_PREAMBLE: Final = struct.Struct("<8sQ32s")
_WHERE: Final = "exported code"


@dataclass(frozen=True, slots=True)
class Maker:
    """The properties that decide whether code runs here: the compiler, the processor, and the requested
    level. `machine`: the machine that kernels were optimized for, which affects only their speed."""

    compiler: str
    processor: str
    level: str
    machine: str


@dataclass(frozen=True, slots=True)
class Entry:
    """Code: of a plan by its digest, or of the parts that every engine needs."""

    kind: str
    digest: str
    content: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Exported:
    """Code with its origin."""

    maker: Maker
    entries: tuple[Entry, ...]


def here(device: Device) -> Maker:
    """The origin of code compiled in this process."""
    flags = read_flags()
    return Maker(compiler_digest(), device.identity(), flags.cpu or "", str(this_machine(flags)))


@cache
def compiler_digest() -> str:
    """The contents of the compiler's sources, wherever they are installed."""
    digest = hashlib.sha256()
    for path, content in source_contents():
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def warm(
    files: Sequence[PlanFile],
    device: Device,
    target: ToTarget,
    warn: Warn = warn_python,
    log: Log = lambda severity, text: None,
) -> int:
    """Compile the code that the cache lacks of these plans and of the parts that engines share; returns the
    number of plans compiled."""
    store, compiled = kernel_cache(warn), 0
    for file in files:
        compiled += store.get_bytes(cached.plan_key(device, file.code)) is None
        cached.obtain(file, device, target, warn, log)
    cached.obtain_pool(device, target, warn)
    cached.obtain_mix(device, target, warn)
    return compiled


def export(
    files: Sequence[PlanFile], device: Device, target: ToTarget, warn: Warn, log: Log
) -> list[bytes | memoryview]:
    """The segments of a file with the code of these plans, compiled if necessary."""
    warn = once(warn)
    warm(files, device, target, warn, log)
    keys = [
        (POOL, ""),
        (MIX, ""),
        *((PLAN, digest) for digest in dict.fromkeys(f.code.hex() for f in files)),
    ]
    store = kernel_cache(warn)
    held = [(kind, digest, store.get_bytes(_key(device, kind, digest))) for kind, digest in keys]
    entries = [Entry(kind, digest, content) for kind, digest, content in held if content is not None]
    if len(entries) < len(held):
        got, do = "code that was not kept", "set ANYRT_CACHE_DIR to a folder that can be written to"
        raise ResourceError("AR803", str(store.directory), got, "a cache to export from", do)
    return segments(Exported(here(device), tuple(entries)))


def segments(exported: Exported) -> list[bytes | memoryview]:
    """The file in segments."""
    maker = exported.maker
    listed: list[Json] = [
        [e.kind, e.digest, len(e.content), hashlib.sha256(e.content).hexdigest()] for e in exported.entries
    ]
    origin: dict[str, Json] = {name: getattr(maker, name) for name in MADE}
    header = dump({"maker": origin, "entries": listed})
    preamble = _PREAMBLE.pack(MAGIC, len(header), hashlib.sha256(header).digest())
    return [preamble, header, *(e.content for e in exported.entries)]


def read(content: bytes) -> Exported:
    """The contents of `segments`, with every digest compared; PlanError names the problem."""
    view = memoryview(content)
    if not content.startswith(MAGIC):
        do = "give a file that `anyrt cache export` wrote"
        raise PlanError("AR606", _WHERE, f"bytes that begin with {content[:8]!r}", f"{MAGIC!r}", do)
    if len(content) < _PREAMBLE.size:
        raise PlanError("AR601", _WHERE, f"{len(content)} bytes", f"at least {_PREAMBLE.size}")
    _, header_bytes, digest = _PREAMBLE.unpack_from(content)
    header = bytes(view[_PREAMBLE.size :][: min(header_bytes, MAX_HEADER)])
    if hashlib.sha256(header).digest() != digest:
        raise PlanError("AR602", _WHERE, "another checksum of the header", "that of its bytes")
    reader = Reader(load(header, _WHERE, MAX_HEADER), _WHERE)
    origin = reader.field("maker")
    maker = Maker(*(origin.field(n).text() for n in MADE))
    rows = [row.exactly(4) for row in reader.field("entries").items(MAX_ENTRIES)]
    listed = [(k.text(), d.text(), n.integer(0, len(content)), s.text()) for k, d, n, s in rows]
    ends = [*accumulate((n for _, _, n, _ in listed), initial=_PREAMBLE.size + len(header))]
    if ends[-1] != len(content):
        raise PlanError("AR604", _WHERE, f"{len(content)} bytes", f"{ends[-1]}, as its header says")
    parts = [view[at : at + n] for at, (_, _, n, _) in zip(ends, listed, strict=False)]
    for part, (kind, which, _, checksum) in zip(parts, listed, strict=True):
        if hashlib.sha256(part).hexdigest() != checksum:
            raise PlanError(
                "AR602", f"{_WHERE} of {kind} {which[:16]}", "another checksum", "that of its bytes"
            )
    entries = (Entry(k, d, part) for part, (k, d, _, _) in zip(parts, listed, strict=True))
    return Exported(maker, tuple(entries))


def keep(exported: Exported, device: Device, warn: Warn = warn_python) -> int:
    """Store code in the cache of this user, and return the number of entries; CompileError AR806 if it cannot
    run here."""
    check_runs(exported.maker, here(device))
    store = kernel_cache(once(warn))
    return sum(store.put_bytes(_key(device, e.kind, e.digest), (e.content,)) for e in exported.entries)


def check_runs(origin: Maker, mine: Maker) -> None:
    """Raise AR806 unless code of `origin` runs at `mine`."""
    if origin.compiler != mine.compiler:
        got = f"code of compiler {origin.compiler[:16]}"
        wanted = f"that of this version, {mine.compiler[:16]}"
        raise CompileError(
            "AR806", _WHERE, got, wanted, "export it with the version of AnyRT that imports it"
        )
    if origin.level != mine.level:
        got, wanted = f"code for ANYRT_CPU={origin.level or 'unset'}", f"{mine.level or 'unset'}, as here"
        raise CompileError("AR806", _WHERE, got, wanted, "set ANYRT_CPU as it was when the code was exported")
    (kind, features), (my_kind, mine_has) = _features(origin.processor), _features(mine.processor)
    missing = sorted(features - mine_has)
    if kind != my_kind or missing:
        lacks = f", which lacks {', '.join(missing[:8])}" if kind == my_kind else ""
        do = "export it on a machine like this one, or with ANYRT_CPU set to a level that both have"
        raise CompileError("AR806", _WHERE, f"code for {kind}", f"code for this {my_kind}{lacks}", do)


def _features(processor: str) -> tuple[str, frozenset[str]]:
    """The kind of machine in the text of a device's identity, and its instructions."""
    kind, *rest = processor.split("|")
    listed = (line.partition(":") for line in rest if line.startswith(("flags", "Features")))
    return kind, frozenset(word for _, _, words in listed for word in words.split())


def is_of_another_machine(origin: Maker, device: Device) -> bool:
    """Whether kernels were optimized for other caches or cores: they run here, but others may be faster."""
    return origin.machine != here(device).machine


def _key(device: Device, kind: str, digest: str) -> str:
    if kind == PLAN:
        return cached.plan_key(device, bytes.fromhex(digest))
    return cached.pool_key(device) if kind == POOL else cached.mix_key(device)
