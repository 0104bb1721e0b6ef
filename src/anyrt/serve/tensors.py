"""Arrays of requests: from JSON, from bytes, and back; arrays that do not match a port are rejected.

`Input` describes an input of a model; sizes are checked before anything is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import DataType
from anyrt.serve.refused import Limits, Reason, Refused

Array = NDArray[Any]  # Any: of any element type
_INTEGERS: Final = ("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64")
NAMES: Final = {
    **{DataType[n]: n for n in _INTEGERS},
    DataType.HALF: "FP16",
    DataType.FLOAT: "FP32",
    DataType.DOUBLE: "FP64",
    DataType.BF16: "BF16",
}
BINARY_ONLY: Final = (DataType.HALF, DataType.BF16)
# The Python types that may become an element of each kind of NumPy types.
_TAKEN: Final = {"b": "b", "u": "ui", "i": "ui", "f": "uif"}


@dataclass(frozen=True, slots=True)
class Input:
    """An input: its type, its shape with −1 for dynamic dimensions, and the least and largest shapes of
    profiles."""

    name: str
    dtype: DataType
    shape: tuple[int, ...]
    ranges: tuple[tuple[Sequence[int], Sequence[int]], ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """The checked JSON of a request with tensors as bytes: the shape, the start and the end of each in a body
    of `end` bytes; for each output whether it is sent as bytes."""

    places: Sequence[tuple[Input, tuple[int, ...], int, int]]
    end: int
    outputs: Mapping[str, bool]
    id: str
    seconds: float | None


def checked_shape(declared: Input, datatype: object, shape: object, limits: Limits) -> tuple[int, ...]:
    """The shape in a request, if the model accepts it."""
    name = declared.name
    if datatype == "BYTES":
        raise Refused(Reason.NOT_SUPPORTED, f"input {name!r}: BYTES is not supported")
    if datatype != NAMES[declared.dtype]:
        raise Refused(Reason.BAD, f"input {name!r}: got {_short(datatype)}, wanted {NAMES[declared.dtype]}")
    if not isinstance(shape, Sequence) or not all(type(n) is int and 0 <= n < 1 << 31 for n in shape):
        raise Refused(Reason.BAD, f"input {name!r}: got shape {_short(shape)}, wanted sizes of 0 and more")
    sizes = tuple(shape)
    fits = len(sizes) == len(declared.shape) and all(
        w in (-1, n) for w, n in zip(declared.shape, sizes, strict=False)
    )
    if not fits:
        raise Refused(Reason.BAD, f"input {name!r}: got shape {_short(sizes)}, wanted {list(declared.shape)}")
    if declared.ranges and not any(_inside(sizes, *r) for r in declared.ranges):
        raise Refused(Reason.BAD, f"input {name!r}: got shape {list(sizes)}, which is outside all profiles")
    if math.prod(sizes) > limits.tensor_elements:
        most = f"at most {limits.tensor_elements} elements"
        raise Refused(Reason.TOO_LARGE, f"input {name!r}: got shape {list(sizes)}, wanted {most}")
    return sizes


def _inside(shape: Sequence[int], least: Sequence[int], most: Sequence[int]) -> bool:
    return all(a <= n <= b for a, n, b in zip(least, shape, most, strict=True))


def decode_bytes(declared: Input, shape: tuple[int, ...], data: memoryview | bytes) -> Array:
    """The array with the elements `data`, little-endian and row-major; a view of these bytes."""
    dtype = numpy_dtype(declared.dtype)
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise Refused(
            Reason.BAD, f"input {declared.name!r}: got {len(data)} bytes, wanted {expected} for {list(shape)}"
        )
    if declared.dtype is DataType.BOOL and np.frombuffer(data, np.uint8).max(initial=0) > 1:
        raise Refused(Reason.BAD, f"input {declared.name!r}: got bytes above 1, wanted 0 or 1 for BOOL")
    return np.frombuffer(data, dtype).reshape(shape)


def decode_json(declared: Input, shape: tuple[int, ...], data: object) -> Array:
    """The array of a list of numbers, flat or nested by the shape."""
    name, dtype = declared.name, numpy_dtype(declared.dtype)
    if declared.dtype in BINARY_ONLY:
        raise Refused(Reason.BAD, f"input {name!r}: {NAMES[declared.dtype]} has no JSON; send binary data")
    count = math.prod(shape)
    if not isinstance(data, list):
        raise Refused(Reason.BAD, f"input {name!r}: got no data, wanted a list of {count} numbers")
    try:
        numbers = np.asarray(data) if data else np.empty(0, dtype)
        kind = numbers.dtype.kind
        taken = kind in _TAKEN[dtype.kind] and numbers.shape in ((count,), shape)
        if not taken and not (numbers.size == count == 0):
            wanted = f"{count} numbers for {NAMES[declared.dtype]} {list(shape)}, flat or nested"
            raise Refused(Reason.BAD, f"input {name!r}: got {_what(numbers)}, wanted {wanted}")
        if dtype.kind in "ui":
            numbers = _in_range(name, numbers, dtype)
        with np.errstate(over="ignore"):
            return numbers.astype(dtype).reshape(shape)
    except (ValueError, OverflowError, RecursionError) as error:
        raise Refused(Reason.BAD, f"input {name!r}: data makes no array ({error})") from None


def _in_range(name: str, numbers: Array, dtype: np.dtype[Any]) -> Array:  # Any: integers of any width
    info = np.iinfo(dtype)
    if numbers.size and not (info.min <= int(numbers.min()) and int(numbers.max()) <= info.max):
        got = f"numbers from {numbers.min()} to {numbers.max()}"
        raise Refused(Reason.BAD, f"input {name!r}: got {got}, wanted {info.min} to {info.max}")
    return numbers


def encode_json(name: str, array: Array, dtype: DataType) -> list[object]:
    """The elements, row-major, for JSON."""
    if dtype in BINARY_ONLY:
        raise Refused(Reason.BAD, f"output {name!r}: {NAMES[dtype]} has no JSON; ask for binary data")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise Refused(
            Reason.BAD, f"output {name!r} has NaN or infinity, which JSON has not; ask for binary data"
        )
    elements: list[object] = array.reshape(-1).tolist()
    return elements


def every_input(inputs: Mapping[str, Input], names: Sequence[str]) -> None:
    """Rejects inputs that are unknown, duplicate or missing."""
    for name in names:
        if name not in inputs:
            raise Refused(Reason.BAD, f"input {_short(name)}: wanted one of {', '.join(inputs)}")
    if len(set(names)) != len(names):
        raise Refused(Reason.BAD, "an input is given twice")
    missing = [n for n in inputs if n not in names]
    if missing:
        raise Refused(Reason.BAD, f"input {missing[0]!r} is missing")


def _short(x: object) -> str:
    text = repr(x)
    return text if len(text) <= 80 else text[:77] + "..."


def _what(array: Array) -> str:
    return f"{array.dtype.name} of shape {list(array.shape)}"[:120]
