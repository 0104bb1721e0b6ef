"""Checksums of constants against damage, near the speed of memory, computed on several threads.

A constant of at most `SHORT_BYTES` has the SHA-256 of its bytes. A longer one is rows of 64 words of 64 bits,
and each of the 64 columns is mixed to one word, modulo 2^64:

    lane = rotate(lane + word * SCALE, 31) * FACTOR

for each word from the first row to the last (the round of XXH64), anew for each piece of `PIECE_ROWS` rows.
The checksum is the SHA-256 of all lanes, piece after piece, and of the bytes behind the last whole row. The
size of a constant, which the header states, tells all these forms apart.

A step can be undone for a known word, and for a known lane, so that one changed word in a column always
changes its lane; several do but for one in 2^64 times. Whoever means to find other content for a lane can,
as whoever changes weights can write another header: checksums are no signatures. What code is compiled from,
numbers that stand alone, is short.

>>> checksums([memoryview(b"abc")])
['ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad']
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from anyrt.core.flags import default_threads
from anyrt.plan.room import THREAD_ROOM, require_room

Words: TypeAlias = npt.NDArray[np.uint64]
Mixer: TypeAlias = Callable[[Words, Words], None]  # takes rows, changes lanes

MIX: Final = "mix"  # the entry of native code: (address of rows, how many, address of lanes)
SHORT_BYTES: Final = 1 << 16
PIECE_ROWS: Final = 1 << 12  # 2 MB
LANES: Final = 64
ROW_BYTES: Final = 8 * LANES
ROTATED: Final = 31
SCALE: Final = 0xC2B2AE3D27D4EB4F  # primes of XXH64
FACTOR: Final = 0x9E3779B185EBCA87
_START: Final = np.arange(1, LANES + 1, dtype=np.uint64) * np.uint64(0x165667B19E3779F9)
_PIECES_PER_THREAD: Final = 4  # less is done before another thread has started


def mix(rows: Words, lanes: Words) -> None:
    """The definition, as NumPy has it; `rows`: (n, 64), `lanes`: (64), which are changed."""
    for row in rows * np.uint64(SCALE):
        lanes += row
        turned = lanes << np.uint64(ROTATED) | lanes >> np.uint64(64 - ROTATED)
        np.multiply(turned, np.uint64(FACTOR), out=lanes)


def portable() -> Mixer:
    """`mix`, which needs no native code and is many times slower."""
    return mix


def checksums(contents: Sequence[memoryview], mixer: Callable[[], Mixer] = portable) -> list[str]:
    """The checksum of each constant, in hexadecimal digits; `contents` are views of single bytes.

    `mixer` gives what computes as `mix` does; it is called where a constant is long."""
    rows = {n: _rows_of(x) for n, x in enumerate(contents) if x.nbytes > SHORT_BYTES}
    pieces = [(n, at) for n, own in rows.items() for at in range(0, len(own), PIECE_ROWS)]
    lanes = np.tile(_START, (len(pieces), 1))
    fast = mixer() if pieces else mix

    def work(i: int) -> None:
        n, at = pieces[i]
        fast(rows[n][at : at + PIECE_ROWS], lanes[i])

    _share(len(pieces), work)
    digests = [hashlib.sha256() for _ in contents]
    for (n, _), own in zip(pieces, lanes, strict=True):
        digests[n].update(own.data)
    for n, content in enumerate(contents):
        digests[n].update(content[len(rows[n]) * ROW_BYTES :] if n in rows else content)
    return [digest.hexdigest() for digest in digests]


def _rows_of(content: memoryview) -> Words:
    """The whole rows of a constant, in place; they may begin anywhere."""
    return np.frombuffer(content, np.uint64, content.nbytes // ROW_BYTES * LANES).reshape(-1, LANES)


def _share(count: int, work: Callable[[int], None]) -> None:
    """Call `work` with each number below `count`, in this thread and in others that are started for it."""
    todo, done = deque(range(count)), [False] * count

    def several() -> None:
        while True:
            try:
                i = todo.popleft()
            except IndexError:
                return
            work(i)
            done[i] = True

    most = count // _PIECES_PER_THREAD
    others = [t for _ in range(1, min(most, default_threads())) if (t := _started(several))]
    try:
        several()
    finally:
        todo.clear()  # for the others, when this thread was interrupted
        for thread in others:
            thread.join()
    assert all(done), "a piece was not mixed"


def _started(work: Callable[[], None]) -> threading.Thread | None:
    """A thread that works; None where the system has no room for it, so that others do its work."""
    thread = threading.Thread(target=work, name="anyrt-checksum", daemon=True)
    try:
        require_room(THREAD_ROOM, "checksums")
        thread.start()
    except RuntimeError:
        return None
    return thread
