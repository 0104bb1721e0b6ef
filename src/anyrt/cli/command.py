"""Defines and finds commands: cli/commands/NAME.py with a `COMMAND` is `anyrt NAME`.

COMMAND = Command("print a greeting", lambda parser: None, lambda args: print("hello"))
"""

from __future__ import annotations

import pkgutil
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from anyrt.cli import commands


@dataclass(frozen=True, slots=True)
class Command:
    """`help` for the list of commands; `options` adds arguments to a parser; `run` does the work.

    `run` prints its results, and raises AnyrtError or OSError on failure, SystemExit(1) for a negative
    answer. `json`: it supports `args.json`, an option that each such command gets; exec has its own option.
    """

    help: str
    options: Callable[[ArgumentParser], object]
    run: Callable[[Namespace], object]
    json: bool = True


def all_commands() -> dict[str, Command]:
    """All commands, sorted by name."""
    names = sorted(m.name for m in pkgutil.iter_modules(commands.__path__) if not m.name.startswith("_"))
    return {name: import_module(f"{commands.__name__}.{name}").COMMAND for name in names}
