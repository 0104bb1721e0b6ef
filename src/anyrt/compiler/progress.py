"""The progress of a build, reported to its monitor, step by step, and to the log.

    progress = Progress("net", log, monitor)
    with progress.phase("Verify kernels", 7) as phase:
        phase.reach(3)      # in the thread that builds
    progress.tick()         # in the thread that waits for it: a line in the log every other second

Steps only count. The thread that waits for the build logs from time to time, so logging does not slow the
build, and a long single step is reported, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from anyrt.compiler.request import Monitor
from anyrt.core.enums import Severity
from anyrt.core.errors import BuildCancelled

SCHEDULING: Final = "Schedule kernels"
MEASURING: Final = "Measure kernels"
VERIFYING: Final = "Verify kernels"
COMPILING: Final = "Compile kernels"
INTERVAL: Final = 2.0  # seconds between log lines about progress
ReportProgress = Callable[[int, int], None]  # (finished kernels, all kernels)


@dataclass(slots=True, eq=False)
class Phase:
    """One phase; `names`: those of its steps, none if steps are kernels. `finished`, `of`: the kernels in the
    last report; repeated decisions may change their number."""

    progress: Progress
    name: str
    steps: int
    names: Sequence[str]
    began: float
    done: int = 0
    finished: int = 0
    of: int = 0

    def reach(self, count: int) -> None:
        """So many steps are done; BuildCancelled if cancellation is requested."""
        monitor = self.progress.monitor
        while self.done < min(count, self.steps):
            step, self.done = self.done, self.done + 1
            if monitor is not None and not monitor.step(self.name, step):
                name = self.names[step] if self.names else self.name
                got, do = f"a stop after step {name!r}", "return True from step_complete to go on"
                raise BuildCancelled("AR804", self.progress.name, got, "to go on", do)
        self.progress.check()

    def line(self, now: float) -> str:
        """The progress, and the time so far."""
        seconds = f"{now - self.began:.2f} s"
        if self.names:
            return f"{self.names[min(self.done, self.steps - 1)]}: {seconds}"
        return f"{self.name}: {self.finished or self.done} of {self.of or self.steps}, {seconds}"


@dataclass(slots=True, eq=False)
class Progress:
    """A build's phases, the innermost last. `cancelled` is called after each step."""

    name: str
    log: Callable[[Severity, str], None] = lambda severity, text: None
    monitor: Monitor | None = None
    cancelled: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.perf_counter
    open: tuple[Phase, ...] = ()
    last: float = field(init=False)

    def __post_init__(self) -> None:
        self.last = self.clock()

    def check(self) -> None:
        """BuildCancelled if the caller requests it."""
        if self.cancelled():
            raise BuildCancelled("AR804", self.name, "an interrupt", "to go on")

    def tick(self) -> None:
        """A line in the log if the last one is long ago."""
        now, phases = self.clock(), self.open
        if phases and now - self.last >= INTERVAL:
            self.last = now
            self.log(Severity.INFO, phases[-1].line(now))

    def info(self, text: str) -> None:
        """A line in the log."""
        self.last = self.clock()
        self.log(Severity.INFO, text)

    @contextmanager
    def phase(self, name: str, steps: int, names: Sequence[str] = ()) -> Iterator[Phase]:
        """A phase of so many steps, inside the open ones. One whose steps are kernels logs its duration."""
        phase = Phase(self, name, steps, names, self.clock())
        if self.monitor is not None:
            self.monitor.start(name, self.open[-1].name if self.open else None, steps)
        self.open = (*self.open, phase)
        try:
            yield phase
        finally:
            self.open = self.open[:-1]
            if self.monitor is not None:
                self.monitor.finish(name)
        if not names:
            self.info(phase.line(self.clock()))

    @contextmanager
    def counted(self, name: str) -> Iterator[ReportProgress]:
        """A phase whose number of steps is known at the first report; a report that starts at 0 again is a
        new phase."""
        with ExitStack() as stack:
            held: list[Phase] = []

            def report(finished: int, of: int) -> None:
                if of and (not held or (finished == 0 and held[0].done)):
                    stack.close()
                    held[:] = [stack.enter_context(self.phase(name, of))]
                if held:
                    held[0].finished, held[0].of = finished, of
                    held[0].reach(finished)
                self.check()

            yield report
