"""The server's log: one JSON object a line, on standard error."""

from __future__ import annotations

import json
import sys
import time


def log(event: str, **facts: object) -> None:
    """Write an event; strings of requests are escaped by JSON, and truncated."""
    cut = {k: v[:500] if isinstance(v, str) else v for k, v in facts.items()}
    line = json.dumps({"time": round(time.time(), 6), "event": event, **cut}, default=str)
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
