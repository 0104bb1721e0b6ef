"""Networks that Python files define.

def define(network):                 # or define(network, config), to add optimisation profiles
    x = network.add_input("x", anyrt.float32, (2, 3))
    network.mark_output(network.add_identity(x).get_output(0))
"""

from __future__ import annotations

import inspect
import runpy
import sys
import traceback
from pathlib import Path
from typing import Final

from anyrt.api.edge.quiet import LINE
from anyrt.core.errors import AnyrtError, ArgumentError

FUNCTION: Final = "define"


def split_place(place: str) -> tuple[Path, str]:
    """(file, function) of `FILE.py:function`; the default function is `define`.

    >>> split_place("net.py:tiny")[1]
    'tiny'
    """
    path, colon, name = place.rpartition(":")
    return (Path(path), name) if colon and name.isidentifier() else (Path(place), FUNCTION)


def call_user(path: Path, function: str, *args: object) -> None:
    """Call a function of a Python file that adds layers to a network; raises every error with its line."""
    where, beside = f"{path}:{function}", str(path.parent.resolve())
    sys.path.insert(0, beside)  # as `python FILE.py` does, so that it may import modules beside it
    try:
        define = runpy.run_path(str(path)).get(function)
        if not callable(define):
            do = f"add `def {function}(network):`, or name a function as {path}:FUNCTION"
            raise ArgumentError(
                "AR306", where, "no such function", "a function that adds layers to a network", do
            )
        define(*args[: len(inspect.signature(define).parameters)])
    except OSError:
        raise
    except Exception as error:  # the user's file may raise anything
        raise _placed(error, path, where) from error
    finally:
        sys.path.remove(beside)


def _placed(error: Exception, path: Path, where: str) -> AnyrtError:
    """The error of the user's file with its line: an AnyRT error unchanged, any other exception as AR314."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    number = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    place = where if number is None else f"{path}:{number}"
    ours = error if isinstance(error, AnyrtError) else next(iter(error.args), None)
    if not isinstance(ours, AnyrtError):
        return ArgumentError("AR314", place, f"{type(error).__name__}: {error}", "a network")
    is_placed = number is None or LINE.search(ours.where) is not None
    return ours if is_placed else ours.at(f"{ours.where} ({place})")
