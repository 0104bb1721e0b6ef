"""Processes of one machine that exchange arrays over shared memory, without any dependency.

with SharedRanks("mine", rank=0, size=2) as ranks:      # and rank=1 in another process of the same user
    total = exchange(ranks, Exchange(CollectiveOperation.ALL_REDUCE, ReduceOperation.SUM), x)

The memory is a file in /dev/shm that only its user may open. Its name is taken away as soon as all have it,
so that nothing is left of ranks that crash. Each holds a lock on a byte of it, which shows that it lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Final, Self

import numpy as np

from anyrt.core.errors import ArgumentError, ResourceError
from anyrt.runtime.collective import Bytes

MOST: Final = 256  # ranks
TEXT: Final = 32
SLOTS: Final = 3  # of each rank: two in turn for exchanges of all, one for groups
WORD: Final = 8
GO: Final = 0  # the word that says that all are there
ENDED: Final = 1  # the word that names a rank that gave up, plus 1
FIRST: Final = 8  # words before the table
SPINS: Final = 2000  # looks before a waiting rank lets others run
LOOK_SECONDS: Final = 0.05  # between looks whether others live


class SharedRanks:
    """Rank `rank` of `size`, under a name that all of them give; waits until all are there.

    `seconds` is the longest that any call waits for others; `chunk` bytes are shared at once."""

    def __init__(self, name: str, rank: int, size: int, seconds: float = 30.0, chunk: int = 1 << 20) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            raise ArgumentError("AR304", "SharedRanks", f"name {name!r}", "letters, digits, _ and -")
        if not (1 <= size <= MOST and 0 <= rank < size):
            raise ArgumentError("AR304", "SharedRanks", f"rank {rank} of {size}", f"0 ≤ rank < size ≤ {MOST}")
        self.rank, self.size, self.chunk = rank, size, -(-chunk // 64) * 64
        self._seconds, self._turn, self._fence = seconds, 0, threading.Lock()
        self._path = _folder() / f"anyrt-{os.getuid()}-{name}"
        self._waited = time.monotonic()
        while not self._join():
            if time.monotonic() - self._waited > seconds:
                raise self._missing([r for r in range(size) if r != rank])
            time.sleep(0.002)

    def _layout(self) -> int:
        """Bytes of the file: words, a table of counts for each pair, texts and chunks."""
        self._table = FIRST * WORD
        self._texts = self._table + self.size * self.size * WORD
        self._chunks_at = -(-(self._texts + self.size * SLOTS * 2 * TEXT) // 4096) * 4096
        return self._chunks_at + self.size * SLOTS * self.chunk

    def _join(self) -> bool:
        """Make or open the memory and wait for all; False where it was that of others, which ended."""
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
        self._words = np.frombuffer(self._memory, np.int64, FIRST)
        counts = np.frombuffer(self._memory, np.int64, self.size * self.size, self._table)
        self._counts = counts.reshape(self.size, self.size)
        texts = np.frombuffer(self._memory, np.uint8, self.size * SLOTS * 2 * TEXT, self._texts)
        self._text = texts.reshape(self.size, SLOTS, 2 * TEXT)
        chunks = np.frombuffer(self._memory, np.uint8, self.size * SLOTS * self.chunk, self._chunks_at)
        self._chunks = chunks.reshape(self.size, SLOTS, self.chunk)

    def _meet(self) -> bool:
        self._counts[self.rank, self.rank] = 1
        if self.rank == 0:
            try:
                self._wait(lambda: [r for r in range(self.size) if not self._counts[r, r]], is_joining=True)
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

    def _remove_left(self) -> None:
        """The memory of ranks that ended before all had it."""
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

    def share(self, text: bytes, chunk: Bytes, members: Sequence[int]) -> Sequence[Bytes]:
        """The chunks of all members; see Communicator."""
        if self._words[ENDED]:
            raise self._gone([])
        is_all = len(members) == self.size
        self._turn += is_all
        slot = self._turn % 2 if is_all else 2
        told = self._text[self.rank, slot]
        told[:TEXT] = np.frombuffer(text, np.uint8)
        told[TEXT : TEXT + WORD] = np.frombuffer(chunk.size.to_bytes(WORD, "little"), np.uint8)
        self._chunks[self.rank, slot, : chunk.size] = chunk
        self._barrier(members)
        for member in members:
            if not np.array_equal(self._text[member, slot], told):
                self._words[ENDED] = self.rank + 1
                got = f"another exchange, shape or type on rank {member}"
                raise ArgumentError("AR304", f"rank {self.rank}", got, "the same on all ranks")
        return [self._chunks[m, slot, : chunk.size] for m in members]

    def release(self, members: Sequence[int]) -> None:
        """Chunks of groups may be written over; those of all are, two exchanges later."""
        if len(members) != self.size:
            self._barrier(members)

    def _barrier(self, members: Sequence[int]) -> None:
        """Returns once all members are here. What was stored before is seen by them afterwards: a lock orders
        stores and loads on processors that do not by themselves."""
        with self._fence:
            mine, others = self._counts[self.rank], [m for m in members if m != self.rank]
        for member in others:
            mine[member] += 1
        counts, rank = self._counts, self.rank
        for member in others:
            wanted = mine[member]
            for _ in range(SPINS):
                if counts[member, rank] >= wanted:
                    break
            else:
                self._wait(lambda: [m for m in others if counts[m, rank] < mine[m]])
        with self._fence:
            pass

    def _wait(self, missing: Callable[[], list[int]], is_joining: bool = False) -> None:
        """Until nobody is missing; raises where one has ended, or none comes in time."""
        start = looked = time.monotonic()
        while absent := missing():
            now = time.monotonic()
            if now - looked > LOOK_SECONDS:
                looked = now
                dead = [] if is_joining else [m for m in absent if not self._lives(m)]
                if dead or self._words[ENDED]:
                    raise self._gone(dead)
                if now - start > self._seconds:
                    self._words[ENDED] = self.rank + 1
                    raise self._missing(absent)
            time.sleep(0 if now - start < 0.002 else 0.0001)

    def _gone(self, dead: Sequence[int]) -> ResourceError:
        who = f"rank {dead[0]} has ended" if dead else f"rank {self._words[ENDED] - 1} gave up"
        return ResourceError("AR802", f"rank {self.rank}", who, "all ranks", "start all of them again")

    def _missing(self, absent: Sequence[int]) -> ResourceError:
        got = f"no word of rank {', '.join(map(str, absent))} in {self._seconds:g} s"
        return ResourceError("AR802", f"rank {self.rank}", got, "all ranks", "start all, or wait longer")

    def _drop(self) -> None:
        del self._words, self._counts, self._text, self._chunks
        with contextlib.suppress(BufferError):  # arrays of an exchange that failed may still look at it
            self._memory.close()
        os.close(self._handle)

    def close(self) -> None:
        """Leave; others that wait for this rank are told so."""
        if hasattr(self, "_words"):
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _folder() -> Path:
    """Where files are memory, if there is such a place."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else Path(gettempdir())
