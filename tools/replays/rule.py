"""Checks the statements about kernels in the messages of the last commits.

    python -m tools.replays.rule [COMMITS]

A commit whose subject ends in [same] leaves tests/replay.txt unchanged. A commit that changes the file has
paired times of the changed kernels, as `python -m benchmarks trees --old HEAD --changed` prints them, or the
reason why there are none:

    times: norm_ln_8x512x768 61.2 → 58.9 µs, 0.962 ± 0.008
    times: none, only AMX's text changed, which no machine at hand runs
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FILE: Final = "tests/replay.txt"
SAME: Final = "[same]"
LAST: Final = 20  # commits
_TIMES: Final = re.compile(r"^times: (?:none, \S.*|\S+.* \d.*)$", re.M)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit's name, its message, and its change of the file: "" none, "A" created, "M" changed."""

    name: str
    message: str
    touched: str

    @property
    def fault(self) -> str:
        """The parts that its message lacks; "" if it is complete."""
        subject = self.message.partition("\n")[0]
        if subject.endswith(SAME) and self.touched:
            return f"its subject ends in {SAME}, and it touches {FILE}"
        if self.touched == "M" and _TIMES.search(self.message) is None:
            return f'it touches {FILE}, and has no line "times: …" of the kernels that changed'
        return ""


def last(count: int = LAST, root: Path = ROOT) -> Iterator[Commit]:
    """The last commits that are no merges."""
    done = _git(root, "log", f"-{count}", "--no-merges", "--format=%x01%h%x02%B%x02", "--name-status")
    for text in done.split("\x01")[1:]:
        name, message, files = text.split("\x02")
        touched = re.search(rf"^(\w)\d*\t{re.escape(FILE)}$", files, re.M)
        yield Commit(name, message.strip(), touched[1] if touched else "")


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout


def main(count: int = LAST) -> int:
    """Report the faults; returns 1 if there are any."""
    if not (ROOT / ".git").exists():
        print("no commits here: what they say of kernels is not checked")
        return 0
    faults = [(c, c.fault) for c in last(count) if c.fault]
    for commit, fault in faults:
        print(f"commit {commit.name}, {commit.message.partition(chr(10))[0]!r}: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
