"""Calls of C and C++ compilers of this machine for the user's text, with their limits and cache.

>>> run(["cat"], "text")
(0, 'text')
>>> image = shared_object(find_compiler("cc") or "cc", (), "c", "int seven(void) { return 7; }")
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

# Each page of a frame is touched, so that a stack overflow is a signal and overwrites no other memory.
FLAGS: Final = ("-O3", "-shared", "-fPIC", "-fstack-clash-protection")


class Late(Exception):
    """A compiler did not end in time."""


class Rejected(Exception):
    """The message of a compiler that rejected a text."""


def find_compiler(*names: str) -> str | None:
    """The path of the first of these compilers that is on PATH."""
    return next(filter(None, map(shutil.which, names)), None)


def run(command: Sequence[str], text: str) -> tuple[int, str]:
    """The exit status and the output of a command that reads `text`; Late after ANYRT_COMPILER_SECONDS."""
    seconds = read_flags().compiler_seconds
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # a compiler starts other processes, which end with it
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
    """The shared object that a compiler makes of `text`; Rejected with the compiler's message, or Late."""
    with tempfile.TemporaryDirectory(prefix="anyrt-kernels-") as folder:
        file = Path(folder, "kernels.so")
        command = [compiler, *FLAGS, *flags, "-x", language, "-", "-o", str(file), *libraries]
        status, said = run(command, text)
        if status:
            raise Rejected(said or f"status {status} of {compiler}")
        return file.read_bytes()


def opened(image: bytes) -> ctypes.CDLL:
    """A shared object, loaded; OSError if it requires functions that this process lacks."""
    with tempfile.TemporaryDirectory(prefix="anyrt-kernels-") as folder:
        file = Path(folder, "kernels.so")
        file.write_bytes(image)
        return ctypes.CDLL(str(file))
