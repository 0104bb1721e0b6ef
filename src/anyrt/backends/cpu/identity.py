"""The identity of this processor, determined without a compiler: part of the key of cached code."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Final

CPUINFO: Final = Path("/proc/cpuinfo")
FIELDS: Final = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU implementer", "CPU part")


@cache
def processor() -> str:
    """Vendor, model and instruction sets, as far as the system reports them; at least the machine type."""
    lines = [platform.machine(), platform.processor(), platform.system()]
    try:
        first = CPUINFO.read_text(errors="replace").split("\n\n", 1)[0]
    except OSError:  # not Linux: only the machine type
        return "|".join(lines)
    lines += [line for line in first.splitlines() if line.split("\t", 1)[0].strip() in FIELDS]
    return "|".join(lines)
