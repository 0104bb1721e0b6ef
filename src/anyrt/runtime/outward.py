"""Who calls code that is not ours for a context: plug-ins, which native code reaches by one address.

Native code calls what lies there with the number of the call and its frame, as `PluginCall` says; anything
but 0 ends the run, and `error` says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from anyrt.core.errors import AnyrtError
from anyrt.plan.file import PlanFile
from anyrt.plan.program import Program


class Caller(Protocol):
    """Makes the calls of one context."""

    stream: int

    @property
    def address(self) -> int:
        """Of the C function."""

    def error(self) -> AnyrtError:
        """What ended the last run; raises what is no error of a program's, as KeyboardInterrupt."""


Callers: TypeAlias = Callable[[], Caller]  # a new one for each context
Host: TypeAlias = Callable[[PlanFile, Program], Callers]
