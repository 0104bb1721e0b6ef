"""Separates large weights from the bytes of a model, so that they are mapped and never copied.

A model is a message of Protocol Buffers. Its weights are fields of bytes, `TensorProto.raw_data`, which a
parser of messages would copy. This module replaces each large one by external data of ONNX, an offset and a
length in the file itself, at a location that no model can name.

Source: https://protobuf.dev/programming-guides/encoding and onnx.proto, fields by number.
"""

from __future__ import annotations

import secrets
from typing import Final

from anyrt.core.errors import GraphError

# The location of a model's own bytes; random in each process, so that no model can name it.
OWN: Final = f"\0{secrets.token_hex(8)}"
LARGE = 4096  # bytes; smaller weights are copied with the rest
DEEPEST = 64  # nested messages; no real model nests graphs so deeply
RAW_DATA = 9
IR_VERSION = 1 << 3  # the first byte of a model: field 1, a number
# The fields of a message that may contain weights, and the message type of each.
INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
    "tensor": {},
}
# The lengths of fields of fixed size, by wire type.
FIXED = {1: 8, 5: 4}


def without_weights(model: memoryview) -> bytes:
    """The bytes of the model in which large weights are external data at `OWN`.

    Raises GraphError AR416 for bytes that are not a message."""
    return b"".join(_stripped(model, 0, len(model), "model", 0))


def _stripped(data: memoryview, at: int, end: int, kind: str, depth: int) -> list[bytes | memoryview]:
    """The fields of a message between two offsets."""
    if depth > DEEPEST:
        raise damaged("too many nested graphs")
    out: list[bytes | memoryview] = []
    taken = b""  # the replacement of weights: at the end, since the last of equal fields counts
    copied = at  # the end of the copied bytes
    while at < end:
        start = at
        key, at = _varint(data, at, end)
        field, wire = key >> 3, key & 7
        if field == 0:  # no message has this field, so that zeros are rejected at the first one
            raise damaged("a field of number 0")
        at, size = _skip(data, at, end, wire)
        begin = at - size
        inner = INSIDE[kind].get(field)
        if wire != 2 or size <= LARGE:
            continue
        if kind == "tensor" and field == RAW_DATA:
            out.append(data[copied:start])
            taken = _external(begin, size)
        elif inner is not None:
            parts = _stripped(data, begin, at, inner, depth + 1)
            out += [data[copied:start], _field(field, parts), *parts]
        else:
            continue
        copied = at
    return [*out, data[copied:end], taken]


def _skip(data: memoryview, at: int, end: int, wire: int) -> tuple[int, int]:
    """The end of a field's value, and the number of bytes of its content."""
    if wire == 0:
        return _varint(data, at, end)[1], 0
    if wire == 2:
        size, at = _varint(data, at, end)
    elif wire in FIXED:
        size = FIXED[wire]
    else:
        raise damaged(f"a field of wire type {wire}")
    if size > end - at:
        raise _cut(data, end, "a field that is longer than the file")
    return at + size, size


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """A number of variable length, and its end."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise _cut(data, end, "bytes that end in the middle of a number")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise damaged("a number of more than 64 bits")


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(field: int, parts: list[bytes | memoryview]) -> bytes:
    """The header of a field, whose content follows."""
    return _number(field << 3 | 2) + _number(sum(map(len, parts)))


def _text(field: int, content: bytes) -> bytes:
    return _number(field << 3 | 2) + _number(len(content)) + content


def _external(offset: int, size: int) -> bytes:
    """`external_data` (13) with entries of key (1) and value (2), and `data_location` (14) EXTERNAL."""
    entries = {b"location": OWN.encode(), b"offset": b"%d" % offset, b"length": b"%d" % size}
    data = b"".join(_text(13, _text(1, key) + _text(2, value)) for key, value in entries.items())
    return data + _number(14 << 3) + _number(1)


def _cut(data: memoryview, end: int, got: str) -> GraphError:
    """The error for bytes that end too early: those of a truncated model begin with its version."""
    if end < len(data) or data[0] != IR_VERSION:
        return damaged(got)
    do = "copy or download the file again"
    return GraphError("AR416", "the model", f"a truncated ONNX file: {got}", "a complete ONNX model", do)


def damaged(got: str) -> GraphError:
    """The error for bytes that are not a model."""
    return GraphError(
        "AR416", "the model", got, "an ONNX model", "check the file: onnx.checker.check_model(path)"
    )
