"""`anyrt codes [CODE …]`: the table of diagnostics, or what particular codes mean."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from anyrt.cli.command import Command
from anyrt.cli.show import print_table
from anyrt.core.codes import CODES, Code
from anyrt.core.errors import CLASSES, ArgumentError


def options(parser: ArgumentParser) -> None:
    """Codes to explain."""
    parser.add_argument("code", nargs="*", help="explain these only, AR101 for instance")


def run(args: Namespace) -> None:
    """One line a code, or the full entry of those that are named."""
    wanted = [name.upper() for name in args.code]
    for name in wanted:
        if name not in CODES:
            raise ArgumentError("AR304", "code", repr(name), "a code of the table", "anyrt codes lists them")
    if not wanted:
        print_table(("code", "error", "title"), [(c.id, _error(c), c.title) for c in CODES.values()])
    for name in wanted:
        code = CODES[name]
        print(f"{code.id}: {code.title}\n  {code.explanation}.\n  What to do: {code.do}.")
        print(f"  raised as {_error(code)}, reported as ErrorCodeTRT.{code.trt.name}")


def _error(code: Code) -> str:
    return CLASSES[code.kind].__name__


COMMAND = Command("explain the codes of error messages", options, run)
