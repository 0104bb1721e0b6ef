"""Collective operations between processes of one machine over shared memory, without any dependency.

with SharedRanks("mine", rank=0, size=2) as ranks:      # and rank=1 in another process of the same user
    total = exchange(ranks, Exchange(CollectiveOperation.ALL_REDUCE, ReduceOperation.SUM), x)

The memory is a file in /dev/shm that only its user may open. Its name is removed as soon as all ranks have
opened it, so that crashed ranks leave nothing behind. Each holds a lock on a byte of it, which shows that it
is alive.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import platform
import re
import stat
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Final, Self

import numpy as np

from anyrt.backends import meeting
from anyrt.backends.meeting import FrameWord, Met
from anyrt.core.errors import ArgumentError, ResourceError
from anyrt.core.quota import allowance
from anyrt.runtime.arrays import address_of
from anyrt.runtime.collective import Array, Bytes, Put

MOST: Final = 256  # ranks
SLOTS: Final = 3  # of each rank: two in turn for operations of all, one for groups
WORD: Final = 8
HEADER: Final = 64  # bytes before a piece, in a line of their own: its counter, and the digest of its text
SIGN: Final = 1  # words behind the counter
GO: Final = 0  # the word that shows that all ranks have joined
ENDED: Final = 1  # the word with the rank that failed, plus 1
FIRST: Final = 8  # words before the table
KEPT: Final = 64  # sizes and texts of operations that are cached
# Checks before a waiting rank yields: 0.1 ms, longer than ranks with a processor each differ. With fewer
# processors than ranks the awaited rank needs this one.
SPINS, FEW_SPINS = range(2000), range(20)
SMALL: Final = 1 << 11  # bytes of a piece that native code exchanges; NumPy copies and adds more as fast
IS_ORDERED: Final = platform.machine() in ("x86_64", "AMD64")
YIELD_SECONDS: Final = 0.002  # before a waiting rank sleeps
LOOK_SECONDS: Final = 0.05  # between checks whether others are alive


@dataclass(frozen=True, slots=True)
class _Slot:
    """The pieces of some members. `mine`: the word of this rank's header; `headers`: those of all, with the
    members; `others`: those of the others."""

    mine: int
    piece: Bytes
    pieces: list[Bytes]
    headers: list[tuple[int, int]]
    others: list[int]


class SharedRanks:
    """Rank `rank` of `size`, under a name that all of them use; waits until all have joined.

    `seconds` is the time limit for waiting in any call; `chunk` bytes are shared at once."""

    def __init__(self, name: str, rank: int, size: int, seconds: float = 30.0, chunk: int = 1 << 20) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            raise ArgumentError("AR304", "SharedRanks", f"name {name!r}", "letters, digits, _ and -")
        if not (1 <= size <= MOST and 0 <= rank < size):
            raise ArgumentError("AR304", "SharedRanks", f"rank {rank} of {size}", f"0 ≤ rank < size ≤ {MOST}")
        self.rank, self.size, self.chunk = rank, size, -(-chunk // 64) * 64
        self._seconds, self._turn, self._fence = seconds, 0, threading.Lock()
        self._looks = SPINS if size <= allowance().count else FEW_SPINS
        self._slots, self._signs = dict[tuple[int, int, tuple[int, ...]], _Slot](), dict[bytes, int]()
        self._path = _folder() / f"anyrt-{os.getuid()}-{name}"
        self._waited = time.monotonic()
        while not self._join():
            if time.monotonic() - self._waited > seconds:
                raise self._missing([r for r in range(size) if r != rank])
            time.sleep(0.002)

    def _layout(self) -> int:
        """Bytes of the file: words, a table of counts for each pair, pieces with their headers."""
        self._pieces = -(-(FIRST + self.size * self.size) * WORD // 4096) * 4096
        return self._pieces + self.size * SLOTS * (HEADER + self.chunk)

    def _join(self) -> bool:
        """Create or open the memory and wait for all; False if it belonged to other ranks, which ended."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        if self.rank == 0:
            self._remove_left()
            flags |= os.O_CREAT | os.O_EXCL
        try:
            self._handle = os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            return False
        except FileExistsError:
            do = "give another name, or wait for the others to end"
            raise ArgumentError("AR304", str(self._path), "a name that is in use", "another", do) from None
        length = self._layout()
        if self.rank == 0:
            os.ftruncate(self._handle, length)
        elif not self._is_ours(length):
            os.close(self._handle)
            return False
        fcntl.lockf(self._handle, fcntl.LOCK_EX, 1, self.rank)
        self._map(length)
        return self._meet()

    def _is_ours(self, length: int) -> bool:
        facts = os.fstat(self._handle)
        if facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) != 0o600:
            got = f"mode {stat.filemode(facts.st_mode)}, owner {facts.st_uid}"
            raise ResourceError("AR802", str(self._path), got, "memory of your own")
        if facts.st_size not in (0, length):
            wanted = "the same size and chunk on all ranks"
            raise ArgumentError("AR304", str(self._path), f"{facts.st_size} bytes for {length}", wanted)
        return facts.st_size == length and self._lives(0)

    def _map(self, length: int) -> None:
        self._memory = mmap.mmap(self._handle, length)
        self._words = memoryview(self._memory).cast("q")  # whose elements cost a third of an array's

    def _meet(self) -> bool:
        self._words[self._count(self.rank, self.rank)] = 1
        if self.rank == 0:
            try:
                self._wait(self._not_here, is_joining=True)
            finally:
                os.unlink(self._path)
            self._words[GO] = 1
            return True
        while not self._words[GO]:
            if not self._lives(0):
                self._drop()
                return False
            if time.monotonic() - self._waited > self._seconds:
                raise self._missing([0])
            time.sleep(0.001)
        return True

    def _not_here(self) -> list[int]:
        return [r for r in range(self.size) if not self._words[self._count(r, r)]]

    def _remove_left(self) -> None:
        """The memory of ranks that ended before all had joined."""
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(self._path)
        except BlockingIOError:
            return
        finally:
            os.close(handle)

    def _lives(self, rank: int) -> bool:
        """Whether a rank holds its lock."""
        try:
            fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, rank)
        except OSError:
            return True
        fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, rank)
        return False

    def share(self, text: bytes, piece: Bytes, members: Sequence[int]) -> Sequence[Bytes]:
        """The pieces of all members; see Communicator."""
        words = self._words
        if words[ENDED]:
            raise self._gone([])
        if len(members) != self.size:
            return self._share_in_group(text, piece, tuple(members))
        self._turn = turn = self._turn + 1
        key = turn & 1, piece.size, tuple(members)
        slot = self._slots.get(key) or self._slot(*key)
        sign, mine = self._sign(text), slot.mine
        np.copyto(slot.piece, piece)
        words[mine + SIGN] = sign
        self._order()
        words[mine] = turn
        for theirs in slot.others:
            for _ in self._looks:
                if words[theirs] >= turn:
                    break
            else:
                self._wait(lambda: [m for m, at in slot.headers if words[at] < turn])
        self._order()
        for theirs in slot.others:
            if words[theirs + SIGN] != sign:
                raise self._differs(slot)
        return slot.pieces

    def repeat(
        self, text: bytes, piece: Bytes, members: Sequence[int], total: Array | None, put: Put
    ) -> Callable[[], None] | None:
        """Native code that shares the same small memory each time; see Repeats."""
        native = meeting.code() if len(members) == self.size and 0 < piece.size <= SMALL else None
        if native is None:
            return None
        slots = [self._slot(number, piece.size, tuple(members)) for number in (0, 1)]
        frames = [np.array(self._frame(slot, self._sign(text), piece, total)) for slot in slots]
        # Native code uses addresses of these, which live as long as the function.
        held = slots, frames, piece, total, native
        places, meet = [address_of(frame) for frame in frames], native.function(meeting.MEET, 2)

        def run() -> None:
            if self._words[ENDED]:
                raise self._gone([])
            self._turn = turn = self._turn + 1
            met = meet(places[turn & 1], turn)
            if met:
                slot = held[0][turn & 1]
                self._complete(slot, turn, met == Met.WAITS)
                put(slot.pieces)

        return run

    def _frame(self, slot: _Slot, sign: int, piece: Bytes, total: Array | None) -> list[int]:
        """The words of a frame, whose meaning FrameWord states."""
        start = address_of(np.frombuffer(self._memory, np.uint8))
        is_added = total is not None and total.dtype in meeting.ADDED
        sums = total if total is not None and is_added else np.empty(0)
        facts = {
            FrameWord.SPINS: len(self._looks),
            FrameWord.SIGN: sign,
            FrameWord.MINE: start + slot.mine * WORD,
            FrameWord.X: address_of(piece),
            FrameWord.NBYTES: piece.size,
            FrameWord.TOTAL: address_of(sums),
            FrameWord.ADDED: 1 + meeting.ADDED.index(sums.dtype) if is_added else 0,
            FrameWord.ELEMENTS: sums.size,
            FrameWord.MEMBERS: len(slot.headers),
        }
        return [*(facts[word] for word in sorted(facts)), *(start + at * WORD for _, at in slot.headers)]

    def _complete(self, slot: _Slot, turn: int, waits: bool) -> None:
        """Returns when all pieces are there, like `share`."""
        words = self._words
        if waits:
            self._wait(lambda: [m for m, at in slot.headers if words[at] < turn])
            self._order()
        if any(words[theirs + SIGN] != words[slot.mine + SIGN] for theirs in slot.others):
            raise self._differs(slot)

    def _share_in_group(self, text: bytes, piece: Bytes, members: tuple[int, ...]) -> Sequence[Bytes]:
        slot, sign = self._slot(2, piece.size, members), self._sign(text)
        slot.piece[:] = piece
        self._words[slot.mine + SIGN] = sign
        self._barrier(members)
        if any(self._words[theirs + SIGN] != sign for theirs in slot.others):
            raise self._differs(slot)
        return slot.pieces

    def _slot(self, number: int, nbytes: int, members: tuple[int, ...]) -> _Slot:
        """The pieces of so many bytes; those of all members are cached, since operations are repeated."""
        places = [self._pieces + (m * SLOTS + number) * (HEADER + self.chunk) for m in members]
        pieces = [np.frombuffer(self._memory, np.uint8, nbytes, at + HEADER) for at in places]
        headers = [(m, at // WORD) for m, at in zip(members, places, strict=True)]
        me = members.index(self.rank)
        slot = _Slot(headers[me][1], pieces[me], pieces, headers, [at for m, at in headers if m != self.rank])
        if number < 2:
            if len(self._slots) >= KEPT:
                self._slots.clear()
            self._slots[number, nbytes, members] = slot
        return slot

    def _sign(self, text: bytes) -> int:
        """The digest of a text: 8 bytes of a hash of 32."""
        digest = self._signs.get(text)
        if digest is None:
            if len(self._signs) >= KEPT:
                self._signs.clear()
            digest = self._signs[text] = int.from_bytes(text[:WORD], "little", signed=True)
        return digest

    def _differs(self, slot: _Slot) -> ArgumentError:
        """The error if another member's text differs from this rank's."""
        words, self._words[ENDED] = self._words, self.rank + 1
        other = next(m for m, at in slot.headers if words[at + SIGN] != words[slot.mine + SIGN])
        got = f"another exchange, shape or type on rank {other}"
        return ArgumentError("AR304", f"rank {self.rank}", got, "the same on all ranks")

    def release(self, members: Sequence[int]) -> None:
        """Pieces of groups may be overwritten at once; those of all are, two operations later."""
        if len(members) != self.size:
            self._barrier(members)

    def _order(self) -> None:
        """Earlier stores are visible to ranks that see later stores, and likewise for loads: x86 guarantees
        this order, and a lock enforces it elsewhere."""
        if not IS_ORDERED:
            with self._fence:
                pass

    def _barrier(self, members: Sequence[int]) -> None:
        """Returns once all members have arrived."""
        self._order()
        words, others = self._words, [m for m in members if m != self.rank]
        pairs = [(m, self._count(self.rank, m), self._count(m, self.rank)) for m in others]
        for _, mine, _ in pairs:
            words[mine] += 1
        for _, mine, theirs in pairs:
            for _ in self._looks:
                if words[theirs] >= words[mine]:
                    break
            else:
                self._wait(lambda: [m for m, mine, theirs in pairs if words[theirs] < words[mine]])
        self._order()

    def _count(self, rank: int, of: int) -> int:
        """The counter of a rank's operations with another one."""
        return FIRST + rank * self.size + of

    def _wait(self, missing: Callable[[], list[int]], is_joining: bool = False) -> None:
        """Wait until nobody is missing; raises if one has ended, or does not arrive in time."""
        start = checked = time.monotonic()
        while absent := missing():
            now = time.monotonic()
            if now - checked > LOOK_SECONDS:
                checked = now
                dead = [] if is_joining else [m for m in absent if not self._lives(m)]
                if dead or self._words[ENDED]:
                    raise self._gone(dead)
                if now - start > self._seconds:
                    self._words[ENDED] = self.rank + 1
                    raise self._missing(absent)
            if now - start < YIELD_SECONDS:
                os.sched_yield()
            else:
                time.sleep(0.0001)

    def _gone(self, dead: Sequence[int]) -> ResourceError:
        who = f"rank {dead[0]} has ended" if dead else f"rank {self._words[ENDED] - 1} gave up"
        return ResourceError("AR811", f"rank {self.rank}", who, "all ranks", "start all of them again")

    def _missing(self, absent: Sequence[int]) -> ResourceError:
        got = f"no message from rank {', '.join(map(str, absent))} in {self._seconds:g} s"
        return ResourceError("AR811", f"rank {self.rank}", got, "all ranks", "start all, or wait longer")

    def _drop(self) -> None:
        self._slots.clear()
        del self._words
        with contextlib.suppress(BufferError):  # the cache of an operation may still read it
            self._memory.close()
        os.close(self._handle)

    def close(self) -> None:
        """Leave, and notify ranks that wait for this one."""
        if hasattr(self, "_words"):
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _folder() -> Path:
    """The folder of memory files, if there is one."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else Path(gettempdir())
