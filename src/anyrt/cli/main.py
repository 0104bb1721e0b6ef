"""`anyrt COMMAND …`: runs the command, and reports a user's mistake in one line with exit status 2."""

from __future__ import annotations

import os
import re
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final, NoReturn

import anyrt
from anyrt.cli.command import all_commands
from anyrt.cli.show import folded, terminal_columns
from anyrt.core.errors import AnyrtError

MISTAKE: Final = 2
INTERRUPTED: Final = 130  # the status that shells report after Ctrl-C
STATUS: Final = """exit status:
  0  success: no problems, outputs agree
  1  the command found problems, or outputs differ
  2  the command, its options or a file is not valid; stderr has the reason
Results are printed on stdout, problems and progress on stderr; --json prints
results as JSON. `anyrt exec` has the options, lines and statuses of trtexec."""
_CHOICE: Final = re.compile(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", re.S)


class Folding(RawDescriptionHelpFormatter):
    """Keeps the lines of descriptions, wrapped if the terminal is narrower."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = (part for line in text.splitlines() for part in folded(line, width) or [""])
        return "\n".join(f"{indent}{part}".rstrip() for part in parts)


class Parser(ArgumentParser):
    """Reports an error in the arguments in one line, with the most similar valid name."""

    def error(self, message: str) -> NoReturn:
        """Print `message` and exit with status 2."""
        choice = _CHOICE.fullmatch(message)
        if choice is not None:
            names = [name.strip(" '") for name in choice[3].split(",")]
            kind = "command" if choice[1] == "COMMAND" else f"value of {choice[1]}"
            message = f"no {kind} {choice[2]!r}{_nearest(choice[2], names)}, one of {', '.join(names)}"
        complain(f"{self.prog}: {message}; see {self.prog} --help")
        self.exit(MISTAKE)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv`, which excludes the program's name; returns the exit status."""
    args = _arguments(argv)
    try:
        args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except AnyrtError as error:
        return _refuse(args, str(error))
    except OSError as error:
        return _refuse(args, f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def complain(text: str) -> None:
    """A line on stderr, wrapped if that is a terminal."""
    print(*folded(" ".join(text.split()), terminal_columns(sys.stderr)), sep="\n", file=sys.stderr)


def _refuse(args: Namespace, message: str) -> int:
    complain(f"anyrt {args.command}: {message}")
    return MISTAKE


def _arguments(argv: Sequence[str] | None) -> Namespace:
    parser = _parser()
    args, more = parser.parse_known_args(argv)
    if more:
        place = _places(parser)[args.command]
        known = [name for action in place._actions for name in action.option_strings]
        word = more[0].partition("=")[0]
        near = _nearest(word, known) if word.startswith("-") else ""
        place.error(f"{more[0]!r} is not an option of {args.command}{near}")
    return args


def _nearest(word: str, names: Iterable[str]) -> str:
    matches = get_close_matches(word, list(names), 1)
    return f"; did you mean {matches[0]}?" if matches else ""


def _places(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    """The parsers of commands, by name."""
    return next(dict(a.choices) for a in parser._actions if isinstance(a, _SubParsersAction))


def _parser() -> ArgumentParser:
    about = "Inspect, run and measure networks, ONNX models and plans."
    parser = Parser(prog="anyrt", description=about, epilog=STATUS, formatter_class=Folding)
    parser.add_argument("--version", action="version", version=f"anyrt {anyrt.__anyrt_version__}")
    places = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in all_commands().items():
        place = places.add_parser(name, help=command.help, description=command.help, formatter_class=Folding)
        command.options(place)
        if command.json:
            place.add_argument("--json", action="store_true", help="print the results as JSON")
        place.set_defaults(run=command.run)
    return parser
