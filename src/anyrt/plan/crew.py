"""Work in many parts, done by this thread and by others that are started for it.

>>> done = []
>>> share(5, done.append, "numbers")
>>> sorted(done)
[0, 1, 2, 3, 4]
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from anyrt.core.flags import default_threads
from anyrt.plan.room import THREAD_ROOM, require_room

_PARTS_PER_THREAD: Final = 4  # less work is done before another thread has started


def share(count: int, work: Callable[[int], None], what: str) -> None:
    """Call `work` with each number below `count`, in this thread and in others that are started for it.

    Ctrl-C may leave one of these behind with its current part: `work` holds the memory that it uses."""
    todo, done = deque(range(count)), [False] * count

    def several() -> None:
        while True:
            try:
                i = todo.popleft()
            except IndexError:
                return
            work(i)
            done[i] = True

    most = count // _PARTS_PER_THREAD
    others: list[threading.Thread] = []
    try:
        for _ in range(1, min(most, default_threads())):
            others += _started(several, what)
        several()
    finally:
        todo.clear()  # for the others, when this thread was interrupted
        for thread in others:
            thread.join()
    assert all(done), "a part was left"


def _started(work: Callable[[], None], what: str) -> list[threading.Thread]:
    """A thread that works; none if the system has no memory for it, so that others do its work."""
    thread = threading.Thread(target=work, name=f"anyrt-{what}", daemon=True)
    try:
        require_room(THREAD_ROOM, what)
        thread.start()
    except RuntimeError:
        return []
    return [thread]
