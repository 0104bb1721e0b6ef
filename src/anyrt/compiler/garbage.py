"""Fewer collections of Python's garbage during a build.

A build creates hundreds of thousands of objects, nearly all of which live until its end. Python examines the
youngest objects after every 700 new ones, and finds little to free.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

EACH: Final = 50_000  # objects created between two collections of the youngest ones


@dataclass(slots=True)
class _Builds:
    """The builds of all threads, which share one threshold: the first one raises it, and the last one
    restores the value `before`, unless the program has set another one meanwhile."""

    lock: Lock = field(default_factory=Lock)
    count: int = 0
    before: tuple[int, int, int] | None = None

    def begin(self) -> None:
        with self.lock:
            self.count += 1
            threshold = gc.get_threshold()
            if self.count == 1 and 0 < threshold[0] < EACH:  # 0: the program collects nothing
                self.before = threshold
                gc.set_threshold(EACH, *threshold[1:])

    def end(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0 and self.before is not None:
                if gc.get_threshold() == (EACH, *self.before[1:]):
                    gc.set_threshold(*self.before)
                self.before = None


_builds = _Builds()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect the youngest objects only after every `EACH` new ones, in the whole process."""
    _builds.begin()
    try:
        yield
    finally:
        _builds.end()
