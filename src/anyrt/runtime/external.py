"""Who calls code that is not ours for a context: plug-ins and communicators, which native code reaches by one
address.

There stand the addresses of C functions, one for each `OutsideCall`, which take the frame of the call; an
answer other than `abi.DONE` ends the run, and `error` says why.
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
        """Of the addresses of the C functions."""

    def error(self) -> AnyrtError:
        """What ended the last run; raises what is no error of a program's, as KeyboardInterrupt."""


Callers: TypeAlias = Callable[[], Caller]  # a new one for each context
Host: TypeAlias = Callable[[PlanFile, Program], Callers]
