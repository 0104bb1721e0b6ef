"""Whether code of a program is being shown memory of an engine: it is not among what the program allocated.

>>> lending(is_lent), is_lent()
(True, False)
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar, TypeVarTuple

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

_lent: ContextVar[bool] = ContextVar("anyrt_lent", default=False)


def is_lent() -> bool:
    """Whether a plug-in or a listener is at work, which may copy from and to addresses that it was given."""
    return _lent.get()


def lending(callback: Callable[[*Ts], R], *args: *Ts) -> R:
    """What the callback answers; meanwhile memory of engines is lent."""
    token = _lent.set(True)
    try:
        return callback(*args)
    finally:
        _lent.reset(token)
