"""Debug switches from the environment, read at each use, and the strict state.

    ANYRT_STRICT=1          raise errors instead of logging them and returning None or False
    ANYRT_NUM_THREADS=4     threads of an engine, unless the configuration sets them
    ANYRT_CACHE_DIR=/path   directory of compiled code
    ANYRT_CACHE_LIMIT=2GiB  limit of compiled code there, default 1GiB
    ANYRT_CPU=avx2          generate code for this feature level instead of the host's own
    ANYRT_MACHINE=m.json    a description of the machine that overrides the detected one
    ANYRT_VERIFY=full       off, sample or full: check kernels against the reference while building
    ANYRT_CHECKED=1         kernels that check every access, unless the configuration decides
    ANYRT_LIKE_TENSORRT=1   raise errors where programs violate restrictions of TensorRT
    ANYRT_LOG=json          messages of loggers as one JSON object a line
    ANYRT_CHECK_WEIGHTS=0   load plans without comparing their weights with the checksums
    ANYRT_COMPILER_SECONDS=9  time limit of a C or C++ compiler for one kernel, default 120

>>> read_flags({"ANYRT_NUM_THREADS": "4"}).num_threads
4
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from anyrt.core.errors import ArgumentError
from anyrt.core.quota import allowance
from anyrt.core.units import bytes_of

VERIFY_LEVELS = ("off", "sample", "full")
_FALSE, _TRUE = ("", "0", "false", "no", "off"), ("1", "true", "yes", "on")

_strict: ContextVar[bool | None] = ContextVar("anyrt_strict", default=None)


@dataclass(frozen=True, slots=True)
class Flags:
    """The current switches; None for those that the environment does not set."""

    strict: bool = False
    num_threads: int | None = None
    cache_dir: Path | None = None
    cache_limit: int | None = None
    cpu: str | None = None
    machine: Path | None = None
    verify: str | None = None
    checked: bool = False
    check_weights: bool = True
    like_tensorrt: bool = False
    log: str | None = None
    compiler_seconds: int = 120


def read_flags(environ: Mapping[str, str] = os.environ) -> Flags:
    """The switches that `environ` sets; ArgumentError for an invalid value."""

    def text(name: str) -> str | None:
        return environ.get(name, "").strip() or None

    def path(name: str) -> Path | None:
        value = text(name)
        return Path(value).expanduser() if value else None

    def switch(name: str, default: str) -> bool:
        return _choice(name, (text(name) or default).lower(), _FALSE + _TRUE) in _TRUE

    return Flags(
        strict=switch("ANYRT_STRICT", "0"),
        num_threads=_count("ANYRT_NUM_THREADS", text("ANYRT_NUM_THREADS"), 4096),
        cache_dir=path("ANYRT_CACHE_DIR"),
        cache_limit=_bytes("ANYRT_CACHE_LIMIT", text("ANYRT_CACHE_LIMIT")),
        cpu=(text("ANYRT_CPU") or "").lower() or None,
        machine=path("ANYRT_MACHINE"),
        verify=_choice("ANYRT_VERIFY", (text("ANYRT_VERIFY") or "").lower(), ("", *VERIFY_LEVELS)) or None,
        checked=switch("ANYRT_CHECKED", "0"),
        like_tensorrt=switch("ANYRT_LIKE_TENSORRT", "0"),
        log=_choice("ANYRT_LOG", (text("ANYRT_LOG") or "").lower(), ("", "json")) or None,
        check_weights=switch("ANYRT_CHECK_WEIGHTS", "1"),
        compiler_seconds=_count("ANYRT_COMPILER_SECONDS", text("ANYRT_COMPILER_SECONDS"), 86400) or 120,
    )


def default_threads() -> int:
    """ANYRT_NUM_THREADS, else the number of processors that this process may use (`quota.py`)."""
    threads = read_flags().num_threads
    return processors() if threads is None else threads


def processors() -> int:
    """How many processors this process may use, by its affinity and its quotas."""
    return allowance().count


def _choice(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        names = ", ".join(x for x in allowed if x)
        raise ArgumentError(
            "AR304", f"environment variable {name}", got=repr(value), wanted=f"one of {names}"
        )
    return value


def _count(name: str, value: str | None, most: int) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdigit()) or not 1 <= int(value) <= most:
        where = f"environment variable {name}"
        raise ArgumentError("AR304", where, got=repr(value), wanted=f"a number from 1 to {most}")
    return int(value)


def _bytes(name: str, value: str | None) -> int | None:
    count = bytes_of(value) if value else None
    if value and not count:
        raise ArgumentError("AR304", f"environment variable {name}", repr(value), "bytes, as 500M or 2GiB")
    return count


class strict:
    """Raise errors from now on; as a context manager, until the block ends.

    The state belongs to the calling thread or task. A thread that never called it follows ANYRT_STRICT.
    """

    def __init__(self, on: bool = True) -> None:
        self.before = _strict.get()
        _strict.set(on)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _strict.set(self.before)


def is_strict() -> bool:
    """Whether errors are raised in this thread or task."""
    state = _strict.get()
    # Not by `read_flags`: the error in question may be that a switch has a bad value.
    return os.environ.get("ANYRT_STRICT", "").strip().lower() in _TRUE if state is None else state
