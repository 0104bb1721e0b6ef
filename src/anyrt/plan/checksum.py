"""Checksums of constants: SHA-256, computed on several threads, since one takes 0.1 s for 100 MB.

A constant of at most `PIECE_BYTES` has the SHA-256 of its bytes. A longer one is cut into pieces of so many,
and has the SHA-256 of the digests of its pieces, one after the other. Its size, which the header states,
tells the two forms apart, so that whoever finds another content for a checksum has broken SHA-256.

>>> checksums([memoryview(b"abc")])
['ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad']
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from anyrt.core.flags import default_threads
from anyrt.plan.room import THREAD_ROOM, require_room

PIECE_BYTES: Final = 4 << 20
_PIECES_PER_THREAD: Final = 2  # less is done before another thread has started


def checksums(contents: Sequence[memoryview]) -> list[str]:
    """The checksum of each constant, in hexadecimal digits; `contents` are views of single bytes."""
    cut = [[x[at : at + PIECE_BYTES] for at in range(0, max(1, x.nbytes), PIECE_BYTES)] for x in contents]
    found = iter(_digests([piece for pieces in cut for piece in pieces]))
    ours = [[next(found) for _ in pieces] for pieces in cut]
    return [(own[0] if len(own) == 1 else _sha256(b"".join(own))).hex() for own in ours]


def _sha256(content: bytes | memoryview) -> bytes:
    return hashlib.sha256(content).digest()


def _digests(pieces: Sequence[memoryview]) -> list[bytes]:
    """The SHA-256 of each piece, by this thread and others that are started for it."""
    found, todo = [b""] * len(pieces), deque(range(len(pieces)))

    def work() -> None:
        while True:
            try:
                i = todo.popleft()
            except IndexError:
                return
            found[i] = _sha256(pieces[i])

    most = sum(piece.nbytes for piece in pieces) // (_PIECES_PER_THREAD * PIECE_BYTES)
    others = [t for _ in range(1, min(most, default_threads())) if (t := _started(work))]
    try:
        work()
    finally:
        todo.clear()  # for the others, when this thread was interrupted
        for thread in others:
            thread.join()
    assert all(found), "a piece has no digest"
    return found


def _started(work: Callable[[], None]) -> threading.Thread | None:
    """A thread that works; None where the system has no room for it, so that others do its work."""
    thread = threading.Thread(target=work, name="anyrt-checksum", daemon=True)
    try:
        require_room(THREAD_ROOM, "checksums")
        thread.start()
    except RuntimeError:
        return None
    return thread
