"""Refused requests, and the limits of a request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from anyrt.core.errors import AnyrtError

# The responses to Triton's calls for these features, over HTTP and gRPC.
SHARED: Final = "{} shared memory is not supported; send tensors as binary data"
SETTINGS: Final = "{} settings are not supported; docs/serving.md has the options and variables of the server"


class Reason(Enum):
    """The reason for rejecting a request: the HTTP status, and the name of the gRPC code."""

    BAD = 400, "INVALID_ARGUMENT"
    UNAUTHORISED = 401, "UNAUTHENTICATED"
    FORBIDDEN = 403, "PERMISSION_DENIED"
    UNKNOWN = 404, "NOT_FOUND"
    SLOW = 408, "DEADLINE_EXCEEDED"
    TOO_LARGE = 413, "RESOURCE_EXHAUSTED"
    TYPE = 415, "INVALID_ARGUMENT"
    HEADERS = 431, "RESOURCE_EXHAUSTED"
    FAULT = 500, "INTERNAL"
    NOT_SUPPORTED = 501, "UNIMPLEMENTED"
    BUSY = 503, "UNAVAILABLE"
    LATE = 504, "DEADLINE_EXCEEDED"

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.value[0]

    @property
    def code(self) -> str:
        """The gRPC code."""
        return self.value[1]


class Refused(Exception):
    """A request that is refused with a reason and a sentence."""

    def __init__(self, reason: Reason, text: str) -> None:
        Exception.__init__(self, reason, text)
        self.reason, self.text = reason, text


# The errors of an inference: AnyRT's own, and any error of plug-in code.
FAULTS: Final = (
    *(AnyrtError, Refused, ArithmeticError, AssertionError, AttributeError, LookupError),
    *(MemoryError, OSError, RuntimeError, TypeError, ValueError),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one request; seconds are those for arriving, and for waiting and running."""

    body_bytes: int = 64 << 20
    header_bytes: int = 64 << 10  # names and values of all headers, or of gRPC's metadata
    read_bytes: int = 256 << 10  # of a connection at once; the server rejects longer headers, unparsed
    tensor_elements: int = 1 << 26
    tensors: int = 256
    body_seconds: float = 30.0
    header_seconds: float = 10.0
    request_seconds: float = 60.0
    connections: int = 1024
    queue: int = 256
    drain_seconds: float = 30.0
