"""Writing files atomically, beside their place and then moved into it; and opening them."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

from anyrt.core.errors import PlanError, ResourceError

LINKS: Final = 40  # as many as Linux follows


def open_regular(path: Path, where: str) -> BinaryIO:
    """`path` opened for reading; PlanError AR604 if it is not a regular file, without blocking."""
    _without_nul(path)
    # Neither blocks on a FIFO without a writer, nor makes a terminal the controlling one.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        got, do = f"mode {stat.filemode(mode)}", "pass the path of a file"
        raise PlanError("AR604", where, got, "a regular file", do)
    return os.fdopen(handle, "rb")


def write_atomically(path: Path, parts: Iterable[bytes | memoryview], anew: bool = False) -> None:
    """Write `parts` to `path`, or leave it as it was; ResourceError AR803 if it cannot be written.

    Links are followed, and an existing file keeps its permissions. If `path` is not a regular file, as a FIFO
    or /dev/stdout, the bytes are written directly. `anew`: a new file replaces any existing one.
    """
    try:
        _without_nul(path)
        place = path if anew else _followed(path)
        existing = None if anew else _facts(place)
        if isinstance(place, int):
            _write(os.dup(place), parts)
        elif existing is not None and not stat.S_ISREG(existing.st_mode):
            _write(os.open(place, os.O_WRONLY), parts)
        else:
            _replace(place, existing, parts)
    except OSError as error:
        raise _cannot_write(path, error) from None


def write_text(path: Path, text: str) -> None:
    """The same of text, as UTF-8."""
    write_atomically(path, [text.encode()])


def _without_nul(path: Path) -> None:
    if "\0" in str(path):  # which Python reports as an invalid value, not as a missing file
        raise OSError(errno.EINVAL, "a path with a NUL")


def _followed(path: Path) -> Path | int:
    """The target of the links of a path; the number of an open file of this process if it names one."""
    for _ in range(LINKS):
        place = Path(os.path.realpath(path.parent, strict=True), path.name)
        handle = re.fullmatch(rf"/proc/{os.getpid()}/fd/(\d+)", str(place))
        if handle:  # its target may be an open file without a name here
            return int(handle[1])
        if not place.is_symlink():
            return place
        path = place.parent / os.readlink(place)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _facts(place: Path | int) -> os.stat_result | None:
    try:
        return os.stat(place)
    except FileNotFoundError:
        return None


def _replace(place: Path, existing: os.stat_result | None, parts: Iterable[bytes | memoryview]) -> None:
    """Write beside a place, then move there; `existing`: the existing file."""
    if existing is not None and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    beside = os.fsencode(place.name)[:64].decode(errors="ignore")
    name = place.parent / f".{beside}.{secrets.token_hex(8)}"
    try:
        # Not mkstemp: the file shall have the user's default permissions.
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        if existing is not None:
            with contextlib.suppress(OSError):  # only root can do that
                os.fchown(handle, existing.st_uid, existing.st_gid)
            os.fchmod(handle, stat.S_IMODE(existing.st_mode))
        _write(handle, parts)
        os.replace(name, place)
    finally:
        # Gone after the move; still there after an error or an interrupt.
        with contextlib.suppress(OSError):
            os.unlink(name)


def _write(handle: int, parts: Iterable[bytes | memoryview]) -> None:
    with open(handle, "wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        if stat.S_ISREG(os.fstat(handle).st_mode):
            os.fsync(handle)  # 1 ms; some disks say only here that they are full


def _cannot_write(path: Path, error: OSError) -> ResourceError:
    do = "choose another place"
    if error.errno == errno.ENOSPC:
        do = "free some space, or choose another place"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY):
        do = "choose another place: a new file takes the old one's, so that the folder must allow it"
    return ResourceError("AR803", str(path), error.strerror or str(error), "a file to write", do)
