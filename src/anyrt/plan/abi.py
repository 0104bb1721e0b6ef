"""The interface of native code: entry points, the words of the argument array, status codes.

    int32 prepare(i64 *args)            fills the per-shape tables; once after sizes changed
    int32 run(i64 *args)                the whole inference
    int32 step(i64 *args, i64 k)        kernel k alone, for the profiler
    int32 resume(i64 *args, i64 k)      the inference from kernel k on, where it has paused
    void  kernel(ptr frame, i64 begin, i64 end, ptr scratch)
    void  parallel(ptr pool, ptr kernel, ptr frame, i64 items, i64 grain)

A frame begins with the fixed words of the array; the pointers and sizes of one kernel follow.

The array begins with the fixed words below; then come one pointer per binding (inputs, then outputs), then
the values of `Program.slots` for the current sizes, and `Program.frames` words, initially 0, for native code.
It stores in the last three the number of a failed assertion (one word), or of an invalid access (three):

>>> slot_word(bindings=3, slot=0)
12
"""

from __future__ import annotations

import enum
from typing import Final

WORD_BYTES: Final = 8

POOL: Final = 0  # address of the pool, whose word 0 is the address of parallel()
ARENA: Final = 1  # intermediate tensors
CONSTS: Final = 2  # the plan's blobs: blob i lies at this address + plan.blobs[i].offset
TABLES: Final = 3  # what prepare() writes and run() reads
SCRATCH: Final = 4  # thread t owns [SCRATCH + t * SCRATCH_STRIDE, + SCRATCH_STRIDE)
SCRATCH_STRIDE: Final = 5  # bytes, a multiple of ALIGNMENT
CANCEL: Final = 6  # address of an int64 that cancels native code if it is not 0; 0 if nobody can cancel
PROGRAM: Final = 7  # address of the host program's first word
EXTERNAL: Final = 8  # address of the functions for foreign code: int32 call(ptr frame) for each number
FIRST_BINDING: Final = 9

ALIGNMENT: Final = 64  # of the arena, the tables, the scratch of each thread, and every blob

PREPARE: Final = "prepare"
RUN: Final = "run"
STEP: Final = "step"
RESUME: Final = "resume"
AGAIN: Final = "again"
CODE: Final = "program"  # the entry that is no function: the host program's first word


class Status(enum.IntEnum):
    """What an entry point returns; the runtime raises an exception for all but OK. A negative status means
    that the inference has paused before a kernel, −1 for number 0, since data-dependent sizes were computed:
    words and memory are updated, then `resume` continues."""

    OK = 0
    CANCELLED = 1
    FAILED = 2
    RAISED = 4  # of foreign code: it failed, and the caller has the exception
    STALE = 3  # of the runtime instead of native code: the constants have changed


# The result of a successful call; if an exception cannot pass native code, it is any other number.
DONE: Final = 0x600D_CA11
FIRST_FAULT: Final = 16  # from here on: a status for each of `Program.assertions`, then of its `fences`
FOUND_WORDS: Final = 3


def slot_word(bindings: int, slot: int) -> int:
    """The index in the argument array of slot number `slot` when there are `bindings` tensors."""
    return FIRST_BINDING + bindings + slot


def align(n: int, to: int = ALIGNMENT) -> int:
    """`n` rounded up to a multiple of `to`."""
    return -(-n // to) * to
