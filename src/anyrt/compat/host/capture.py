"""Captured streams: their work is recorded in a graph, as in CUDA, and executed when the graph is launched.

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

# A step that returns False has failed, like an inference.
Step: TypeAlias = Callable[[], object]
Steps: TypeAlias = tuple[Step, ...]


class Captures:
    """The captured streams with their recorded steps; streams that wait for one another share a capture."""

    def __init__(self) -> None:
        self._notes: dict[int, list[Step]] = {}
        self._events: dict[int, list[Step]] = {}
        self._lock = threading.Lock()
        self._watches = False

    def of(self, stream: SupportsIndex | None) -> list[Step] | None:
        """The recorded steps of a stream; None if it is not captured."""
        return self._notes.get(0 if stream is None else int(stream)) if self._notes else None

    def note(self, stream: SupportsIndex | None, step: Step) -> bool:
        """Record the step if the stream is captured; returns whether it is."""
        notes = self.of(stream)
        if notes is None:
            return False
        notes.append(step)
        return True

    def begin(self, stream: SupportsIndex) -> None:
        """Begin to capture a stream, including the work of engines on it."""
        with self._lock:
            if not self._watches:
                _watch_engines(self)
            self._watches = True
        self._notes[int(stream)] = []

    def mark(self, event: SupportsIndex, stream: SupportsIndex | None) -> None:
        """Assign an event to the capture of the stream that records it."""
        notes = self.of(stream)
        self._events.pop(int(event), None)
        if notes is not None:
            self._events[int(event)] = notes

    def join(self, stream: SupportsIndex | None, event: SupportsIndex) -> None:
        """Add a stream to a capture when it waits for an event of that capture."""
        notes = self._events.get(int(event))
        if notes is not None:
            self._notes[0 if stream is None else int(stream)] = notes

    def end(self, stream: SupportsIndex) -> Steps | None:
        """End the capture and return the recorded steps of all its streams; None if there is no capture."""
        notes = self.of(stream)
        if notes is None:
            return None
        self._notes = {s: n for s, n in self._notes.items() if n is not notes}
        self._events = {e: n for e, n in self._events.items() if n is not notes}
        return tuple(notes)


def _watch_engines(captures: Captures) -> None:
    """Make contexts check whether their stream is captured; processes without a capture skip this check."""
    run = IExecutionContext.execute_async_v3

    @functools.wraps(run)
    def execute_async_v3(self: IExecutionContext, stream_handle: int) -> bool:
        if captures.of(stream_handle) is None:
            return run(self, stream_handle)
        again = _copied(self)
        if again is None:
            return run(self, stream_handle)  # which reports what is missing
        return captures.note(stream_handle, lambda: again.execute_async_v3(0))

    IExecutionContext.execute_async_v3 = execute_async_v3  # type: ignore[method-assign]


def _copied(context: IExecutionContext) -> IExecutionContext | None:
    """A copy of a context, since a graph keeps shapes and addresses; None if some of these are missing."""
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
