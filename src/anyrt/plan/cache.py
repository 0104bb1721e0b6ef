"""The kernel cache: compiled code on disk, under keys that identify its source.

An entry is a file of bytes behind a preamble whose checksum covers them and the entry's key, so that an
exchanged entry is detected. Entries contain code that will be executed, so the directory must belong to the
user alone. A damaged entry is a miss. A cache that cannot be read or written costs a compilation; the build
does not fail.

A whole program (`get`, `put`) is one kind of entry: its length, the program as JSON, and the image. Anything
else that was compiled is bytes under a key of its own (`get_bytes`, `put_bytes`):

>>> cache = KernelCache(getfixture("tmp_path") / "cache", print)
>>> cache.put_bytes(cache_key("kernel", "text of a kernel"), (b"its ", b"object"))
True
>>> cache.get_bytes(cache_key("kernel", "text of a kernel"))
b'its object'
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Final

from anyrt.core.dims import Sym
from anyrt.core.errors import PlanError, ResourceError
from anyrt.core.flags import read_flags
from anyrt.plan.disk import open_regular, write_atomically
from anyrt.plan.json import dump, load
from anyrt.plan.program import Compiled, Program

MAGIC: Final = b"AnyRTk2\n"
DEFAULT_LIMIT: Final = 1 << 30
MAX_ENTRY: Final = 1 << 30
MAX_PROGRAM: Final = 64 << 20

_PREAMBLE: Final = struct.Struct("<8sQ32s")  # magic, bytes that follow, checksum
_LENGTH: Final = struct.Struct("<Q")
_SUFFIX: Final = ".kernel"
_SWEEPS_PER_LIMIT: Final = 16
# Entries, and temporary files of a killed `write_atomically`; a user's own files are not removed.
_OURS: Final = re.compile(r".+\.kernel|\.[0-9a-f]{64}\.[0-9a-f]{16}")


def cache_key(*parts: str | bytes) -> str:
    """A name made from `parts`; their number, order and borders count."""
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
    """Compiled code below `directory`; `warn` receives problems.

    Beyond `limit` bytes the least recently used entries are removed, but a put rarely examines the directory:
    an entry of n bytes starts a sweep with probability 16 * n / limit, determined by its checksum. Without
    shared state there is thus one sweep for each sixteenth of the limit written, and the directory rarely
    grows more than a few sixteenths above the limit.
    """

    directory: Path
    warn: Callable[[str], None]
    limit: int = DEFAULT_LIMIT

    def get(self, key: str, symbols: Mapping[str, Sym]) -> Compiled | None:
        """The program stored at `key`, or None; `symbols` are those of the plan."""
        content = self.get_bytes(key)
        if content is None:
            return None
        try:
            return _unpack(content, symbols)
        except PlanError as error:
            self._warn_damaged(key, error)
            return None

    def put(self, key: str, compiled: Compiled) -> bool:
        """Store `compiled` at `key`; a problem is a warning, and returns False."""
        program = dump(compiled.program.as_json())
        return self.put_bytes(key, (_LENGTH.pack(len(program)), program, compiled.image))

    def get_bytes(self, key: str) -> bytes | None:
        """The content stored at `key`, or None."""
        path = self._path(key)
        try:
            self._check_directory()
            content = _read_entry(path, key)
            with contextlib.suppress(OSError):  # a cache on a read-only file system can still be read
                os.utime(path)  # the least recently used entry is removed first
        except FileNotFoundError:
            return None
        except (OSError, ResourceError) as error:
            self.warn(f"kernel cache not used: {self._located(error)}")
            return None
        except PlanError as error:
            self._warn_damaged(key, error)
            return None
        return content

    def put_bytes(self, key: str, parts: Sequence[bytes | memoryview]) -> bool:
        """Store `parts`, joined, at `key`; a problem is a warning, and returns False."""
        checksum, nbytes = _checksum(key, parts), sum(len(part) for part in parts)
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_directory()
            head = _PREAMBLE.pack(MAGIC, nbytes, checksum)
            write_atomically(self._path(key), (head, *parts), anew=True)
        except (OSError, ResourceError) as error:
            self.warn(f"kernel cache not written: {self._located(error)}")
            return False
        if int.from_bytes(checksum[:4]) * self.limit < (nbytes * _SWEEPS_PER_LIMIT) << 32:
            self.prune()
        return True

    def obtain(self, key: str, symbols: Mapping[str, Sym], compile_: Callable[[], Compiled]) -> Compiled:
        """The program at `key`, or the result of `compile_`, which is stored for the next time."""
        program = self.get(key, symbols)
        if program is None:
            program = compile_()
            self.put(key, program)
        return program

    def _located(self, error: OSError | ResourceError) -> ResourceError:
        if isinstance(error, ResourceError):
            return error.at(str(self.directory))
        got, do = error.strerror or str(error), "set ANYRT_CACHE_DIR to a writable directory"
        return ResourceError("AR803", str(self.directory), got, "a writable directory", do)

    def _warn_damaged(self, key: str, error: PlanError) -> None:
        name = self._path(key).name
        self.warn(
            f"kernel cache entry {name} is damaged or belongs to another key, and will be replaced: {error}"
        )

    def _path(self, key: str) -> Path:
        return self.directory / (key + _SUFFIX)

    def _check_directory(self) -> None:
        facts = self.directory.stat()
        ours = not hasattr(os, "getuid") or facts.st_uid == os.getuid()
        shared = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not ours or shared or not stat.S_ISDIR(facts.st_mode):
            got = f"mode {stat.filemode(facts.st_mode)}, owner {facts.st_uid}"
            do = "run chmod go-w on it, or set ANYRT_CACHE_DIR to another directory"
            raise ResourceError(
                "AR803", str(self.directory), got=got, wanted="a directory that only you can write to", do=do
            )

    def refusal(self) -> ResourceError | None:
        """Why nothing can be stored here, and the cure; None if the directory can be used."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_directory()
            if not os.access(self.directory, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except (OSError, ResourceError) as error:
            return self._located(error)
        return None

    def prune(self) -> tuple[int, int]:
        """Remove the least recently used entries beyond the limit, and return their number and bytes; another
        process may be doing the same."""
        removed, freed, entries = 0, 0, []
        with contextlib.suppress(OSError):
            for item in os.scandir(self.directory):
                if not _OURS.fullmatch(item.name):
                    continue
                with contextlib.suppress(OSError):
                    facts = item.stat(follow_symlinks=False)
                    entries.append((facts.st_mtime_ns, facts.st_size, item.path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total - freed <= self.limit:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
                removed += 1
            freed += size
        return removed, freed


def _checksum(key: str, parts: Sequence[bytes | memoryview]) -> bytes:
    digest = hashlib.sha256(bytes.fromhex(cache_key(key)))
    for part in parts:
        digest.update(part)
    return digest.digest()


def _read_entry(path: Path, key: str) -> bytes:
    """The content of an entry; PlanError unless it is undamaged and was written for `key`."""
    with open_regular(path, "cache entry") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_ENTRY:
            raise PlanError("AR604", "cache entry", got=f"{size} bytes", wanted=f"at most {MAX_ENTRY}")
        preamble = file.read(_PREAMBLE.size)
        if len(preamble) < _PREAMBLE.size:
            raise PlanError("AR601", "cache entry", got=f"{len(preamble)} bytes")
        magic, nbytes, checksum = _PREAMBLE.unpack(preamble)
        if magic != MAGIC or nbytes != size - _PREAMBLE.size:
            raise PlanError("AR604", "cache entry", got=f"{size} bytes that do not fit its preamble")
        content = file.read(nbytes)
    if _checksum(key, (content,)) != checksum:
        raise PlanError("AR602", "cache entry")
    return content


def _unpack(content: bytes, symbols: Mapping[str, Sym]) -> Compiled:
    if len(content) < _LENGTH.size:
        raise PlanError("AR601", "cache entry", got=f"{len(content)} bytes")
    (program_bytes,) = _LENGTH.unpack_from(content)
    image_at = _LENGTH.size + program_bytes
    if image_at > len(content):
        raise PlanError("AR604", "cache entry", got=f"a program of {program_bytes} bytes in {len(content)}")
    program = Program.parse(load(content[_LENGTH.size : image_at], "cache entry", MAX_PROGRAM), symbols)
    return Compiled(program, content[image_at:])
