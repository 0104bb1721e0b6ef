"""The kernel cache: compiled code on disk, found again by what it was compiled from.

An entry is a file of two sections behind a checked preamble: the program as JSON, and the image. The image is
code that will be run, so the directory must belong to the user and to nobody else. A damaged entry is a miss.
A cache that cannot be read or written costs a compilation, never a build.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Final

from anyrt.core.dims import Sym
from anyrt.core.errors import PlanError, ResourceError
from anyrt.core.flags import read_flags
from anyrt.plan.disk import write_atomically
from anyrt.plan.json import dump, load
from anyrt.plan.program import Compiled, Program

MAGIC: Final = b"AnyRTk1\n"
DEFAULT_LIMIT: Final = 1 << 30
MAX_PROGRAM: Final = 64 << 20

_PREAMBLE: Final = struct.Struct("<8sQQ32s")
_SUFFIX: Final = ".kernel"


def cache_key(*parts: str | bytes) -> str:
    """The name of what `parts` determine; their number, order and borders count."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        digest.update(struct.pack("<Q", len(content)))
        digest.update(content)
    return digest.hexdigest()


def default_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """ANYRT_CACHE_DIR, else anyrt below XDG_CACHE_HOME or ~/.cache; a user without a home gets a directory
    for temporary files."""
    chosen = read_flags(environ).cache_dir
    if chosen is not None:
        return chosen
    base = environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "anyrt"
    home = Path(os.path.expanduser("~"))
    return home / ".cache" / "anyrt" if home.is_absolute() else Path(gettempdir()) / f"anyrt-{os.getuid()}"


@dataclass(frozen=True, slots=True)
class KernelCache:
    """Compiled code below `directory`, at most `limit` bytes; `warn` is told what went wrong."""

    directory: Path
    warn: Callable[[str], None]
    limit: int = DEFAULT_LIMIT

    def get(self, key: str, symbols: Mapping[str, Sym]) -> Compiled | None:
        """What was put at `key`, or None; `symbols` are those of the plan."""
        path = self._path(key)
        try:
            self._check_directory()
            data = path.read_bytes()
            compiled = _unpack(data, symbols)
            os.utime(path)  # the least recently used entry goes first
        except FileNotFoundError:
            return None
        except (OSError, ResourceError) as error:
            self.warn(f"kernel cache not used: {self._told(error)}")
            return None
        except PlanError as error:
            self.warn(f"kernel cache entry {path.name} is damaged and will be replaced: {error}")
            return None
        return compiled

    def put(self, key: str, compiled: Compiled) -> bool:
        """Keep `compiled` at `key`; a problem is a warning, and gives False."""
        program = dump(compiled.program.as_json())
        checksum = hashlib.sha256(program + compiled.image).digest()
        preamble = _PREAMBLE.pack(MAGIC, len(program), len(compiled.image), checksum)
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_directory()
            write_atomically(self._path(key), (preamble, program, compiled.image))
        except (OSError, ResourceError) as error:
            self.warn(f"kernel cache not written: {self._told(error)}")
            return False
        self._evict()
        return True

    def obtain(self, key: str, symbols: Mapping[str, Sym], compile_: Callable[[], Compiled]) -> Compiled:
        """What is at `key`, else what `compile_` gives, kept for the next time."""
        found = self.get(key, symbols)
        if found is None:
            found = compile_()
            self.put(key, found)
        return found

    def _told(self, error: OSError | ResourceError) -> ResourceError:
        if isinstance(error, ResourceError):
            return error
        got, do = error.strerror or str(error), "set ANYRT_CACHE_DIR to a directory of your own"
        return ResourceError("AR803", str(self.directory), got=got, do=do)

    def _path(self, key: str) -> Path:
        return self.directory / (key + _SUFFIX)

    def _check_directory(self) -> None:
        facts = self.directory.stat()
        ours = not hasattr(os, "getuid") or facts.st_uid == os.getuid()
        shared = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not ours or shared or not stat.S_ISDIR(facts.st_mode):
            got = f"mode {stat.filemode(facts.st_mode)}, owner {facts.st_uid}"
            do = "chmod go-w it, or set ANYRT_CACHE_DIR to a directory of your own"
            raise ResourceError(
                "AR803", str(self.directory), got=got, wanted="your own, writable by you only", do=do
            )

    def _evict(self) -> None:
        """Remove the least recently used entries beyond the limit; another process may be doing the same."""
        entries = []
        with contextlib.suppress(OSError):
            for item in os.scandir(self.directory):
                with contextlib.suppress(OSError):
                    facts = item.stat()
                    entries.append((facts.st_mtime_ns, facts.st_size, item.path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.limit:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size


def _unpack(data: bytes, symbols: Mapping[str, Sym]) -> Compiled:
    if len(data) < _PREAMBLE.size:
        raise PlanError("AR601", "cache entry", got=f"{len(data)} bytes")
    magic, program_bytes, image_bytes, checksum = _PREAMBLE.unpack_from(data)
    if magic != MAGIC or _PREAMBLE.size + program_bytes + image_bytes != len(data):
        raise PlanError("AR604", "cache entry", got=f"{len(data)} bytes that do not fit its preamble")
    if hashlib.sha256(data[_PREAMBLE.size :]).digest() != checksum:
        raise PlanError("AR602", "cache entry")
    image_at = _PREAMBLE.size + program_bytes
    program = Program.parse(load(data[_PREAMBLE.size : image_at], "cache entry", MAX_PROGRAM), symbols)
    return Compiled(program, data[image_at:])
