"""Streams that are captured: what is done on them is noted for a graph, as CUDA does, and done at its launch.

>>> captures, out = Captures(), []
>>> captures.begin(16)
>>> captures.note(16, lambda: out.append(1)), captures.note(32, lambda: out.append(2))
(True, False)
>>> (step,) = captures.end(16)
>>> out, step(), out
([1], None, [1])
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import SupportsIndex, TypeAlias

from anyrt.api.run.context import IExecutionContext
from anyrt.core.enums import TensorIOMode
from anyrt.core.errors import NotSupportedError

# One that answers False has failed, as a run does.
Step: TypeAlias = Callable[[], object]
Steps: TypeAlias = tuple[Step, ...]


class Captures:
    """Which streams are captured, and the notes of each capture, which streams that wait for others share."""

    def __init__(self) -> None:
        self._notes: dict[int, list[Step]] = {}
        self._events: dict[int, list[Step]] = {}
        self._lock = threading.Lock()
        self._watches = False

    def of(self, stream: SupportsIndex | None) -> list[Step] | None:
        """The notes of a stream, if it is captured."""
        return self._notes.get(0 if stream is None else int(stream)) if self._notes else None

    def note(self, stream: SupportsIndex | None, step: Step) -> bool:
        """Whether a stream is captured; then the step is noted."""
        notes = self.of(stream)
        if notes is None:
            return False
        notes.append(step)
        return True

    def begin(self, stream: SupportsIndex) -> None:
        """Capture a stream from now on, and what engines do on it."""
        with self._lock:
            if not self._watches:
                _watch_engines(self)
            self._watches = True
        self._notes[int(stream)] = []

    def mark(self, event: SupportsIndex, stream: SupportsIndex | None) -> None:
        """An event belongs to the capture of the stream that has recorded it."""
        notes = self.of(stream)
        self._events.pop(int(event), None)
        if notes is not None:
            self._events[int(event)] = notes

    def join(self, stream: SupportsIndex | None, event: SupportsIndex) -> None:
        """A stream that waits for an event of a capture becomes part of it."""
        notes = self._events.get(int(event))
        if notes is not None:
            self._notes[0 if stream is None else int(stream)] = notes

    def end(self, stream: SupportsIndex) -> Steps | None:
        """What was noted, for all streams of the capture; None when there is none."""
        notes = self.of(stream)
        if notes is None:
            return None
        self._notes = {s: n for s, n in self._notes.items() if n is not notes}
        self._events = {e: n for e, n in self._events.items() if n is not notes}
        return tuple(notes)


def _watch_engines(captures: Captures) -> None:
    """Have contexts ask from now on whether their stream is captured: others do not pay for the question."""
    run = IExecutionContext.execute_async_v3

    @functools.wraps(run)
    def execute_async_v3(self: IExecutionContext, stream_handle: int) -> bool:
        if captures.of(stream_handle) is None:
            return run(self, stream_handle)
        again = _copied(self)
        if again is None:
            return run(self, stream_handle)  # which says what is missing
        return captures.note(stream_handle, lambda: again.execute_async_v3(0))

    IExecutionContext.execute_async_v3 = execute_async_v3  # type: ignore[method-assign]


def _copied(context: IExecutionContext) -> IExecutionContext | None:
    """A context as this one is now, since a graph keeps shapes and addresses; None where some are missing."""
    engine = context.engine
    copied = engine.create_execution_context()
    if copied is None:
        return None
    if context.active_optimization_profile:
        copied.set_optimization_profile_async(context.active_optimization_profile, 0)
    for name in engine:
        if context.get_output_allocator(name) is not None:
            got = f"{name}, whose memory an output allocator supplies"
            raise NotSupportedError(
                "AR901", "stream capture", got, "a fixed address", "call set_tensor_address"
            )
        address = context.get_tensor_address(name)
        if not address:
            return None
        copied.set_tensor_address(name, address)
        if engine.get_tensor_mode(name) is TensorIOMode.INPUT:
            copied.set_input_shape(name, context.get_tensor_shape(name))
    return None if copied.infer_shapes() else copied
