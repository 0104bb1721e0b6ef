"""The interface for calls of foreign code of a context: plug-ins and communicators, which native code finds
at one address.

It holds the addresses of C functions, one for each `OutsideCall`, which take the frame of the call; a result
other than `abi.DONE` ends the inference, and `error` has the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from anyrt.core.errors import AnyrtError
from anyrt.plan.file import PlanFile
from anyrt.plan.program import Program
from anyrt.runtime.exchanging import Seat


class Caller(Protocol):
    """Makes the calls of one context."""

    stream: int
    seat: Seat

    @property
    def address(self) -> int:
        """The address of the table of C functions."""

    def error(self) -> AnyrtError:
        """The exception that ended the last inference; raises exceptions such as KeyboardInterrupt, which are
        no errors."""


Callers: TypeAlias = Callable[[], Caller]  # a new one for each context
Host: TypeAlias = Callable[[PlanFile, Program], Callers]
