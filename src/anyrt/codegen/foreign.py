"""Compilers of this machine that are run for texts of a program: in a group of their own, and not for ever.

>>> run(["cat"], "text")
(0, 'text')
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence

from anyrt.core.flags import read_flags


class Late(Exception):
    """A compiler that did not end in time."""


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
            raise Late(f"no answer after {seconds} s (ANYRT_COMPILER_SECONDS)") from None
        finally:
            if process.poll() is None:  # late, or the program was interrupted
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said
