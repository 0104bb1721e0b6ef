"""Programs formatted by `ruff`."""

from __future__ import annotations

import subprocess
import sys


def formatted(text: str, name: str) -> str:
    """The formatted text of a file of this name."""
    return _through(["format"], text, name)


def sorted_imports(text: str, name: str) -> str:
    """The same with sorted imports."""
    return _through(["check", "--fix-only", "--select", "I"], text, name)


def _through(command: list[str], text: str, name: str) -> str:
    words = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", name, "-"]
    return subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout
