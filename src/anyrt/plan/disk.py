"""Files that are complete or absent: written beside their place, then moved into it; and opening them."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from anyrt.core.errors import PlanError, ResourceError


def open_regular(path: Path, where: str) -> BinaryIO:
    """`path` opened for reading; PlanError AR604 where it is no regular file, without waiting for anybody."""
    # Neither waits for the writer of a FIFO, nor becomes the reader of a terminal.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise PlanError("AR604", where, got=f"mode {stat.filemode(mode)}", wanted="a regular file")
    return os.fdopen(handle, "rb")


def write_atomically(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Make `path` hold `parts`, or leave it as it was; ResourceError AR803 when it cannot be written."""
    name = path.parent / f".{path.name[:64]}.{secrets.token_hex(8)}"
    try:
        # Not mkstemp: the file shall have the rights that the user gives to new files.
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with open(handle, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())  # 1 ms; some disks say only here that they are full
        os.replace(name, path)
    except OSError as error:
        raise _cannot_write(path, error) from None
    finally:
        # Gone after the move; still there after an error or an interrupt.
        with contextlib.suppress(OSError):
            os.unlink(name)


def _cannot_write(path: Path, error: OSError) -> ResourceError:
    do = "free some space, or choose another place"
    return ResourceError(
        "AR803", str(path), got=error.strerror or str(error), wanted="a file to write", do=do
    )
