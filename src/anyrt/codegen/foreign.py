"""Compilers of this machine that are run for a program's own text: their calls, limits and cache.

>>> run(["cat"], "text")
(0, 'text')
>>> image = shared_object(found("cc") or "cc", (), "c", "int seven(void) { return 7; }")
>>> opened(image).seven()
7
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from anyrt.core.flags import read_flags

# Each page of a frame is touched, so that a stack that is too small is a signal, and no memory of others.
FLAGS: Final = ("-O3", "-shared", "-fPIC", "-fstack-clash-protection")


class Late(Exception):
    """A compiler that did not end in time."""


class Rejected(Exception):
    """What a compiler says of a text that it refuses."""


def found(*names: str) -> str | None:
    """The path of the first of these compilers that is on PATH."""
    return next(filter(None, map(shutil.which, names)), None)


def run(command: Sequence[str], text: str) -> tuple[int, str]:
    """The status of a compiler that reads `text`, and what it says; Late after ANYRT_COMPILER_SECONDS."""
    seconds = read_flags().compiler_seconds
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # a compiler starts others, which end with it
    )
    with process:
        try:
            said, _ = process.communicate(text, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Late(f"{command[0]}: no answer after {seconds} s (ANYRT_COMPILER_SECONDS)") from None
        finally:
            if process.poll() is None:  # late, or the program was interrupted
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said


@lru_cache(256)
def shared_object(
    compiler: str, flags: tuple[str, ...], language: str, text: str, libraries: tuple[str, ...] = ()
) -> bytes:
    """The image of a shared object that a compiler makes of `text`; Rejected with what it says, or Late."""
    with tempfile.TemporaryDirectory(prefix="anyrt-kernels-") as folder:
        file = Path(folder, "kernels.so")
        command = [compiler, *FLAGS, *flags, "-x", language, "-", "-o", str(file), *libraries]
        status, said = run(command, text)
        if status:
            raise Rejected(said or f"status {status} of {compiler}")
        return file.read_bytes()


def opened(image: bytes) -> ctypes.CDLL:
    """A shared object, loaded; OSError where it asks for functions that are not there."""
    with tempfile.TemporaryDirectory(prefix="anyrt-kernels-") as folder:
        file = Path(folder, "kernels.so")
        file.write_bytes(image)
        return ctypes.CDLL(str(file))
