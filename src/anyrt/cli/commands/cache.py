"""`anyrt cache show|clear|path`: list or clear this user's cache of compiled code, or print its directory."""

from __future__ import annotations

import contextlib
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from anyrt.cli.command import Command
from anyrt.cli.show import print_table
from anyrt.core.units import byte_count, counted
from anyrt.plan.cache import default_directory

PATTERN: Final = "*.kernel"


def options(parser: ArgumentParser) -> None:
    """The action."""
    parser.add_argument(
        "action", nargs="?", choices=tuple(ACTIONS), default="show",
        help="list the entries (default), remove all entries, or print the directory",
    )  # fmt: skip


def run(args: Namespace) -> None:
    """Act on the cache's folder."""
    ACTIONS[args.action](default_directory())


def entries(directory: Path) -> list[Path]:
    """The files of the cache, least recently used first; none when there is no such folder."""
    return sorted(directory.glob(PATTERN), key=lambda path: path.stat().st_mtime)


def show(directory: Path) -> None:
    """Print every entry with its size and age."""
    found = entries(directory)
    now = time.time()
    rows = [(p.name[:16], byte_count(p.stat().st_size), _age(now - p.stat().st_mtime)) for p in found]
    print_table(("key", "size", "last used"), rows)
    total = byte_count(sum(p.stat().st_size for p in found))
    print(f"{counted(len(found), 'entry', 'entries')}, {total}, in {directory}")


def clear(directory: Path) -> None:
    """Remove every entry; another process may be doing the same."""
    found = entries(directory)
    for path in found:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
    print(f"removed {counted(len(found), 'entry', 'entries')} from {directory}")


def path(directory: Path) -> None:
    """Print the folder."""
    print(directory)


def _age(seconds: float) -> str:
    steps = [(86400, "day"), (3600, "hour"), (60, "minute")]
    size, unit = next(((s, u) for s, u in steps if seconds >= s), (1, "second"))
    return f"{counted(round(seconds / size), unit)} ago"


ACTIONS: Final = {"show": show, "clear": clear, "path": path}
COMMAND = Command("list or clear the cache of compiled code", options, run)
