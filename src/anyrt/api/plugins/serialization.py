"""Serialized fields in plans: a list of names, types and lengths, then the bytes of all fields.

>>> from anyrt.core.enums import PluginFieldType
>>> a = PluginField("a", np.array([1, 2], np.int32), PluginFieldType.INT32)
>>> deserialize(serialize([a]), "plan")[0].data.tolist()
[1, 2]
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from anyrt.api.plugins.field import PluginField, PluginFieldCollection, PluginFieldCollection_
from anyrt.core.enums import PluginFieldType
from anyrt.core.errors import PlanError
from anyrt.plan.json import Json, Reader, dump, load

MOST: Final = 1 << 24  # bytes of the list
HEAD: Final = struct.Struct("<I")


def serialize(fields: PluginFieldCollection_ | list[PluginField]) -> bytes:
    """The fields, serialized."""
    data = [np.ascontiguousarray(field.data).tobytes() for field in fields]  # type: ignore[union-attr]  # a collection is iterated by index
    rows: list[Json] = [
        [f.name, f.type.name, f.size, len(x)]
        for f, x in zip(fields, data, strict=True)  # type: ignore[arg-type]  # as above
    ]
    head = dump(rows)
    return b"".join((HEAD.pack(len(head)), head, *data))


def deserialize(data: bytes, where: str) -> PluginFieldCollection_:
    """The fields that `serialize` wrote; they own their data."""
    if len(data) < HEAD.size or HEAD.size + HEAD.unpack_from(data)[0] > len(data):
        raise PlanError("AR605", where, f"{len(data)} bytes of fields", "a list of fields")
    at = HEAD.size + HEAD.unpack_from(data)[0]
    fields = list[PluginField]()
    for row in Reader(load(data[HEAD.size : at], where, MOST), where).items(MOST):
        name, kind, size, nbytes = row.exactly(4)
        if kind.text() not in PluginFieldType.__members__:
            raise kind.error(repr(kind.text()[:40]), "a type of fields")
        count = nbytes.integer(0, len(data) - at)
        fields.append(
            PluginField(name.text(), bytearray(data[at : at + count]), PluginFieldType[kind.text()])
        )
        at += count
        if size.integer(0, fields[-1].size) != fields[-1].size:
            fields[-1].size = size.integer()
    return PluginFieldCollection_(PluginFieldCollection(fields))
