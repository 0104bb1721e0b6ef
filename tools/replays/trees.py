"""Compares two source trees: which kernels differ, and how.

A tree is a folder, or a commit of this repository, which is written to a temporary folder. Each is lowered by
its own AnyRT with its own networks; a tree that is older than replay uses this tree's.
"""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher, unified_diff
from pathlib import Path

from tools.replays.lowering import HERE
from tools.replays.networks import every
from tools.replays.work import ROOT, Answer, Kernel, answers

PARTS = ("src", "tools", "benchmarks")  # parts of a tree that lowering needs


@contextmanager
def source_tree(name: str) -> Iterator[Path]:
    """The folder of that name, or a commit's files; raises SystemExit if it is neither."""
    if (Path(name) / "src").is_dir():
        yield Path(name).resolve()
        return
    process = subprocess.run(["git", "archive", name, *PARTS], cwd=ROOT, capture_output=True, check=False)
    if process.returncode:
        error = process.stderr.decode().strip()
        raise SystemExit(f"--old {name}: got {error!r}, wanted a folder with src/, or a commit")
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(process.stdout)) as files:
            files.extractall(folder, filter="data")
        yield Path(folder)


def diff(old: Answer, new: Answer, llvm: bool = False) -> Iterator[str]:
    """How the kernels of a network differ: their loops, and the LLVM text of equal loops (`llvm`: of all)."""
    if old.refused or new.refused:
        yield f"- {old.refused or 'lowered'}"
        yield f"+ {new.refused or 'lowered'}"
        return
    for before, after in pairs(old.kernels, new.kernels):
        if before is None or after is None:
            yield from _lines(before, after, [k.loops_text if k else "" for k in (before, after)], "loops")
            continue
        if before.loops != after.loops:
            yield from _lines(before, after, [before.loops_text, after.loops_text], "loops")
        if before.llvm != after.llvm and (llvm or before.loops == after.loops):
            yield from _lines(before, after, [before.llvm_text, after.llvm_text], "LLVM text")


def pairs(old: Sequence[Kernel], new: Sequence[Kernel]) -> Iterator[tuple[Kernel | None, Kernel | None]]:
    """Pairs of corresponding kernels, in order, without equal ones."""
    matcher = SequenceMatcher(None, [(k.loops, k.llvm) for k in old], [(k.loops, k.llvm) for k in new], False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            continue
        for n in range(max(b - a, d - c)):
            yield (old[a + n] if a + n < b else None), (new[c + n] if c + n < d else None)


def _lines(before: Kernel | None, after: Kernel | None, texts: Sequence[str], what: str) -> Iterator[str]:
    names = [f"{tree}: {k.name}, {what}" if k else "(none)" for tree, k in (("old", before), ("new", after))]
    old, new = (text.splitlines() for text in texts)
    yield from unified_diff(old, new, *names, lineterm="")


def changed(old: Path, pattern: str = "", jobs: int = 2) -> list[str]:
    """The cases of `python -m benchmarks trees` with matching names whose kernels changed on this machine."""
    networks = [n for n in every() if n.case and re.search(pattern, n.case)]
    names = [n.name for n in networks]
    before, after = ({a.row for a in answers(tree, names, [HERE], jobs)} for tree in (old, ROOT))
    other = {row.network for row in before ^ after}
    return list(dict.fromkeys(n.case for n in networks if n.name in other))
