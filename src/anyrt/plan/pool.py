"""The memory of a thread pool, shared by its native code and its owner: one word (8 bytes) each.

Words that different threads write are 128 bytes apart, since processors fetch cache lines in pairs.
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
    """Offsets in the memory of a pool, each with the reason for the memory order of its accesses in
    `backends/cpu/pool.py`. All are atomic; those without a remark order nothing (monotonic)."""

    # parallel()'s address, and ticks before a worker sleeps: written before threads exist, which starting one
    # orders; never changed after.
    PARALLEL = 0
    # Threads beside the caller; 0 makes every region serial. A caller that sees an old number offers too many
    # or too few seats: it waits only for workers that take one.
    WORKERS = 1
    SPIN_TICKS = 2
    # 1 if a worker on the caller's processor can be moved to another one: a hint, which may be late.
    MOVABLE = 3
    # Publishes a job: a caller has written it before it opens seats (sequentially consistent, so release),
    # and a worker reads it after it took one (acquire and release); other workers take seats in between by
    # such steps, which continue the caller's release sequence. A worker that leaves releases the stores of
    # its chunks; the caller waits until no worker is left (acquire), has then seen all of them, and may write
    # the next job. Against SLEEPERS: a caller opens seats, then looks for sleepers; a worker announces its
    # sleep, then Linux compares the generation, behind its own barrier (futex). In the single order of all
    # four (sequential consistency), one of them sees the other one, and no wake-up is lost.
    STATE = 16
    # 1 while a caller owns the pool: taking it (acquire) sees the stores of the last owner before its
    # release, so that two jobs are never mixed.
    LOCK = 32
    # The job. STATE orders these: written by LOCK's owner before seats open, read by workers with a seat.
    FUNCTION = 48
    ARGS = 49
    ITEMS = 50
    GRAIN = 51
    CHUNKS = 52
    PARTS = 53
    # The processor of the caller. It is read before a seat is taken, perhaps while the next job is written: a
    # hint, which may be that of another job.
    CALLER = 54
    # Threads that sleep, or are about to: see STATE. When it only decides whether to yield, nothing is
    # ordered.
    SLEEPERS = 64
    # 1 when workers shall end. Written before the generation of STATE changes, read after a change of it was
    # seen (acquire): a worker woken by that change sees it.
    STOP = 80
    # Per part, PART_WORDS apart: chunks of it that were claimed. Each is claimed once, since additions are
    # atomic. A chunk reads the job, which STATE orders; these are set to 0 before the job is published, and
    # with it.
    NEXT = 96


def pool_words(threads: int) -> int:
    """The size of a pool's memory."""
    return PoolWord.NEXT + PART_WORDS * threads


class Threads(Protocol):
    """A pool of so many threads, ready for regions, with the address of its words."""

    threads: int
    address: int
