"""The memory of a thread pool, shared by its native code and its owner: one word (8 bytes) each.

What different threads write lies 128 bytes apart, since processors fetch cache lines in pairs.
"""

from __future__ import annotations

import enum
from typing import Final

POOL_BYTES: Final = 1024
SPIN_TICKS: Final = 100_000  # of the processor's clock, 20 to 50 microseconds

PARALLEL: Final = "parallel"
WORKER: Final = "worker"
STOP: Final = "stop"


class PoolWord(enum.IntEnum):
    """Places in the memory of a pool."""

    PARALLEL = 0  # address of parallel()
    WORKERS = 1  # threads beside the caller; 0 makes every region serial
    SPIN_TICKS = 2
    STATE = 16
    LOCK = 32  # 1 while a caller owns the pool
    FUNCTION = 48
    ARGS = 49
    ITEMS = 50
    GRAIN = 51
    NEXT = 64  # first item that nobody has claimed
    SLEEPERS = 80
    STOP = 96
