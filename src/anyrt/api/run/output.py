"""A user's output allocator, adapted to the runtime."""

from __future__ import annotations

from anyrt.api.edge.interfaces import IOutputAllocator, call_user
from anyrt.api.model.dims import Dims


class Allocator:
    """A user's output allocator as the runtime sees it."""

    def __init__(self, user: IOutputAllocator) -> None:
        self.user = user
        self.stream = 0  # that of the present run

    def reallocate(self, name: str, current: int, nbytes: int, alignment: int) -> int | None:
        """Memory for an output; the form with a stream where the user's class has it."""
        user = self.user
        if type(user).reallocate_output_async is not IOutputAllocator.reallocate_output_async:
            ask = user.reallocate_output_async
            return call_user(None, ask, name, current, nbytes, alignment, self.stream)
        return call_user(None, user.reallocate_output, name, current, nbytes, alignment)

    def notify(self, name: str, shape: tuple[int, ...]) -> None:
        """The shape of the output."""
        call_user(None, self.user.notify_shape, name, Dims(shape))
