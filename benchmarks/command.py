"""Parts of commands: selection of rows, common options, writing of tables."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.machine import Machine, this_machine
from benchmarks.measure import QUICK as QUICK_EFFORT
from benchmarks.measure import Effort, limit_threads
from benchmarks.table import Page, Table, show


@dataclass(frozen=True, slots=True)
class Option:
    """An option or an argument, with the keywords of `add_argument`."""

    name: str
    settings: dict[str, Any]  # Any: as argparse takes them


def option(name: str, **settings: Any) -> Option:  # Any: see above
    """An option."""
    return Option(name, settings)


def file(name: str, text: str, metavar: str = "FILE", **settings: Any) -> Option:  # Any: see above
    """An option that names a file or folder."""
    return option(name, type=Path, metavar=metavar, help=text, **settings)


@dataclass(frozen=True, slots=True)
class Command:
    """`python -m benchmarks NAME`: calls `run` with the options.

    rows: the names of its cases; --list prints those that --only matches, and `run` gets them as its second
    argument. what: the plural of a row in messages.
    """

    name: str
    help: str
    run: Callable[..., None]
    options: tuple[Option, ...] = ()
    rows: Callable[[], Iterable[str]] | None = None
    what: str = "cases"

    def add(self, commands: Any) -> None:  # Any: argparse's own kind of action
        """Add the command to a parser."""
        parser = commands.add_parser(self.name, help=self.help)
        parser.set_defaults(action=self._act)
        only = option(
            "--only", default="", metavar="REGEX", help=f"measure only {self.what} whose name matches"
        )
        listing = option("--list", action="store_true", help="print the names and exit")
        for x in (*((only, listing) if self.rows else ()), *self.options):
            parser.add_argument(x.name, **x.settings)

    def _act(self, options: argparse.Namespace) -> None:
        if self.rows is None:
            self.run(options)
            return
        chosen = matching(options.only, self.rows())
        if not chosen:
            how = f"`python -m benchmarks {self.name} --list` shows their names"
            raise SystemExit(f"--only {options.only!r}: got no {self.what}; {how}")
        if options.list:
            print("\n".join(dict.fromkeys(chosen)))
        else:
            self.run(options, chosen)


QUICK = option("--quick", action="store_true", help="few runs and short pauses; the times are rough")
THREADS = option("--threads", type=int, default=2, help="number of threads (default: %(default)s)")
RUNS = option("--runs", type=int, help=f"minimum number of runs of each program (default: {Effort().runs})")
FOLDER = file("--folder", "keep the models in this folder (default: a temporary one)")
LINES = file("--json", "write the results as JSON lines")


def markdown(text: str = "write the tables to this file") -> Option:
    """The option for the document."""
    return file("--markdown", text)


def whole(document: Path) -> Option:
    """The option for the document of a table that has a default place."""
    return markdown(f"write the tables to this file (default: {document} if all cases ran)")


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that match a regular expression."""
    try:
        return [name for name in names if re.search(pattern, name)]
    except re.error as error:
        raise SystemExit(f"--only {pattern!r}: got an invalid regular expression ({error})") from None


def effort(options: argparse.Namespace) -> Effort:
    """How long to measure, by the options."""
    chosen = QUICK_EFFORT if options.quick else Effort()
    runs = getattr(options, "runs", None)
    return replace(chosen, runs=runs) if runs else chosen


def ready(options: argparse.Namespace) -> tuple[int, Effort]:
    """(threads, effort); pins this process to as many processors."""
    limit_threads(options.threads)
    return options.threads, effort(options)


def progress(text: str, threads: int | None = None) -> None:
    """Print to the terminal which case is measured."""
    print(text if threads is None else f"{threads} threads: {text}", file=sys.stderr, flush=True)


def publish(
    options: argparse.Namespace, tables: Sequence[Table], page: Page, document: Path | None = None,
    machine: Machine | None = None,
) -> None:  # fmt: skip
    """Show the tables, and write them to --markdown or `document`. Without `machine`, the document has only
    the first line about the machine."""
    show(tables)
    target = options.markdown or document
    if target:
        page.write(target, tables, machine or this_machine({}, {}), brief=machine is None)
