"""Markdown sessions: saved programs, and commands with their output.

A fenced block marked `python net.py` is saved under that name in a temporary folder. In a block marked
`console`, each line that begins with "$ " is a command that runs there, and the lines after it are its
output. For a `make` command, the Makefile's recipe runs at the root. Times differ between runs, so only the
words around them are compared. Kernels differ between machines: commands run as on the machine for which the
sizes of pieces were measured, with the instructions that any x86-64 has.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from anyrt.core.machine import REFERENCE

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(python (?P<name>[\w.]+)|console)\n(?P<body>.*?)^```$", re.M | re.S)
# Phases of a build, times, dates, and the last digits of floats.
UNSTEADY = re.compile(
    r"(?<=made in ).*|\d[\d.,]*(?= ?(?:ms|s|times)\b)|\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d|\d\.\d+e-\d\d"
)
MACHINE = "machine.json"
SECONDS = 120  # a command that takes longer hangs


def replayed(text: str, folder: Path) -> str:
    """`text` with the current output of its commands, where it differs."""
    parts, at = [], 0
    for match in BLOCK.finditer(text):
        parts.append(text[at : match.start("body")])
        at = match.end("body")
        if match["name"]:
            (folder / match["name"]).write_text(match["body"], encoding="utf-8")
            parts.append(match["body"])
        else:
            parts += [_printed(command, before, folder) for command, before in _commands(match["body"])]
    return "".join([*parts, text[at:]])


def steady(text: str) -> str:
    """`text` without the parts that differ between runs, and without their alignment."""
    return re.sub(" +", " ", UNSTEADY.sub("#", text))


def _commands(body: str) -> Iterator[tuple[str, str]]:
    """Each command, with the lines below it."""
    for piece in re.split(r"^\$ ", body, flags=re.M)[1:]:
        command, _, printed = piece.partition("\n")
        yield command, printed


def _printed(command: str, before: str, folder: Path) -> str:
    """The command and its output; the old output if only times differ."""
    now = _run(command, folder)
    return f"$ {command}\n{before if steady(before) == steady(now) else now}"


def _run(command: str, folder: Path) -> str:
    recipe = _recipe(command.removeprefix("make ")) if command.startswith("make ") else command
    where = ROOT if command.startswith("make ") else folder
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    known = {"PATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "100", "NO_COLOR": "1"}
    if where is folder:
        (folder / MACHINE).write_text(str(REFERENCE), encoding="utf-8")
        known |= {"ANYRT_CPU": "sse2", "ANYRT_MACHINE": str(folder / MACHINE)}
    done = subprocess.run(
        recipe,
        shell=True,
        cwd=where,
        env={**os.environ, **known},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    printed = done.stdout.replace(f"{folder}{os.sep}", "")
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def _recipe(target: str) -> str:
    """The last line that `make` runs for a target, with this interpreter."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    match = re.search(rf"^{target}:.*\n(?:\t.*\n)*?\t(.*)\n(?!\t)", text, re.M)
    assert match, f"the Makefile has no target {target}"
    return match[1].replace("$(RUN)", sys.executable)
