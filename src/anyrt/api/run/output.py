"""Adapts a user's output allocator to the runtime."""

from __future__ import annotations

from anyrt.api.edge.interfaces import IOutputAllocator, call_user
from anyrt.api.model.dims import Dims


class Allocator:
    """A user's output allocator, with the interface of the runtime."""

    def __init__(self, user: IOutputAllocator) -> None:
        self.user = user
        self.stream = 0  # the stream of the current inference

    def reallocate(self, name: str, current: int, nbytes: int, alignment: int) -> int | None:
        """Request memory for an output, from the method with a stream if the user's class has it."""
        user = self.user
        if type(user).reallocate_output_async is not IOutputAllocator.reallocate_output_async:
            ask = user.reallocate_output_async
            return call_user(None, ask, name, current, nbytes, alignment, self.stream)
        return call_user(None, user.reallocate_output, name, current, nbytes, alignment)

    def notify(self, name: str, shape: tuple[int, ...]) -> None:
        """Report the shape of the output."""
        call_user(None, self.user.notify_shape, name, Dims(shape))
