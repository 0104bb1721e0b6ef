"""The memory of a loaded plan's constants, and their replacement by a refit or a stream."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np

from anyrt.plan import abi
from anyrt.plan.content import Bytes, lent
from anyrt.plan.device import Device
from anyrt.plan.file import PlanFile
from anyrt.plan.program import Program
from anyrt.runtime.stream import Source, Stream


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants in the memory that kernels read, valid as long as `owner` is held. `is_intact`: whether those
    in a mapped file are unchanged; None if they are in memory. `lacks`: those that are missing. `stream`:
    keeps few of them in memory at a time."""

    address: int
    owner: object
    is_intact: Callable[[], bool] | None = None
    lacks: tuple[str, ...] = ()
    stream: Stream | None = None

    def bytes(self, offset: int, nbytes: int) -> Bytes:
        """Some of them: in place, or read again if they are streamed."""
        if self.stream is None:
            return lent(self.address + offset, nbytes, self)
        buffer = np.empty(nbytes, np.uint8)
        self.stream.source(offset, buffer)
        return buffer

    def fill(self, offset: int, out: Bytes) -> None:
        """Copy them: a source for a stream."""
        out[:] = lent(self.address + offset, out.size, self)

    def step(self, number: int) -> AbstractContextManager[None]:
        """The data that step `number` reads are in memory."""
        return nullcontext() if self.stream is None else self.stream.step(number)


class Held:
    """The constants that inferences start with, and a lock for their replacement. An inference keeps the
    constants that it started with. `budget`: bytes of them that stay in memory, if they may be streamed;
    None: all."""

    __slots__ = (
        "_mapped",
        "_plan",
        "_program",
        "_source",
        "_whole",
        "budget",
        "can_stream",
        "device",
        "lock",
        "now",
    )

    def __init__(self, file: PlanFile, program: Program, device: Device) -> None:
        self._plan, self._program, self.device = file.plan, program, device
        self.can_stream = file.plan.streams
        self.budget: int | None = None
        self.lock = threading.Lock()
        self.now = whole = place_constants(file, device)
        source = _source(file) if self.can_stream else None
        self._source: Source = source or whole.fill
        self._mapped = file.mapped if self.can_stream else None
        # The user's memory is held only if it may be read again.
        again = partial(place_constants, file, device)
        self._whole: Callable[[], Constants] = again if source is not None else lambda: whole

    @property
    def can_change(self) -> bool:
        """Whether inferences must look up the constants to start with."""
        return self.can_stream or self._plan.refit is not None

    @property
    def is_intact(self) -> Callable[[], bool] | None:
        """Tests whether constants in a mapped file are unchanged, the current ones if they may be replaced;
        None if none are mapped."""
        if not self.can_change or self.now.is_intact is None:
            return self.now.is_intact
        return lambda: self.now.is_intact is None or self.now.is_intact()

    @property
    def largest_step(self) -> int:
        """The most bytes of streamed constants that one step reads."""
        return 0 if self.now.stream is None else self.now.stream.largest

    def put(self, constants: Constants) -> None:
        """Use other constants for later inferences; the caller holds the lock."""
        self._source, self._whole = constants.fill, lambda: constants
        self.now = constants
        self._take()

    def keep(self, budget: int) -> None:
        """Keep so many bytes of constants in memory from the next inference on, and read others when steps
        need them. ResourceError AR802 if there are no addresses for them."""
        with self.lock:
            self.budget = budget if budget < self._plan.blob_bytes else None
            self._take()

    def _take(self) -> None:
        if self.now.lacks:
            return
        if self.budget is None:
            self.now = self._whole()
            return
        if self._mapped is not None:
            self._mapped.forget()
        stream = self.now.stream or Stream(self._plan, self._program, self.device, self._source)
        stream.keep(self.budget)
        if self.now.stream is None:
            self.now = Constants(stream.memory.address, stream, self.now.is_intact, stream=stream)


def _source(file: PlanFile) -> Source | None:
    """A source that reads constants of the plan again; None if there is only a copy."""
    if file.plan.held != file.plan.blobs or not file.in_place:
        return None
    if file.mapped is None:
        weights = np.frombuffer(file.weights, np.uint8)
        return partial(_copy, weights)
    mapped, start = file.mapped, file.mapped.content.nbytes - file.weights.nbytes
    return partial(mapped.read, start)


def _copy(weights: Bytes, offset: int, out: Bytes) -> None:
    out[:] = weights[offset : offset + out.size]


def place_constants(file: PlanFile, device: Device) -> Constants:
    """Used in place if they are aligned and may be, otherwise copied to aligned memory."""
    if file.plan.held != file.plan.blobs:
        return _stripped(file, device)
    if not file.weights.nbytes:
        return Constants(0, None)
    source = np.frombuffer(file.weights, np.uint8)
    address = int(source.ctypes.data)
    if file.in_place and address % abi.ALIGNMENT == 0:
        return Constants(address, source, file.is_intact)
    memory = device.allocate(source.size)
    device.write(memory, source)
    return Constants(memory.address, memory)


def _stripped(file: PlanFile, device: Device) -> Constants:
    """Memory for all constants, filled with those in the file."""
    plan, memory = file.plan, device.allocate(file.plan.blob_bytes)
    weights = {b.name: file.weights[b.offset : b.offset + b.nbytes] for b in plan.held}
    for blob in plan.blobs:
        if blob.name in weights and blob.nbytes:
            source = np.frombuffer(weights[blob.name], np.uint8)
            ctypes.memmove(memory.address + blob.offset, source.ctypes.data, blob.nbytes)
    return Constants(memory.address, memory, lacks=tuple(b.name for b in plan.blobs if b.name not in weights))
