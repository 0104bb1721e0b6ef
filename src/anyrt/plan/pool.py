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
    """Places in the memory of a pool, each with why its accesses are ordered as they are in
    `backends/cpu/pool.py`. All are atomic; those without a word about it order nothing (monotonic)."""

    # parallel()'s address, and ticks before a worker sleeps: written before there are threads, which starting
    # one orders; never changed after.
    PARALLEL = 0
    # Threads beside the caller; 0 makes every region serial. A caller that sees an old number offers too many
    # seats, or too few: it waits for those who sit down alone.
    WORKERS = 1
    SPIN_TICKS = 2
    # 1 where a worker on the caller's processor can be moved to another one: a hint, that may come late.
    MOVABLE = 3
    # Publishes a job: a caller has written it before it opens seats (sequentially consistent, so release),
    # and a worker reads it after it took one (acquire and release); other seats are taken in between by such
    # steps, which carry the caller's release on. A worker that leaves releases what its chunks have stored;
    # the caller, who waits until nobody is left (acquire), has seen all of it, and may write the next job.
    # Against SLEEPERS: a caller opens seats, then looks for sleepers; a worker says that it sleeps, then
    # Linux compares the generation, behind a barrier of its own (futex). In one order of all four
    # (sequential consistency), one of them sees what the other did, and no wake-up is lost.
    STATE = 16
    # 1 while a caller owns the pool: taking it (acquire) sees what the last owner did before it let go
    # (release), so that two jobs are never mixed.
    LOCK = 32
    # The job. STATE orders these: written by LOCK's owner before seats open, read by who has one.
    FUNCTION = 48
    ARGS = 49
    ITEMS = 50
    GRAIN = 51
    CHUNKS = 52
    PARTS = 53
    # The processor that the caller runs on. It is read before a seat is taken, perhaps while the next job is
    # written: a hint, that may be that of another job.
    CALLER = 54
    # Threads that sleep, or are about to: see STATE. Where it only says whether to give way, nothing is
    # ordered.
    SLEEPERS = 64
    # 1 when workers shall end. Written before the generation of STATE changes, read after a change of it was
    # seen (acquire): who is woken by that change sees it.
    STOP = 80
    # Per part, PART_WORDS apart: chunks of it that were claimed. Each is claimed once, as additions are
    # atomic. What a chunk reads is the job, which STATE orders; set to 0 are these before the job is
    # published, and with it.
    NEXT = 96


def pool_words(threads: int) -> int:
    """The size of a pool's memory."""
    return PoolWord.NEXT + PART_WORDS * threads


class Threads(Protocol):
    """A pool of so many threads, ready for regions, with the address of its words."""

    threads: int
    address: int
