"""The sources of the compiler: code that another version of them compiled is never executed.

codegen_version()      a digest for keys of the cache, quick
source_contents()      what the compiler is made of, for digests that hold on every machine
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from anyrt.plan.cache import cache_key

PACKAGE: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = (
    "core",
    "ir",
    "plan",
    "prims",
    "loops",
    "codegen",
    "backends",
    "schedule",
    "passes",
    "compiler",
)


@cache
def codegen_version() -> str:
    """A digest that changes with every source file of the compiler, so that code of an older version is never
    executed."""
    stamps = sorted((path, facts.st_size, facts.st_mtime_ns) for path, facts in _sources())
    return cache_key(*(f"{path} {size} {time}" for path, size, time in stamps))


def source_contents() -> list[tuple[str, bytes]]:
    """The same sources by their paths inside the package, with their contents, in the order of paths."""
    paths = (Path(path) for path, _ in _sources())
    named = ((p.relative_to(PACKAGE).as_posix() if PACKAGE in p.parents else p.name, p) for p in paths)
    return sorted((name, path.read_bytes()) for name, path in named)


def _sources() -> Sequence[tuple[str, os.stat_result]]:
    """The compiler's source files, or their replacement: compiled forms, the archive that contains them, or
    the program that they were frozen into."""
    folders = (folder for part in SOURCES for folder, _, _ in os.walk(PACKAGE / part))
    entries = (e for folder in folders if not folder.endswith("__pycache__") for e in os.scandir(folder))
    files = [(e.path, e.stat()) for e in entries if e.name.endswith((".py", ".pyc"))]
    archive = next((p for p in PACKAGE.parents if p.is_file()), Path(sys.executable))
    return files or [(str(archive), archive.stat())]
