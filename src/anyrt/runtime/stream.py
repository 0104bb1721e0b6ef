"""Weights that are read from the plan when a step needs them, so that few of them are in memory at once.

A `Stream` has addresses for all constants, and memory for two kinds: those that stay, as many as a budget
allows, and those of the current step, whose memory is freed after it. Each constant has a fixed address, and
the memory is that of the budget and of the largest step, in whole pages.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, groupby
from typing import TypeAlias

from anyrt.plan.content import SHARED_BYTES, Bytes
from anyrt.plan.crew import share
from anyrt.plan.device import Device
from anyrt.plan.plan import BlobRecord, Plan
from anyrt.plan.program import Program

# Fills memory with the bytes of constants from an offset on.
Source: TypeAlias = Callable[[int, Bytes], None]
Pages: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Need:
    """The data that a step reads of the constants that do not stay; `pages`: those that it frees."""

    blobs: tuple[BlobRecord, ...] = ()
    pages: Pages = ()

    @property
    def nbytes(self) -> int:
        """The bytes of these constants."""
        return sum(b.nbytes for b in self.blobs)


class Stream:
    """The constants of a plan at the addresses of `memory`, read by `source`. Steps of several contexts
    alternate, and a new budget waits for the current step."""

    __slots__ = ("_kept", "_lock", "_needs", "_plan", "_program", "memory", "source")

    def __init__(self, plan: Plan, program: Program, device: Device, source: Source) -> None:
        self._plan, self._program, self.source = plan, program, source
        self.memory = device.reserve(plan.blob_bytes)
        self._lock = threading.Lock()
        self._kept: frozenset[BlobRecord] = frozenset()
        self._needs: dict[int, Need] = {}

    def keep(self, budget: int) -> None:
        """Keep so many bytes of constants in memory from now on."""
        with self._lock:
            before, self._kept = self._kept, frozenset(_kept(self._plan, self._program, budget))
            self._needs = _needs(self._plan, self._program, self._kept)
            self._release(_pages(before - self._kept, self._kept))
            self._fill(self._kept - before)

    @property
    def largest(self) -> int:
        """The most bytes of constants that a step reads besides those that stay."""
        return max((need.nbytes for need in self._needs.values()), default=0)

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """The data that step `number` reads are in memory."""
        with self._lock:
            need = self._needs.get(number, Need())
            try:
                self._fill(need.blobs)
                yield
            finally:
                self._release(need.pages)

    def _fill(self, blobs: Iterable[BlobRecord]) -> None:
        """Read constants into their places, on several threads."""
        todo = [part for b in blobs for part in _parts(b.offset, b.offset + b.nbytes)]
        memory, source = self.memory.bytes, self.source
        share(len(todo), lambda i: source(todo[i].start, memory[todo[i]]), "weights")

    def _release(self, pages: Pages) -> None:
        for begin, end in pages:
            self.memory.release(begin, end)


def _parts(begin: int, end: int) -> list[slice]:
    """The bytes that one thread reads at a time."""
    return [slice(k, min(k + SHARED_BYTES, end)) for k in range(begin, end, SHARED_BYTES)]


def _needs(plan: Plan, program: Program, staying: frozenset[BlobRecord]) -> dict[int, Need]:
    """The constants that each step reads of the others, with the steps inside it; for steps that read any."""
    at, inside = {b.offset: b for b in plan.blobs if b.nbytes and b not in staying}, dict(program.inside)
    needs = {}
    for k in range(len(program.kernels)):
        offsets = set(chain.from_iterable(program.reads[k : k + 1 + inside.get(k, 0)]))
        blobs = tuple(at[offset] for offset in sorted(offsets) if offset in at)
        if blobs:
            needs[k] = Need(blobs, _pages(blobs, staying))
    return needs


def _kept(plan: Plan, program: Program, budget: int) -> Iterator[BlobRecord]:
    """Constants that stay: those that tables depend on, and others as long as they fit."""
    always = set(program.reads[-1]) if program.reads else set()
    for blob in plan.blobs:
        if blob.offset in always and blob.nbytes:
            budget -= blob.nbytes
            yield blob
    for blob in plan.blobs:
        if blob.offset not in always and blob.nbytes <= budget:
            budget -= blob.nbytes
            yield blob


def _pages(blobs: Iterable[BlobRecord], staying: Iterable[BlobRecord]) -> Pages:
    """The pages of constants that contain none of those that stay."""
    stays = set(chain.from_iterable(map(_touched, staying)))
    return tuple(_runs(set(chain.from_iterable(map(_touched, blobs))) - stays))


def _touched(blob: BlobRecord) -> range:
    """The numbers of its pages."""
    return range(blob.offset // mmap.PAGESIZE, -(-(blob.offset + blob.nbytes) // mmap.PAGESIZE))


def _runs(pages: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring pages together, as bytes."""
    for _, run in groupby(enumerate(sorted(pages)), lambda pair: pair[1] - pair[0]):
        numbers = [page for _, page in run]
        yield numbers[0] * mmap.PAGESIZE, (numbers[-1] + 1) * mmap.PAGESIZE
