"""The suggested replacement for an argument of the wrong type.

>>> hint(np.float32, DataType), hint("warning", Severity), hint(2, DataType)
('write trt.float32', 'write trt.Logger.WARNING', 'write trt.DataType(2)')
"""

from __future__ import annotations

import numpy as np

from anyrt.core.dtype import from_numpy, short_name
from anyrt.core.enums import DataType, Severity
from anyrt.core.errors import DTypeError
from anyrt.core.trt_enum import TrtEnum

FAILED = "a call that returned None failed: the log has the reason"
PLACES: dict[type[TrtEnum], str] = {
    Severity: "Logger"
}  # the public places of types that are not names of the module


def article(name: str) -> str:
    """`name` with "a" or "an"."""
    return f"an {name}" if name[0] in "AEIOUaeio" else f"a {name}"


def hint(got: object, enum: type[TrtEnum]) -> str:
    """The text to write for a member of `wanted`; "" if `got` does not determine it."""
    place = f"trt.{PLACES.get(enum, enum.__name__)}"
    members = enum.__members__
    match got:
        case str() if got.rpartition(".")[2].upper() in members:
            return f"write {place}.{got.rpartition('.')[2].upper()}"
        case int() if got in {int(m) for m in members.values()}:
            return f"write {place}({got})"
    return dtype_hint(got) if enum is DataType else f"write {place}.{next(iter(members))} for instance"


def dtype_hint(got: object) -> str:
    """The element type that corresponds to `got` in NumPy, torch or as text."""
    name = str(got).rpartition(".")[2] if not isinstance(got, type) else got.__name__
    try:
        return f"write trt.{short_name(from_numpy(np.dtype(name)))}"
    except (TypeError, ValueError, DTypeError):
        return "write trt.float32 for instance"
