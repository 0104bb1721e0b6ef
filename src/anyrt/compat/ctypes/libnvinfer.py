"""Functions of TensorRT's libraries that programs call with `ctypes`: versions, and the start of the
plug-ins.

>>> function("getInferLibVersion")()
101600
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final, TypeAlias

import anyrt

Function: TypeAlias = Callable[..., object]


def _version() -> int:
    major, minor, patch = (int(n) for n in anyrt.__version__.split("."))
    return major * 10000 + minor * 100 + patch


def _init(logger: int | None, namespace: bytes | None) -> bool:
    return bool(anyrt.init_libnvinfer_plugins(None, (namespace or b"").decode()))


_MADE: Final[dict[str, Callable[[], Function]]] = {
    "getInferLibMajorVersion": lambda: ctypes.CFUNCTYPE(ctypes.c_int)(lambda: _version() // 10000),
    "getInferLibVersion": lambda: ctypes.CFUNCTYPE(ctypes.c_int)(_version),
    "getNvOnnxParserVersion": lambda: ctypes.CFUNCTYPE(ctypes.c_int)(_version),
    "initLibNvInferPlugins": lambda: ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_char_p)(_init),
}


def function(name: str) -> Function | None:
    """A C function by its name; None if there is no such function."""
    make = _MADE.get(name)
    return make() if make else None
