"""How many processors this process may use: its affinity, or fewer if a control group limits its time.

A container gets a part of a machine in one of two ways: a set of processors, which the affinity shows, or a
quota (processor time per period), which only the files of its control groups show. Threads beyond the quota
all stop until the next period begins; with at most the integer part of the quota, threads never pause.

>>> share("150000 100000")
1.5
>>> share("max 100000") is None
True
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import Final

ROOT: Final = Path("/")


@dataclass(frozen=True, slots=True)
class Allowance:
    """`count` processors, and the source of that number."""

    count: int
    source: str


def allowance(root: Path = ROOT) -> Allowance:
    """The processors that this process may use now; `root`: the folder of /proc and /sys."""
    free = _affinity()
    quota = _least_now(int(monotonic() * 10)) if root == ROOT else _least(root)
    if quota is None:
        return free
    least, path = quota
    whole = max(1, int(least))
    if whole >= free.count:
        return free
    shown = f"/{path.relative_to(root)}"
    return Allowance(whole, f"{shown} allows {least:g} of {free.count} processors")


def _least(root: Path) -> tuple[float, Path] | None:
    """The smallest quota, and its file."""
    return min(((quota, path) for path in _files(root) if (quota := _quota(path)) is not None), default=None)


@lru_cache(maxsize=1)
def _least_now(tenth: int) -> tuple[float, Path] | None:
    """That of this process: a build asks a dozen times, files are read once in a tenth of a second."""
    return _least(ROOT)


def share(text: str) -> float | None:
    """The processors that the line of a `cpu.max` allows, which has the time in a period, and the period;
    None: no limit."""
    words = text.split()
    if len(words) != 2 or not all(word.isascii() and word.isdigit() for word in words) or words[1] == "0":
        return None
    return int(words[0]) / int(words[1])


def _affinity() -> Allowance:
    try:
        return Allowance(
            len(os.sched_getaffinity(0)), "the processors that this process may run on (affinity)"
        )
    except AttributeError:  # not on macOS
        return Allowance(os.cpu_count() or 1, "the processors of this machine")


def _files(root: Path) -> Iterator[Path]:
    """The quota files of this process's control group, and of all its parents."""
    mounts = list(_mounts(root))
    for line in _lines(root / "proc/self/cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        version = 2 if number == "0" and not controllers else 1
        if version == 1 and "cpu" not in controllers.split(","):
            continue
        name = "cpu.max" if version == 2 else "cpu.cfs_quota_us"
        for top, place in ((t, p) for v, t, p in mounts if v == version):
            for folder in _folders(PurePosixPath(group), PurePosixPath(top)):
                yield root / place.lstrip("/") / folder / name


def _folders(group: PurePosixPath, top: PurePosixPath) -> Iterator[PurePosixPath]:
    """The folders of a group and of its parents, below the folder `top`. A group outside `top`, as a
    container sees if only its own group is mounted, is the mounted folder itself."""
    inner = group.relative_to(top) if group.is_relative_to(top) else PurePosixPath()
    inner = PurePosixPath() if ".." in inner.parts else inner
    yield from (inner, *inner.parents)


def _mounts(root: Path) -> Iterator[tuple[int, str, str]]:
    """(version, folder, mount point) of each hierarchy of control groups that has quotas."""
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        words, kind = before.split(), after.split()
        if len(words) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            yield 2, words[3], words[4]
        elif kind[0] == "cgroup" and "cpu" in kind[2].split(","):
            yield 1, words[3], words[4]


def _quota(path: Path) -> float | None:
    """The processors that a file allows; None: it is not there, or it sets no limit."""
    text = " ".join(_lines(path))
    if path.name == "cpu.cfs_quota_us":
        text = f"{text} {' '.join(_lines(path.with_name('cpu.cfs_period_us')))}"
    return share(text)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:  # not Linux, or not visible from here
        return []
