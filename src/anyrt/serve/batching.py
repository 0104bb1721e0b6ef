"""The request queue of one model: requests are joined along the first axis, run, and split again.

batcher = Batcher(predictor.run, settings, limits, statistics)
batcher.submit({"x": x}).result()["y"]
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from anyrt.core.errors import AnyrtError
from anyrt.runtime.shapes import Shape
from anyrt.serve.invariance import Arrays, Key, Run, Trials
from anyrt.serve.refused import FAULTS, Limits, Reason, Refused
from anyrt.serve.settings import Settings
from anyrt.serve.stats import Statistics
from anyrt.serve.tracing import Runs, Span

# Nanoseconds of a run in the caller's own thread: waking two threads takes about half of it.
SHORT: Final = 200_000
UNREAD: Final = Future[Arrays]()  # of requests whose outputs are returned
KEPT: Final = 256  # shapes whose runs are known to be short
PASSED: Final = 3  # full batches that may run before the oldest request, whose batch is not full


@dataclass(slots=True)
class _Request:
    """Its arrays, number of rows, the properties that joined requests must share, and its times."""

    arrays: Mapping[str, NDArray[Any]]
    rows: int
    key: Key
    deadline: float
    span: Span | None
    arrived: int
    answer: Future[Arrays]


class Batcher:
    """As many threads as instances take requests from one bounded queue. Requests whose shapes agree are
    joined as long as they fit, at most `max_batch_size` rows. A full batch goes first, else that of the
    oldest request, which waits at most the configured delay, or less if a preferred number of rows is
    reached. `joins`: whether requests may share a run; `trials`: the numbers of rows that keep the bits of
    each row, None if joining may change the last bits. `runs` records spans."""

    def __init__(
        self,
        run: Run,
        settings: Settings,
        limits: Limits,
        statistics: Statistics,
        joins: bool,
        trials: Trials | None = None,
        runs: Runs | None = None,
    ) -> None:
        self._run, self._settings, self._statistics, self.joins = run, settings, statistics, joins
        self._trials, self._runs = trials, runs
        self._room = settings.queue or limits.queue
        self._seconds = settings.timeout_seconds or limits.request_seconds
        self._queue: deque[_Request] = deque()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._is_open = True
        self._running = self._passed = 0
        self._short = set[tuple[Shape, ...]]()
        names = [f"anyrt-serve-{i}" for i in range(settings.instances)]
        self._threads = [threading.Thread(target=self._work, name=n, daemon=True) for n in names]
        for thread in self._threads:
            thread.start()

    def submit(self, arrays: Mapping[str, NDArray[Any]], seconds: float | None = None) -> Future[Arrays]:
        """The future result; `seconds` is its time limit, at most that of the model. A future that is
        cancelled while it waits is not run. Refused: BUSY, the queue is full or closed."""
        seconds = self._seconds if seconds is None else min(seconds, self._seconds)
        request = self._request(arrays, seconds, Future())
        with self._lock:
            if not self._is_open:
                raise Refused(Reason.BUSY, "the model is being unloaded; ask again")
            if len(self._queue) >= self._room:
                raise Refused(Reason.BUSY, f"{len(self._queue)} requests are waiting; ask again")
            self._queue.append(request)
            self._changed.notify()
        return request.answer

    def at_once(self, arrays: Mapping[str, NDArray[Any]]) -> Arrays | None:  # Any: as above
        """The result, computed by the calling thread, if an instance is idle and runs of these shapes are
        short; otherwise None: submit it. Refused: the run has failed."""
        if self._settings.delay_seconds or _shapes(arrays) not in self._short:
            return None
        with self._lock:
            if self._queue or self._running >= self._settings.instances or not self._is_open:
                return None
            self._running += 1
        try:
            return self._together([self._request(arrays, 0, UNREAD)])[0]
        except FAULTS as error:
            raise _refusal(error) from error
        finally:
            with self._lock:
                self._running -= 1

    def close(self) -> None:
        """Process the waiting requests, then end the threads."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _request(
        self,
        arrays: Mapping[str, NDArray[Any]],  # Any: as above
        wait: float,
        answer: Future[Arrays],
    ) -> _Request:
        batched = self._settings.max_batch_size > 0
        rows = next(iter(arrays.values())).shape[0] if batched and arrays else 1
        key = tuple((n, x.shape[1:]) for n, x in arrays.items()) if self.joins else ()
        span = self._runs.current() if self._runs else None
        return _Request(arrays, rows, key, time.monotonic() + wait, span, time.perf_counter_ns(), answer)

    def _work(self) -> None:
        while (group := self._take()) is not None:
            if waiting := [r for r in group if self._is_wanted(r)]:
                self._answer_all(waiting)
            with self._changed:
                self._running -= bool(group)

    def _take(self) -> list[_Request] | None:
        """Requests for one run, which counts as running; None after the batcher is closed."""
        with self._changed:
            while not self._queue:
                if not self._is_open:
                    return None
                self._changed.wait()
            until = self._queue[0].arrived / 1e9 + self._settings.delay_seconds
            group = self._group()
            while self.joins and self._is_open and not self._is_full(group):
                left = until - time.perf_counter()
                if left <= 0 or (not self._changed.wait(left) and time.perf_counter() >= until):
                    break
                if not self._queue:  # another thread took them
                    return []
                group = self._group()
            group = self._cut(self._group())
            chosen = {id(r) for r in group}
            self._passed = 0 if id(self._queue[0]) in chosen else self._passed + 1
            self._queue = deque(r for r in self._queue if id(r) not in chosen)
            self._running += 1
            if self._queue:
                self._changed.notify()
        return group

    def _group(self) -> list[_Request]:
        """Requests for the next run, in order: a full batch, or the oldest one and those that join it."""
        if not self._queue or not self.joins:
            return list(self._queue)[:1]
        groups, rows = dict[Key, list[_Request]](), dict[Key, int]()
        for request in self._queue:
            total = rows.get(request.key, 0) + request.rows
            if request.key not in groups or total <= self._settings.max_batch_size:
                groups.setdefault(request.key, []).append(request)
                rows[request.key] = total
        oldest = next(iter(groups.values()))
        full = (g for g in groups.values() if self._is_full(g))
        return next(full, oldest) if self._passed < PASSED else oldest

    def _is_full(self, group: Sequence[_Request]) -> bool:
        rows = sum(r.rows for r in group)
        return rows >= self._settings.max_batch_size or rows in self._settings.preferred

    def _cut(self, group: list[_Request]) -> list[_Request]:
        """The first ones whose rows are the largest preferred number, if one is reached; else all."""
        sums = np.cumsum([r.rows for r in group])
        met = [k for k, rows in enumerate(sums, 1) if rows in self._settings.preferred]
        return group[: met[-1]] if met else group

    def _is_wanted(self, request: _Request) -> bool:
        """Whether the client still waits; a late request is refused and not run."""
        if not request.answer.set_running_or_notify_cancel():
            return False
        if time.monotonic() > request.deadline:
            request.answer.set_exception(Refused(Reason.LATE, "the request waited too long and was not run"))
            return False
        return True

    def _answer_all(self, group: Sequence[_Request]) -> None:
        """Run requests together, or in parts that keep the bits of each request alone. Trials for larger
        parts follow afterwards, at most one, so that requests do not wait long for it."""
        if self._trials is None or len(group) == 1:
            self._answer(group)
            return
        key, start = group[0].key, 0
        parts, untried = self._trials.parts(key, [r.rows for r in group])
        for count in parts:
            self._answer(group[start : start + count])
            start += count
        if untried is not None:
            self._trials.attempt(key, untried)

    def _answer(self, group: Sequence[_Request]) -> None:
        """Run requests together; if that fails, each by itself, so that one does not disturb another."""
        try:
            answers = self._together(group)
        except FAULTS as error:
            if len(group) > 1:
                for request in group:
                    self._answer([request])
            else:
                group[0].answer.set_exception(_refusal(error))
            return
        for request, answer in zip(group, answers, strict=True):
            request.answer.set_result(answer)

    def _together(self, group: Sequence[_Request]) -> list[Arrays]:
        start, failure = time.perf_counter_ns(), ""
        try:
            return self._run_once(group)
        except FAULTS as error:
            failure = type(error).__name__
            raise
        finally:
            if self._runs is not None:
                rows = sum(r.rows for r in group)
                self._runs.ran([(r.span, r.arrived) for r in group], rows, start, failure)

    def _run_once(self, group: Sequence[_Request]) -> list[Arrays]:
        start = time.perf_counter_ns()
        arrays = group[0].arrays
        if len(group) > 1:
            arrays = {n: np.concatenate([r.arrays[n] for r in group]) for n in arrays}
        ready = time.perf_counter_ns()
        outputs = self._run(arrays)
        done = time.perf_counter_ns()
        rows = [r.rows for r in group]
        answers = [outputs] if len(group) == 1 else _split(outputs, rows)
        end = time.perf_counter_ns()
        queued = sum(start - r.arrived for r in group)
        self._remember(_shapes(arrays), done - ready)
        self._statistics.ran(sum(rows), len(group), queued, (ready - start, done - ready, end - done))
        return answers

    def _remember(self, shapes: tuple[Shape, ...], ns: int) -> None:
        """Record whether the last run of these shapes was short."""
        if ns > SHORT:
            self._short.discard(shapes)
        elif len(self._short) < KEPT:
            self._short.add(shapes)


def _shapes(arrays: Mapping[str, NDArray[Any]]) -> tuple[Shape, ...]:  # Any: as above
    return tuple(x.shape for x in arrays.values())


def _split(outputs: Arrays, rows: Sequence[int]) -> list[Arrays]:
    """Each request's rows of outputs; Refused if an output has another number of them."""
    total = sum(rows)
    for name, array in outputs.items():
        if array.ndim == 0 or array.shape[0] != total:
            raise Refused(Reason.FAULT, f"output {name!r} has no row for each row of the inputs")
    ends = np.cumsum(rows)
    return [
        {n: x[end - k : end] for n, x in outputs.items()} for k, end in zip(rows, ends.tolist(), strict=True)
    ]


def _refusal(error: BaseException) -> Refused:
    if isinstance(error, Refused):
        return error
    if isinstance(error, MemoryError):
        return Refused(Reason.BUSY, "not enough memory for this request; ask again")
    if isinstance(error, AnyrtError):
        return Refused(Reason.BAD, str(error))
    return Refused(Reason.FAULT, f"the model failed ({type(error).__name__})")
