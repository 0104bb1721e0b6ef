"""A description of the machine."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

import anyrt
from anyrt.backends.cpu import processors


@dataclass(frozen=True, slots=True)
class Machine:
    """Processor, system, and the programs that were measured or missing."""

    processor: str
    cores: int
    caches: str
    level: str
    system: str
    python: str
    anyrt: str
    peers: dict[str, str]
    missing: dict[str, str]

    def lines(self) -> tuple[str, ...]:
        """The description as text."""
        peers = ", ".join(f"{name} {version}" for name, version in self.peers.items())
        lines = [
            f"{self.processor}, {self.cores} cores, {self.caches}, code for {self.level}",
            f"{self.system}, {self.python}",
            f"Programs: {peers}",
        ]
        lines += [f"Missing: {name} ({why})" for name, why in self.missing.items()]
        return tuple(lines)


def this_machine(peers: dict[str, str], missing: dict[str, str]) -> Machine:
    """The description of this machine."""
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        caches=_caches(),
        level=processors.host().level.value,
        system=f"{platform.system()} {platform.release().partition('-')[0]}",
        python=f"Python {platform.python_version()}",
        anyrt=anyrt.__anyrt_version__,
        peers=peers,
        missing=missing,
    )


def _processor() -> str:
    text = _read(Path("/proc/cpuinfo"))
    fields = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", text, re.MULTILINE))
    name = fields.get("model name", platform.processor() or platform.machine())
    return f"{name} (family {fields.get('cpu family', '?')} model {fields.get('model', '?')})"


def _caches() -> str:
    """The caches of a core, from the system's tables."""
    caches = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind = _read(index / "type")
        if kind != "Instruction":
            caches.append(f"L{_read(index / 'level')} {_read(index / 'size')}")
    return " ".join(caches) or "caches unknown"


def last_cache_bytes() -> int:
    """The size of the largest cache of a core; 32 MiB if the system does not report it."""
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    sizes = (re.fullmatch(r"(\d+)K", _read(index / "size")) for index in folder.glob("index*"))
    return max((int(size[1]) << 10 for size in sizes if size), default=32 << 20)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
