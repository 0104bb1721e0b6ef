"""Whether user code has temporary access to memory of an engine, which the program did not allocate.

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
    """Whether a plug-in or a listener is running, which may copy from and to the addresses that it
    received."""
    return _lent.get()


def lending(callback: Callable[[*Ts], R], *args: *Ts) -> R:
    """The result of the callback; memory of engines is lent while it runs."""
    token = _lent.set(True)
    try:
        return callback(*args)
    finally:
        _lent.reset(token)
