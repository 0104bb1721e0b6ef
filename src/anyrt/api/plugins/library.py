"""Files with plug-in creators: Python files and shared objects.

Loading a Python file instantiates all creator classes that it defines. A shared object has a table of
functions (`plugin/anyrt_plugin.h`). NVIDIA's libraries are rejected by name, without opening them: AnyRT runs
no code for GPUs.
"""

from __future__ import annotations

import ctypes
import inspect
import itertools
import os
import re
from dataclasses import dataclass
from functools import partial
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Final

from anyrt.api.plugins.creators import IPluginCreatorInterface
from anyrt.api.plugins.native import creators
from anyrt.api.plugins.table import ENTRY
from anyrt.api.plugins.user_calls import call_function
from anyrt.core.errors import PluginError

NVIDIA: Final = re.compile(
    r"lib(nvinfer|nvonnxparser|nvparsers|cuda|cudart|cudnn|cublas|nvrtc)[\w.-]*\.so[\d.]*"
)
INSTEAD: Final = (
    "a library that needs TensorRT's C++ interface cannot be loaded: export its plug-ins with anyrt_plugin.h"
)
SHARED: Final = re.compile(r".*\.so(\.\d+)*")
_NUMBER = itertools.count()


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """A loaded file with its creators; `held` keeps its code in memory."""

    path: str
    creators: tuple[IPluginCreatorInterface, ...]
    held: object


class Opened(ctypes.CDLL):
    """A shared object that `load` has opened, as opposed to one that the program loads by ctypes."""


def load(path: str) -> Library:
    """The creators of a file; PluginError AR826 if it has none."""
    name = Path(path).name
    if NVIDIA.fullmatch(name):
        do = "register your own creators in Python or C; the standard plug-ins need no library"
        raise PluginError("AR826", path, "a library of NVIDIA", "a library for this machine", do)
    if not os.path.isfile(path):  # accepts names of any length
        raise PluginError("AR826", path, "no such file", "a Python file or a shared object", "check the path")
    if SHARED.fullmatch(name):
        return _of_table(path)
    if not name.endswith(".py"):
        raise PluginError("AR826", path, f"{name!r}", "a Python file (.py) or a shared object (.so)")
    return _of_python(path)


def _of_table(path: str) -> Library:
    """The creators of a shared object."""
    try:
        library = Opened(str(Path(path).absolute()))
    except OSError as error:
        raise PluginError("AR826", path, str(error), "a shared object for this machine", INSTEAD) from error
    entry = getattr(library, ENTRY, None)
    if entry is None:
        do = 'include anyrt_plugin.h, and define it (extern "C" in C++)'
        raise PluginError(
            "AR826", path, f"a shared object without {ENTRY}", "a shared object that defines it", do
        )
    entry.restype, entry.argtypes = ctypes.c_void_p, ()
    return Library(path, tuple(creators(entry() or 0, path)), library)


def _of_python(path: str) -> Library:
    module = _run(path)
    classes = [
        x
        for _, x in inspect.getmembers(module, inspect.isclass)
        if issubclass(x, IPluginCreatorInterface) and x.__module__ == module.__name__
    ]
    if not classes:
        do = "define a class that derives from trt.IPluginCreatorV3One"
        raise PluginError("AR826", path, "no creator class", "at least one", do)
    instances = (call_function(path, f"{cls.__name__}()", cls) for cls in classes)
    return Library(path, tuple(instances), module)


def _run(path: str) -> ModuleType:
    """The file as a module with a unique name."""
    name = f"anyrt_plugins_{next(_NUMBER)}_{Path(path).stem}"
    loader = SourceFileLoader(name, path)
    spec = spec_from_loader(name, loader)
    assert spec is not None, f"{path} has a loader"
    module = module_from_spec(spec)
    call_function(path, "the file", partial(loader.exec_module, module))
    return module
