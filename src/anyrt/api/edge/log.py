"""The format of messages of the standard logger.

>>> default_format(Severity.ERROR, "no such tensor", datetime(2025, 3, 9, 7, 5, 1))
'[03/09/2025-07:05:01] [TRT] [E] no such tensor'
"""

from __future__ import annotations

import json
import re
from datetime import datetime

from anyrt.core.enums import Severity
from anyrt.core.flags import read_flags

_CODE = re.compile(r"\[(AR\d+)\] ")
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


def printed(severity: Severity, msg: str, now: datetime) -> str:
    """The output of the standard logger: the line, or with ANYRT_LOG=json a JSON object with its content.

    >>> json_line(Severity.ERROR, "[AR101] scale1: got rank 3", datetime(2026, 1, 2))
    '{"time": "2026-01-02T00:00:00", "severity": "ERROR", "code": "AR101", "message": "scale1: got rank 3"}'
    """
    return (json_line if read_flags().log == "json" else default_format)(severity, msg, now)


def json_line(severity: Severity, msg: str, now: datetime) -> str:
    """A message as one line of JSON; `code`: the code of a diagnostic, which is removed from the text."""
    code, text = split_code(msg)
    record = {"time": now.isoformat(), "severity": severity.name, "code": code, "message": text}
    return json.dumps(record, ensure_ascii=False)


def split_code(msg: str) -> tuple[str | None, str]:
    """The code at the start of a message, and the rest."""
    match_ = _CODE.match(msg)
    return (match_[1], msg[match_.end() :]) if match_ else (None, msg)
