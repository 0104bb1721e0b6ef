"""`anyrt COMMAND …`: runs the command, and reports a user's mistake in one line with exit status 2."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import Final, NoReturn

import anyrt
from anyrt.cli.command import all_commands
from anyrt.core.errors import AnyrtError

MISTAKE: Final = 2
INTERRUPTED: Final = 130  # the status that shells report after Ctrl-C


class Parser(ArgumentParser):
    """Reports an error in the arguments in one line."""

    def error(self, message: str) -> NoReturn:
        """Print `message` and end with status 2."""
        self.exit(MISTAKE, f"{self.prog}: {message}; {self.prog} see {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv`, which excludes the program's name; returns the exit status."""
    args = _parser().parse_args(argv)
    try:
        args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, `head` for instance, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except AnyrtError as error:
        return _refuse(args, str(error))
    except OSError as error:
        return _refuse(args, f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _refuse(args: Namespace, message: str) -> int:
    line = " ".join(message.split())
    print(f"anyrt {args.command}: {line}", file=sys.stderr)
    return MISTAKE


def _parser() -> ArgumentParser:
    parser = Parser(prog="anyrt", description="Inspect, run and measure networks, ONNX models and plans.")
    parser.add_argument("--version", action="version", version=f"anyrt {anyrt.__anyrt_version__}")
    places = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in all_commands().items():
        place = places.add_parser(
            name, help=command.help, description=command.help, formatter_class=RawDescriptionHelpFormatter
        )
        command.options(place)
        place.set_defaults(run=command.run)
    return parser
