"""`anyrt codes [CODE …]`: list all error codes, or explain the given ones."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from anyrt.cli.command import Command
from anyrt.cli.show import print_json, print_table, print_text
from anyrt.core.codes import CODES, Code
from anyrt.core.errors import CLASSES, ArgumentError


def options(parser: ArgumentParser) -> None:
    """Codes to explain."""
    parser.add_argument("code", nargs="*", help="codes to explain, such as AR101 (default: list all)")


def run(args: Namespace) -> None:
    """Print one line per code, or the full entry of each given code."""
    ids = [name.upper() for name in args.code]
    for name in ids:
        if name not in CODES:
            raise ArgumentError("AR304", "code", repr(name), "an error code", "`anyrt codes` lists them")
    if args.json:
        print_json([_record(code) for code in CODES.values() if not ids or code.id in ids])
        return
    if not ids:
        print_table(("code", "error", "title"), [(c.id, _error(c), c.title) for c in CODES.values()])
    for name in ids:
        code = CODES[name]
        print_text(f"{code.id}: {code.title}\n  {code.explanation}.\n  What to do: {code.do}.")
        print_text(f"  raised as {_error(code)}; error recorders receive ErrorCodeTRT.{code.trt.name}")


def _record(code: Code) -> dict[str, str]:
    return {
        "code": code.id,
        "error": _error(code),
        "title": code.title,
        "explanation": code.explanation,
        "do": code.do,
        "trt": code.trt.name,
    }


def _error(code: Code) -> str:
    return CLASSES[code.kind].__name__


COMMAND = Command("explain the codes of error messages", options, run)
