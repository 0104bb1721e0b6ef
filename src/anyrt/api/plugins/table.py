"""The table of plug-ins of a shared object, in ctypes; `plugin/anyrt_plugin.h` documents it.

>>> Tensor.of([2, 3], 0, 0).dims[:2]
[2, 3]
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_float, c_int32, c_int64, c_uint32, c_void_p
from typing import Final, Self

from anyrt.core.dimlimits import MAX_RANK

VERSION: Final = 2
ENTRY: Final = "anyrt_plugin_table"


class Field(ctypes.Structure):
    """AnyrtField."""

    _fields_ = (("name", c_char_p), ("data", c_void_p), ("type", c_int32), ("count", c_int32))


class Tensor(ctypes.Structure):
    """AnyrtTensor."""

    _fields_ = (
        ("type", c_int32),
        ("format", c_int32),
        ("scale", c_float),
        ("rank", c_int32),
        ("dims", c_int64 * MAX_RANK),
    )

    @classmethod
    def of(cls, sizes: Sequence[int], dtype: int, format: int, scale: float = 0.0) -> Self:
        """A tensor of this shape."""
        return cls(dtype, format, scale, len(sizes), (c_int64 * MAX_RANK)(*sizes))


class Shape(ctypes.Structure):
    """AnyrtShape."""

    _fields_ = (("rank", c_int32), ("dims", c_int32 * MAX_RANK))


CONSTANT: Final = CFUNCTYPE(c_int32, c_void_p, c_int64)
OPERATION: Final = CFUNCTYPE(c_int32, c_void_p, c_int32, c_int32, c_int32)


class Sizes(ctypes.Structure):
    """AnyrtSizes."""

    _fields_ = (
        ("builder", c_void_p),
        ("constant", CONSTANT),
        ("operation", OPERATION),
        ("declare", OPERATION),
    )


_TENSORS: Final = (POINTER(Tensor), c_int32, POINTER(Tensor), c_int32)


class Plugin(ctypes.Structure):
    """AnyrtPlugin."""

    _fields_ = (
        ("name", c_char_p),
        ("version", c_char_p),
        ("space", c_char_p),
        ("fields", POINTER(Field)),
        ("field_count", c_int32),
        ("create", CFUNCTYPE(c_void_p, POINTER(Field), c_int32)),
        ("destroy", CFUNCTYPE(None, c_void_p)),
        ("serialize", CFUNCTYPE(c_int64, c_void_p, c_void_p, c_int64)),
        ("restore", CFUNCTYPE(c_void_p, c_void_p, c_int64)),
        ("error", CFUNCTYPE(c_char_p, c_void_p)),
        ("output_count", CFUNCTYPE(c_int32, c_void_p)),
        ("output_types", CFUNCTYPE(c_int32, c_void_p, POINTER(c_int32), c_int32, POINTER(c_int32), c_int32)),
        (
            "output_shapes",
            CFUNCTYPE(
                c_int32,
                c_void_p,
                POINTER(Sizes),
                POINTER(Shape),
                c_int32,
                POINTER(c_int32),
                c_int32,
                POINTER(Shape),
                c_int32,
            ),
        ),
        ("supports", CFUNCTYPE(c_int32, c_void_p, c_int32, POINTER(Tensor), c_int32, c_int32)),
        ("aliased", CFUNCTYPE(c_int32, c_void_p, c_int32)),
        ("workspace", CFUNCTYPE(c_int64, c_void_p, *_TENSORS)),
        ("resize", CFUNCTYPE(c_int32, c_void_p, *_TENSORS)),
        (
            "enqueue",
            CFUNCTYPE(c_int32, c_void_p, *_TENSORS, POINTER(c_void_p), POINTER(c_void_p), c_void_p, c_void_p),
        ),
        ("tactics", CFUNCTYPE(c_int32, c_void_p, POINTER(c_int32), c_int32)),
        ("choose", CFUNCTYPE(c_int32, c_void_p, c_int32)),
        ("timing_id", CFUNCTYPE(c_char_p, c_void_p)),
    )


class Table(ctypes.Structure):
    """AnyrtPluginTable."""

    _fields_ = (("version", c_uint32), ("size", c_uint32), ("plugins", POINTER(Plugin)), ("count", c_int32))


PAIRS: Final = (("serialize", "restore"), ("tactics", "choose"))  # both or none
NEEDED: Final = ("create", "output_count", "output_types", "output_shapes", "enqueue")
