"""What a request is answered with that is not done, and how much one may ask for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Reason(Enum):
    """Why: the status of HTTP, and the name of gRPC's code."""

    BAD = 400, "INVALID_ARGUMENT"
    UNAUTHORISED = 401, "UNAUTHENTICATED"
    FORBIDDEN = 403, "PERMISSION_DENIED"
    UNKNOWN = 404, "NOT_FOUND"
    SLOW = 408, "DEADLINE_EXCEEDED"
    TOO_LARGE = 413, "RESOURCE_EXHAUSTED"
    TYPE = 415, "INVALID_ARGUMENT"
    FAULT = 500, "INTERNAL"
    NOT_SUPPORTED = 501, "UNIMPLEMENTED"
    BUSY = 503, "UNAVAILABLE"
    LATE = 504, "DEADLINE_EXCEEDED"

    @property
    def status(self) -> int:
        """That of HTTP."""
        return self.value[0]

    @property
    def code(self) -> str:
        """That of gRPC."""
        return self.value[1]


class Refused(Exception):
    """A request that is answered with a reason and a sentence."""

    def __init__(self, reason: Reason, text: str) -> None:
        Exception.__init__(self, reason, text)
        self.reason, self.text = reason, text


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may take; seconds are those that it may take to arrive, or may wait and run."""

    body_bytes: int = 64 << 20
    header_bytes: int = 256 << 10  # what is read of a connection at once, too
    tensor_elements: int = 1 << 26
    tensors: int = 256
    body_seconds: float = 30.0
    header_seconds: float = 10.0
    request_seconds: float = 60.0
    connections: int = 1024
    queue: int = 256
    drain_seconds: float = 30.0
