"""Collective operations within an inference: native code calls them with the frame of the step.

While memory and sizes stay the same, a call costs a few microseconds more than the communicator.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence

import numpy as np

from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import CollectiveOperation
from anyrt.core.errors import AnyrtError, BindingError, ResourceError
from anyrt.plan import abi
from anyrt.plan.exchange import ExchangeCall
from anyrt.runtime.collective import Array, Bytes, Communicator, Exchange, Exchanger, Form

HEADER = abi.FIRST_BINDING * abi.WORD_BYTES
DO = "call context.set_communicator(ranks) before the inference"


class Seat:
    """Holds the communicator of a context."""

    def __init__(self, calls: Sequence[ExchangeCall]) -> None:
        self.ranks: Communicator | None = None
        self._calls = calls

    def take(self, ranks: object) -> None:
        """Use a communicator, None: none; BindingError AR713 if it does not match the operations, or if the
        engine has none."""
        if not self._calls:
            return
        if ranks is not None and not isinstance(ranks, Communicator):
            wanted = "SharedRanks, MpiRanks or another Communicator"
            raise BindingError(
                "AR713", "set_communicator", type(ranks).__name__, wanted, "see collectives.md"
            )
        if ranks is not None:
            for call in self._calls:
                _check(call, ranks)
        self.ranks = ranks


def _check(call: ExchangeCall, ranks: Communicator) -> None:
    """Whether a communicator has the ranks of an operation."""
    where, got = call.where, f"rank {ranks.rank} of {ranks.size}"
    if not call.group and ranks.size != call.ranks:
        do = f"start {call.ranks} ranks, or build for {ranks.size}: layer.num_ranks = {ranks.size}"
        raise BindingError("AR713", where, got, f"{call.ranks} ranks", do)
    if call.group and (ranks.rank not in call.group or max(call.group) >= ranks.size):
        raise BindingError("AR713", where, got, f"a rank of the group {list(call.group)}", "name its group")


class ExchangeSite:
    """One collective operation of an engine in one context."""

    def __init__(self, call: ExchangeCall, seat: Seat) -> None:
        self._call, self._seat = call, seat
        self._what = Exchange(call.operation, call.fold, call.root, call.group or None)
        self._dtype = np.dtype(numpy_dtype(call.dtype))
        self._format = struct.Struct(f"<{call.inputs + 1 + call.rank}q")
        self._known = b""
        self._exchanger: Exchanger | None = None
        self._form: Form
        self._x: Bytes
        self._out: Array
        self._repeat: Callable[[], None] | None = None  # of the known memory, once it was passed again

    def call(self, frame: int, stream: int) -> None:
        """Perform the operation of the frame."""
        ranks = self._seat.ranks
        if ranks is None:
            got = "no communicator"
            raise BindingError("AR713", self._call.where, got, f"one of {self._call.ranks} ranks", DO)
        words = ctypes.string_at(frame + HEADER, self._format.size)
        if self._exchanger is None or self._exchanger.ranks is not ranks:
            self._exchanger, self._known = Exchanger(ranks, self._what), b""
        if words != self._known:
            self._renew(self._exchanger, words)
            self._form.run(ranks, self._x, self._out)
        else:
            if self._repeat is None:
                self._repeat = self._form.repeated(ranks, self._x, self._out)
            self._repeat()
        if self._form.is_aside:
            self._stay_aside()

    def _renew(self, exchanger: Exchanger, words: bytes) -> None:
        numbers, dtype, inputs = self._format.unpack(words), self._dtype, self._call.inputs
        self._form = exchanger.form(numbers[inputs + 1 :], dtype)
        self._x = _at(numbers[0], self._form.elements * dtype.itemsize)
        self._out = _at(numbers[inputs], self._form.count * dtype.itemsize).view(dtype)
        self._known, self._repeat = words, None

    def _stay_aside(self) -> None:
        """The result of a rank that receives nothing: its operand, or zeros if parts are joined."""
        if self._call.operation is CollectiveOperation.GATHER:
            self._out.view(np.uint8)[:] = 0
        else:
            self._out.view(np.uint8)[:] = self._x

    def explained(self, raised: Exception) -> AnyrtError:
        """The error of an inference that the exception `raised` has ended."""
        where = self._call.where
        if isinstance(raised, AnyrtError):
            return raised if raised.where == where else raised.at(f"{where}, {raised.where}")
        got = f"{type(raised).__name__}: {raised}, from the communicator"
        return ResourceError("AR811", where, got, "an exchange", "close it, and start all ranks again")


def _at(address: int, nbytes: int) -> Bytes:
    """Memory as bytes."""
    if not nbytes:
        return np.empty(0, np.uint8)
    return np.frombuffer(memoryview((ctypes.c_uint8 * nbytes).from_address(address)), np.uint8)
