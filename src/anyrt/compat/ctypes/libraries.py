"""Libraries for `ctypes`: CUDA's runtime and driver, and TensorRT's libraries, as callables over this
package.

    ctypes.CDLL("/usr/local/cuda/lib64/libcudart.so.12").cudaMalloc(ctypes.byref(pointer), 64)
    ctypes.cdll.LoadLibrary("libnvinfer_plugin.so.10")
    ctypes.CDLL("libmyplugins.so")      # registers the plug-ins of its table (anyrt_plugin.h)

A library is identified by its file name, since programs open the path of an installed file. That file is not
opened: engines accept only addresses of host memory.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from anyrt.api.plugins.library import INSTEAD, NVIDIA
from anyrt.api.plugins.registry import the_registry
from anyrt.api.plugins.table import ENTRY

if TYPE_CHECKING:
    from ctypes import _NamedFuncPointer

_KNOWN: Final = re.compile(r"lib(cuda|cudart|nvinfer|nvinfer_plugin|nvonnxparser)\.so[.\d]*")
# The module with `function(name)` of each library, imported when a program first looks up a function.
_HOME: Final = {
    "cuda": "libcuda",
    "cudart": "libcudart",
    "nvinfer": "libnvinfer",
    "nvinfer_plugin": "libnvinfer",
    "nvonnxparser": "libnvinfer",
}


class Library(ctypes.CDLL):
    """A library whose functions are Python callables; otherwise like a loaded one."""

    def __init__(self, name: str, *settings: object, **more: object) -> None:
        self._name = os.fspath(name)
        self._handle = 0

    def __getattr__(self, name: str) -> _NamedFuncPointer:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        function = self[name]
        setattr(self, name, function)
        return function

    def __getitem__(self, name_or_ordinal: str | int) -> _NamedFuncPointer:
        """A function, as a new object for each call as in ctypes: a program sets its `argtypes` and
        `restype`."""
        home = importlib.import_module(f"anyrt.compat.ctypes.{_HOME[_stem(self._name)]}")
        make: Callable[[str], _NamedFuncPointer | None] = home.function
        function = make(str(name_or_ordinal))
        if function is None:
            raise AttributeError(f"{self._name}: undefined symbol: {name_or_ordinal}")
        function.__name__ = str(name_or_ordinal)
        return function


def _stem(path: object) -> str:
    """`cudart` for the path of a file `libcudart.so...`; "" for libraries without a stand-in.

    >>> _stem("/usr/lib/libcudart.so.12"), _stem("libnvinfer_plugin.so"), _stem("libm.so.6"), _stem(None)
    ('cudart', 'nvinfer_plugin', '', '')
    """
    if not isinstance(path, str | os.PathLike):
        return ""
    match_ = _KNOWN.fullmatch(os.path.basename(os.fspath(path)))
    return match_[1] if match_ else ""


def _new(kind: type[ctypes.CDLL], name: object = None, *settings: object, **more: object) -> ctypes.CDLL:
    return object.__new__(Library if kind is ctypes.CDLL and _stem(name) else kind)


_OPEN: Final = ctypes.CDLL.__init__


def _open(library: ctypes.CDLL, name: Any, *settings: Any, **more: Any) -> None:
    """Load a library and register its plug-ins, as TensorRT does when a library of plug-ins is loaded."""
    try:
        _OPEN(library, name, *settings, **more)
    except OSError as error:
        if NVIDIA.match(str(error)):
            raise OSError(f"{name}: {error}; {INSTEAD}") from error
        raise
    if type(library) is ctypes.CDLL and name is not None and hasattr(library, ENTRY):
        registry, path = the_registry(), os.fspath(name)
        if path not in [x.path for x in registry._libraries]:
            registry.load_library(path)


def offer() -> None:
    """Replace `ctypes.CDLL`, and with it `cdll.LoadLibrary`, for these libraries."""
    type.__setattr__(ctypes.CDLL, "__new__", staticmethod(_new))
    type.__setattr__(ctypes.CDLL, "__init__", _open)
