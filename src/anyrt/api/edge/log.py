"""How a message of the standard logger looks.

>>> default_format(Severity.ERROR, "no such tensor", datetime(2025, 3, 9, 7, 5, 1))
'[03/09/2025-07:05:01] [TRT] [E] no such tensor'
"""

from __future__ import annotations

from datetime import datetime

from anyrt.core.enums import Severity

_LETTERS = {
    Severity.INTERNAL_ERROR: "F",
    Severity.ERROR: "E",
    Severity.WARNING: "W",
    Severity.INFO: "I",
    Severity.VERBOSE: "V",
}


def default_format(severity: Severity, msg: str, now: datetime) -> str:
    """The line that the standard logger prints."""
    return f"[{now:%m/%d/%Y-%H:%M:%S}] [TRT] [{_LETTERS[severity]}] {msg}"
