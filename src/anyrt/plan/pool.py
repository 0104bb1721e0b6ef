"""The memory of a thread pool, shared by its native code and its owner: one word (8 bytes) each.

What different threads write lies 128 bytes apart, since processors fetch cache lines in pairs.
"""

from __future__ import annotations

import enum
from typing import Final, Protocol

PART_WORDS: Final = 16
SPIN_TICKS: Final = 100_000  # of the processor's clock, 20 to 50 microseconds

PARALLEL: Final = "parallel"
WORKER: Final = "worker"
STOP: Final = "stop"


class PoolWord(enum.IntEnum):
    """Places in the memory of a pool."""

    PARALLEL = 0  # address of parallel()
    WORKERS = 1  # threads beside the caller; 0 makes every region serial
    SPIN_TICKS = 2
    APART = 3  # 1 where a worker on the caller's processor can be moved to another one
    STATE = 16
    LOCK = 32  # 1 while a caller owns the pool
    FUNCTION = 48
    ARGS = 49
    ITEMS = 50
    GRAIN = 51
    CHUNKS = 52
    PARTS = 53
    CALLER = 54  # the processor that the caller runs on
    SLEEPERS = 64
    STOP = 80
    NEXT = 96  # per part, PART_WORDS apart: chunks of it that were claimed


def pool_words(threads: int) -> int:
    """The size of a pool's memory."""
    return PoolWord.NEXT + PART_WORDS * threads


class Threads(Protocol):
    """A pool of so many threads, ready for regions, with the address of its words."""

    threads: int
    address: int
