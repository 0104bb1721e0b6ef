"""Whether a row of a batch has the bits of the same row alone: tried for each number of rows.

Sizes decide which code of an engine runs; the values of a row do not, except in loops and conditionals of a
model. Therefore a trial with random rows runs the code that requests of the same sizes run. It shows equal
bits for its own values. An order of sums that differs shows in about every second number, so that a trial
compares several dozens of them.

trials = Trials(predictor.run, metadata.inputs, report)
sizes, untried = trials.parts(key, [1, 1, 2])
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dtype import numpy_dtype
from anyrt.onnx.session import Port
from anyrt.serve.refused import FAULTS

Arrays = dict[str, NDArray[Any]]  # Any: of whatever types models have
Run = Callable[[Mapping[str, NDArray[Any]]], Arrays]
Key = tuple[tuple[str, tuple[int, ...]], ...]  # inputs, with their sizes behind the first axis
KEPT: Final = 1024  # verdicts; clients choose the sizes, and memory must not grow with them
ENOUGH: Final = 32  # numbers that a trial compares: all of them are equal by chance once in 2 ** 32 trials
DRAWS: Final = 16  # sets of rows, where the outputs have few numbers


class Report(Protocol):
    """Receives each verdict."""

    def __call__(self, *, sizes: Key, rows: int, joins: bool, reason: str | None) -> None: ...


class Trials:
    """The numbers of rows whose bits are those of each row alone, for all other sizes of the inputs.

    Requests may share a run if the number of its rows, and that of each request, are good: a row has the same
    bits in the run, in its own request, and alone. Any thread may use it."""

    def __init__(self, run: Run, inputs: Sequence[Port], report: Report) -> None:
        self._run, self._inputs, self._report = run, inputs, report
        self._verdicts: dict[tuple[Key, int], bool] = {}  # the last used at the end; False while it is tried
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._verdicts)

    def parts(self, key: Key, rows: Sequence[int]) -> tuple[list[int], int | None]:
        """The numbers of requests of consecutive runs, for requests with `rows`, and a number of rows to
        attempt, after which larger runs may be possible; None: there is none."""
        own = {n: self._verdict(key, n) for n in set(rows)}
        untried = [n for n, verdict in own.items() if verdict is None]
        parts, start = list[int](), 0
        while start < len(rows):
            alike = next((k for k, n in enumerate(rows[start:]) if not own[n]), len(rows))
            length, totals = self._longest(key, rows[start : start + alike])
            parts.append(length)
            untried += totals
            start += length
        return parts, next(iter(untried), None)

    def _longest(self, key: Key, rows: Sequence[int]) -> tuple[int, list[int]]:
        """How many of the first requests may run together, at least 1, and the totals that would be more."""
        untried = list[int]()
        for length, total in reversed(list(enumerate(accumulate(rows), 1))):
            verdict = self._verdict(key, total)
            if verdict:
                return length, untried
            if verdict is None:
                untried.append(total)
        return 1, untried

    def attempt(self, key: Key, rows: int) -> None:
        """Find and report the verdict, if no thread has done or begun it."""
        with self._lock:
            if (key, rows) in self._verdicts:
                return
            self._keep(key, rows, False)
        try:
            reason = difference(self._run, self._inputs, key, rows)
        except FAULTS as error:
            reason = f"random rows cannot be run: {error}"
        with self._lock:
            self._keep(key, rows, reason is None)
        self._report(sizes=key, rows=rows, joins=reason is None, reason=reason)

    def _verdict(self, key: Key, rows: int) -> bool | None:
        """None: not tried."""
        with self._lock:
            verdict = True if rows == 1 else self._verdicts.get((key, rows))
            if rows > 1 and verdict is not None:
                self._keep(key, rows, verdict)
        return verdict

    def _keep(self, key: Key, rows: int, verdict: bool) -> None:
        self._verdicts.pop((key, rows), None)
        self._verdicts[key, rows] = verdict
        if len(self._verdicts) > KEPT:
            del self._verdicts[next(iter(self._verdicts))]


def difference(run: Run, inputs: Sequence[Port], key: Key, rows: int) -> str | None:
    """Why a run of `rows` random rows does not have the bits of each row alone, None: it has them."""
    compared = 0
    for draw in range(DRAWS):
        arrays = _random(inputs, key, rows, draw)
        alone = [run(_part(arrays, [k])) for k in range(rows)]
        outputs = run(arrays)
        if (name := _different(outputs, alone, range(rows))) is not None:
            return f"output {name!r} of {rows} rows differs from that of each row"
        compared += _numbers(outputs)
        if compared >= ENOUGH:
            break
    for first in (0, 1):
        spoilt, kept = _spoilt(arrays, range(first, rows, 2)), range(1 - first, rows, 2)
        if (name := _different(run(spoilt), alone, kept)) is not None:
            return f"output {name!r} of a row depends on other rows, which have NaN"
    return None


def _random(inputs: Sequence[Port], key: Key, rows: int, seed: int) -> Arrays:
    """Normal numbers; integers are 0 and 1, which lie in the tables that they may be looked up in."""
    random, sizes = np.random.default_rng(seed), dict(key)
    arrays = {}
    for port in inputs:
        dtype = numpy_dtype(port.dtype)
        x = random.standard_normal((rows, *sizes[port.name]))
        arrays[port.name] = (x > 0 if dtype.kind in "biu" else x).astype(dtype)
    return arrays


def _part(arrays: Arrays, places: Sequence[int]) -> Arrays:
    return {n: x[places] for n, x in arrays.items()}


def _spoilt(arrays: Arrays, places: Iterable[int]) -> Arrays:
    """Rows of NaN at some places; there, integers are 1 in place of 0."""
    spoilt = {n: x.copy() for n, x in arrays.items()}
    for x in spoilt.values():
        for k in places:
            x[k] = 1 - x[k].astype(np.int8) if x.dtype.kind in "biu" else np.nan
    return spoilt


def _numbers(outputs: Arrays) -> int:
    """How many numbers show a difference: integers often hide it."""
    floats = [x for x in outputs.values() if x.dtype.kind not in "biu"]
    return sum(x.size for x in floats or outputs.values())


def _different(outputs: Arrays, alone: Sequence[Arrays], places: Iterable[int]) -> str | None:
    """The first output whose rows at `places` do not have the bytes of these rows alone."""
    for name, x in outputs.items():
        if x.shape[:1] != (len(alone),) or any(x[k].tobytes() != alone[k][name].tobytes() for k in places):
            return name
    return None
