"""Shows the progress of a build on stderr, so that results can be piped: bars on a terminal, and
otherwise plain lines if the build takes long.

    logger, monitor = talk()
    builder = Builder(logger)
    config.progress_monitor = monitor
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from anyrt.api.edge.interfaces import ILogger, IProgressMonitor
from anyrt.core.enums import Severity

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE: Final = 2.0  # seconds before the first progress line


class Lines(ILogger):
    """Prints progress lines of a long build. It prints no errors, since commands raise them."""

    def __init__(self) -> None:
        ILogger.__init__(self)
        self._began = time.monotonic()

    def log(self, severity: Severity, msg: str) -> None:
        """One line on stderr."""
        if severity is Severity.WARNING:
            print(f"anyrt: warning: {msg}", file=sys.stderr, flush=True)
        if severity is Severity.INFO and time.monotonic() - self._began >= PATIENCE:
            print(f"anyrt: {msg}", file=sys.stderr, flush=True)


class Silent(ILogger):
    """Prints nothing."""

    def log(self, severity: Severity, msg: str) -> None:
        """Nothing."""


class Warnings(ILogger):
    """Prints warnings, each once: bars show the progress."""

    def __init__(self, show: Callable[[str], object]) -> None:
        ILogger.__init__(self)
        self._show, self._warnings = show, set[str]()

    def log(self, severity: Severity, msg: str) -> None:
        """One line on stderr."""
        if severity is Severity.WARNING and msg not in self._warnings:
            self._warnings.add(msg)
            self._show(f"anyrt: warning: {msg}")


class Bars(IProgressMonitor):
    """One bar per active phase; removes all bars when the build ends."""

    def __init__(self) -> None:
        IProgressMonitor.__init__(self)
        self._progress = _progress()
        self._tasks: dict[str, TaskID] = {}

    def say(self, text: str) -> None:
        """A line above the bars."""
        self._progress.console.print(text, markup=False, highlight=False, emoji=False)

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        """Add a bar."""
        if not self._tasks:
            self._progress.start()
        self._tasks[phase_name] = self._progress.add_task(phase_name, total=num_steps)

    def step_complete(self, phase_name: str, step: int) -> bool:
        """Advance the bar."""
        self._progress.update(self._tasks[phase_name], completed=step + 1)
        return True

    def phase_finish(self, phase_name: str) -> None:
        """Remove the bar."""
        self._progress.remove_task(self._tasks.pop(phase_name))
        if not self._tasks:
            self._progress.stop()


@contextmanager
def described(name: str, monitor: IProgressMonitor | None) -> Iterator[None]:
    """Show progress while a model is read, before the builder starts its own phases."""
    phase = f"Build {name}"
    if monitor is not None:
        monitor.phase_start(phase, None, 1)
    try:
        yield
    finally:
        if monitor is not None:
            monitor.phase_finish(phase)


def talk() -> tuple[ILogger, IProgressMonitor | None]:
    """A logger and a progress monitor for a build: bars if stderr is a terminal, and otherwise lines."""
    if not sys.stderr.isatty():
        return Lines(), None
    bars = Bars()
    return Warnings(bars.say), bars


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,  # output of others stays unchanged
        redirect_stderr=False,
    )
