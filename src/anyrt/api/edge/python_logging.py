"""Messages of AnyRT in Python's `logging`, with the levels, handlers and filters of the program.

    runtime = anyrt.Runtime(anyrt.PythonLogger("serving.anyrt"))

Each record has the attributes `code`, the code of a diagnostic or None, and `severity`, that of TensorRT.
"""

from __future__ import annotations

import logging
from typing import Final

from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import ILogger
from anyrt.api.edge.log import split_code
from anyrt.api.edge.quiet import wrong_type
from anyrt.core.enums import Severity

LEVELS: Final = {
    Severity.INTERNAL_ERROR: logging.CRITICAL,
    Severity.ERROR: logging.ERROR,
    Severity.WARNING: logging.WARNING,
    Severity.INFO: logging.INFO,
    Severity.VERBOSE: logging.DEBUG,
}


@fold
class PythonLogger(ILogger):
    """Passes every message to a logger of Python's `logging`; `logger`: the logger or its name."""

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger | str = "anyrt") -> None:
        ILogger.__init__(self)
        if not isinstance(logger, logging.Logger | str):
            raise wrong_type("PythonLogger: logger", logger, "a logging.Logger or its name")
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger

    def log(self, severity: Severity, msg: str) -> None:
        """Log one record; INTERNAL_ERROR becomes CRITICAL, VERBOSE becomes DEBUG."""
        code, _ = split_code(msg)
        extra = {"code": code, "severity": severity.name}
        self._logger.log(LEVELS[severity], "%s", msg, extra=extra)
