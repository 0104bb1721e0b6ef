"""Markdown code blocks with programs: they run in order in one namespace, and each is followed by its output.
Files that a block writes go to a temporary folder.

A fenced block marked `python` is run; if the next fenced block is marked `text`, it holds the output.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

ASIDE = "TensorRT would reject this network"  # a warning with the time, on pages about warnings
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.M | re.S)


def with_outputs(text: str, name: str) -> str:
    """`text` with every `text` block replaced by the output of the `python` block before it."""
    environment = dict(os.environ)
    try:
        return _with_outputs(text, name)
    finally:  # environment variables that a program sets apply to its own page only
        os.environ.clear()
        os.environ.update(environment)


def _with_outputs(text: str, name: str) -> str:
    namespace: dict[str, object] = {"__name__": name}
    environment = dict(os.environ)
    parts, at, printed = [], 0, ""
    for match in BLOCK.finditer(text):
        parts.append(text[at : match.start()])
        at = match.end()
        if match[1] == "python":
            printed = _run(match[2], namespace, f"{name}:{text.count(chr(10), 0, match.start()) + 2}")
            parts.append(match[0])
        else:
            parts.append(f"```text\n{printed}```")
    os.environ.clear()
    os.environ.update(environment)  # some pages set environment variables
    return "".join([*parts, text[at:]])


def programs(path: Path) -> Iterator[str]:
    """The `python` blocks of a file."""
    for match in BLOCK.finditer(path.read_text()):
        if match[1] == "python":
            yield match[2]


def _run(code: str, namespace: dict[str, object], name: str) -> str:
    out = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(out):
        exec(compile(code, name, "exec"), namespace)
    lines = [line.rstrip() for line in out.getvalue().splitlines() if ASIDE not in line]
    return "".join(f"{line}\n" for line in lines)
