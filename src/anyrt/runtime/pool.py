"""The owner of a thread pool: starts workers, survives fork, joins at exit.

The pool itself is native code (`backends/cpu/pool.py`); this file owns its memory and its threads. Pools are
process-wide, one per number of threads, since they share the processor.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Final, Protocol

import numpy as np

from anyrt.core.errors import ArgumentError
from anyrt.core.flags import default_threads
from anyrt.plan import pool as native
from anyrt.plan.abi import ALIGNMENT
from anyrt.plan.device import Code, Device
from anyrt.plan.pool import PoolWord, pool_words
from anyrt.plan.program import Compiled
from anyrt.plan.room import THREAD_ROOM, require_room

MAX_THREADS: Final = 4096
_JOIN_SECONDS: Final = 5.0
_NAP_SECONDS: Final = 0.001  # between checks for work if workers cannot sleep in native code


class Listener(Protocol):
    """An object that is notified that this process is a forked child and its pool has no threads yet."""

    def after_fork(self) -> None:
        """Take no lock that another thread of the parent may have held."""


class Pool:
    """`threads` threads, including the caller; `ensure` starts them, `stop` joins them."""

    def __init__(self, threads: int, code: Code) -> None:
        self.threads = threads
        self.listeners: weakref.WeakSet[Listener] = weakref.WeakSet()
        self._code = code
        self._worker = code.function(native.WORKER, 2)
        self._raw = np.zeros(pool_words(threads) + 2 * ALIGNMENT, np.int64)
        start = -self._raw.ctypes.data % (2 * ALIGNMENT) // 8
        self._words = self._raw[start:]
        self.address = int(self._words.ctypes.data)
        self._words[PoolWord.PARALLEL] = code.address(native.PARALLEL)
        self._words[PoolWord.SPIN_TICKS] = native.SPIN_TICKS
        self._lock = threading.Lock()
        self._workers: list[threading.Thread] = []

    def ensure(self) -> None:
        """Start the workers unless they run; fewer if the system provides no more threads."""
        if self._workers or self.threads == 1:
            return
        with self._lock:
            if self._workers:
                return
            self._words[PoolWord.STOP] = 0
            self._words[PoolWord.MOVABLE] = 1
            started = [t for i in range(1, self.threads) if (t := self._start(i))]
            self._words[PoolWord.WORKERS] = len(started)
            self._workers = started

    def _start(self, number: int) -> threading.Thread | None:
        thread = threading.Thread(target=self._work, args=(number,), name=f"anyrt-{number}", daemon=True)
        try:
            require_room(THREAD_ROOM, "thread pool")
            thread.start()
        except RuntimeError:  # no more threads, or no memory for one: the running ones do the work
            return None
        return thread

    def _work(self, number: int) -> None:
        while self._worker(self.address, number):
            time.sleep(_NAP_SECONDS)

    def stop(self) -> None:
        """Join the workers; regions run serially until `ensure` is called again."""
        with self._lock:
            self._words[PoolWord.WORKERS] = 0
            self._code.function(native.STOP, 1)(self.address)
            for thread in self._workers:
                thread.join(_JOIN_SECONDS)
            self._workers = []

    def after_fork(self) -> None:
        """Forget the parent's threads: the child has only the one that forked."""
        self._lock = threading.Lock()
        self._workers = []
        for word in (PoolWord.WORKERS, PoolWord.STATE, PoolWord.LOCK, PoolWord.SLEEPERS):
            self._words[word] = 0
        for listener in list(self.listeners):
            listener.after_fork()


class _Registry:
    """Every pool of this process, by its device and number of threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pools: dict[tuple[str, int], Pool] = {}

    def after_fork(self) -> None:
        self.lock = threading.Lock()
        for pool in self.pools.values():
            pool.after_fork()

    def stop(self) -> None:
        for pool in self.pools.values():
            pool.stop()


_registry: Final = _Registry()
atexit.register(_registry.stop)
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_registry.after_fork)


def shared_pool(threads: int | None, device: Device, obtain: Callable[[], Compiled]) -> Pool:
    """The pool of so many threads (None: `default_threads`); `obtain` returns the code of a new one."""
    count = default_threads() if threads is None else threads
    if not 1 <= count <= MAX_THREADS:
        raise ArgumentError("AR304", "threads", got=str(count), wanted=f"a number from 1 to {MAX_THREADS}")
    key = device.identity(), count
    with _registry.lock:
        if key not in _registry.pools:
            _registry.pools[key] = Pool(count, device.load(obtain()))
        return _registry.pools[key]
