"""How far a build is: bars on a terminal, elsewhere plain lines from a build that takes long; both go to
stderr, so that results can be piped.

    logger, monitor = talk()
    builder = Builder(logger)
    config.progress_monitor = monitor
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from anyrt.api.edge.interfaces import ILogger, IProgressMonitor
from anyrt.core.enums import Severity

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE: Final = 2.0  # seconds that a build may take without a line


class Lines(ILogger):
    """Prints what is said of work that takes long; errors are raised, need not be printed too."""

    def __init__(self) -> None:
        ILogger.__init__(self)
        self._began = time.monotonic()

    def log(self, severity: Severity, msg: str) -> None:
        """One line on stderr."""
        if severity is Severity.INFO and time.monotonic() - self._began >= PATIENCE:
            print(f"anyrt: {msg}", file=sys.stderr, flush=True)


class Silent(ILogger):
    """Prints nothing."""

    def log(self, severity: Severity, msg: str) -> None:
        """Nothing."""


class Bars(IProgressMonitor):
    """A bar for each phase that is open, all of them gone when the build has ended."""

    def __init__(self) -> None:
        IProgressMonitor.__init__(self)
        self._progress = _progress()
        self._tasks: dict[str, TaskID] = {}

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        """A bar more."""
        if not self._tasks:
            self._progress.start()
        self._tasks[phase_name] = self._progress.add_task(phase_name, total=num_steps)

    def step_complete(self, phase_name: str, step: int) -> bool:
        """Its bar moves."""
        self._progress.update(self._tasks[phase_name], completed=step + 1)
        return True

    def phase_finish(self, phase_name: str) -> None:
        """Its bar goes."""
        self._progress.remove_task(self._tasks.pop(phase_name))
        if not self._tasks:
            self._progress.stop()


def talk() -> tuple[ILogger, IProgressMonitor | None]:
    """A logger and a monitor for a build, as it suits stderr."""
    return (Silent(), Bars()) if sys.stderr.isatty() else (Lines(), None)


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,  # what others print stays theirs
        redirect_stderr=False,
    )
