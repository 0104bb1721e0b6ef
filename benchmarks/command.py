"""What commands are made of: options that several have, and what these mean."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import QUICK as QUICK_EFFORT
from benchmarks.measure import Effort, limit_threads


@dataclass(frozen=True, slots=True)
class Option:
    """An option or an argument, with what `add_argument` takes."""

    name: str
    settings: dict[str, Any]  # Any: as argparse takes them


@dataclass(frozen=True, slots=True)
class Command:
    """`python -m benchmarks NAME`: `run` gets what the options say."""

    name: str
    help: str
    run: Callable[[argparse.Namespace], None]
    options: tuple[Option, ...] = ()

    def add(self, commands: Any) -> None:  # Any: argparse's own kind of action
        """To a parser."""
        parser = commands.add_parser(self.name, help=self.help)
        parser.set_defaults(action=self.run)
        for option in self.options:
            parser.add_argument(option.name, **option.settings)


def option(name: str, **settings: Any) -> Option:  # Any: see above
    """An option."""
    return Option(name, settings)


def file(name: str, text: str, metavar: str = "FILE", **settings: Any) -> Option:  # Any: see above
    """An option that names a file or folder."""
    return option(name, type=Path, metavar=metavar, help=text, **settings)


def only(what: str) -> Option:
    """Those to run."""
    return option("--only", default="", metavar="REGEX", help=f"{what} whose name matches")


QUICK = option("--quick", action="store_true", help="few runs and short pauses: figures are rough")
THREADS = option("--threads", type=int, default=2)
RUNS = option("--runs", type=int, help=f"runs of each at least (default: {Effort().runs})")
LIST = option("--list", action="store_true", help="names of what there is, and nothing else")
FOLDER = file("--folder", "keep models there (default: none is kept)")
LINES = file("--json", "write JSON lines")


def markdown(text: str = "write the tables") -> Option:
    """Where a document goes."""
    return file("--markdown", text)


def whole(document: Path) -> Option:
    """The same, of a table that has its place."""
    return markdown(f"default: {document}, if everything ran")


def names(pattern: str, every: Iterable[str]) -> list[str]:
    """Those that match."""
    try:
        return [name for name in every if re.search(pattern, name)]
    except re.error as error:
        raise SystemExit(f"--only {pattern!r}: got no regular expression ({error})") from None


def effort(options: argparse.Namespace) -> Effort:
    """How long to measure."""
    found = QUICK_EFFORT if options.quick else Effort()
    runs = getattr(options, "runs", None)
    return replace(found, runs=runs) if runs else found


def ready(options: argparse.Namespace) -> tuple[int, Effort]:
    """(threads, effort), this process kept on so many processors."""
    limit_threads(options.threads)
    return options.threads, effort(options)
