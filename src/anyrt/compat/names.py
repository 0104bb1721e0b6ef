"""Finds modules that programs import: `tensorrt` and related packages, and stand-ins for CUDA libraries.

A module is imported only when a program imports it, because every child process has this finder, too.

    import tensorrt.tensorrt            # anyrt
    import tensorrt_bindings.plugin     # anyrt.plugin
    from cuda.bindings import runtime   # anyrt.compat.cuda.runtime, unless cuda-python is installed
    importlib.metadata.version("tensorrt")
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import ModuleType
from typing import Final

import anyrt

# Names of the whole package; names after a dot are looked up in it, such as `tensorrt.plugin`.
_WHOLE: Final = ("tensorrt.tensorrt", "tensorrt_bindings.tensorrt", "tensorrt", "tensorrt_bindings")
_OWN: Final = {
    "tensorrt_libs": "anyrt.compat.tensorrt.libs",
    "tensorrt_lean": "anyrt.compat.tensorrt.lean",
    "tensorrt_lean.tensorrt_lean": "anyrt.compat.tensorrt.lean",
    "tensorrt_dispatch": "anyrt.compat.tensorrt.lean",
    "tensorrt_dispatch.tensorrt_dispatch": "anyrt.compat.tensorrt.lean",
}
# The modules of each library; if the first one is missing, the library is not installed.
_LIBRARIES: Final = (
    {
        "cuda.bindings.runtime": "anyrt.compat.cuda.runtime",
        "cuda.bindings.driver": "anyrt.compat.cuda.driver",
        "cuda.bindings.nvrtc": "anyrt.compat.cuda.nvrtc",
        "cuda.cudart": "anyrt.compat.cuda.runtime",
        "cuda.cuda": "anyrt.compat.cuda.driver",
        "cuda.nvrtc": "anyrt.compat.cuda.nvrtc",
    },
    {
        "cuda.core": "anyrt.compat.cuda.core",
        "cuda.core.system": "anyrt.compat.cuda.core_system",
        "cuda.core.experimental": "anyrt.compat.cuda.core",
    },
    {
        "pycuda.driver": "anyrt.compat.pycuda.driver",
        "pycuda.autoinit": "anyrt.compat.pycuda.autoinit",
        "pycuda.compiler": "anyrt.compat.pycuda.compiler",
        "pycuda.gpuarray": "anyrt.compat.pycuda.gpuarray",
        "pycuda.tools": "anyrt.compat.pycuda.tools",
        "pycuda.autoprimaryctx": "anyrt.compat.pycuda.autoinit",
    },
    {"cupy": "anyrt.compat.cupy.arrays", "cupy.cuda": "anyrt.compat.cupy.cuda"},
)
# Modules of other libraries to patch.
_TOLD: Final[dict[str, dict[str, object]]] = {
    "pycuda": {"VERSION": (2025, 1), "VERSION_STATUS": "", "VERSION_TEXT": "2025.1"},
}
DISTRIBUTIONS: Final = ("tensorrt", *(f"tensorrt_{n}" for n in ("bindings", "libs", "lean", "dispatch")))
_ANY: Final = DistributionFinder.Context()


@dataclass(frozen=True, slots=True)
class _Metadata(Distribution):
    """The metadata of an alias, for `importlib.metadata`."""

    name_: str

    def read_text(self, filename: str) -> str | None:
        """The content of METADATA; there are no other files."""
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {self.name_}\nVersion: {anyrt.__version__}\n"

    def locate_file(self, path: object) -> Path:
        """The path of a file of the package."""
        return Path(anyrt.__file__).parent / str(path)


class Names(DistributionFinder, Loader):
    """A finder that looks names up in `table`, and calls `after[name]` on modules of other packages."""

    def __init__(self, force: bool, after: dict[str, Callable[[ModuleType], None]]) -> None:
        self.after = after
        self.table = dict(_OWN)
        for library in _LIBRARIES:
            if force or not _is_installed(next(iter(library))):
                self.table |= library

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of an alias, a stand-in, an empty package around one, or a module to patch."""
        if name in self.after:
            return _looked_after(name, path, self.after[name])
        is_parent = any(n.startswith(name + ".") for n in self.table)
        known = behind(name) or self.table.get(name)
        if known is not None:
            return ModuleSpec(name, self, loader_state=known, is_package=is_parent)
        # Packages of CUDA share the namespace `cuda`: an existing package keeps its folders.
        if is_parent and PathFinder.find_spec(name, path) is None:
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module for a name, or an empty package."""
        if spec.loader_state is None:
            package = ModuleType(spec.name, "Made of host memory by anyrt.compat.")
            vars(package).update(_TOLD.get(spec.name, {}))
            return package
        module = importlib.import_module(spec.loader_state)
        # The import system sets the spec of the alias in the module: `exec_module` restores its own spec.
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing more: the module is imported already."""
        spec = module.__spec__
        if spec is not None and spec.loader_state is not None:
            module.__spec__ = spec.loader_state

    def find_distributions(self, context: DistributionFinder.Context = _ANY) -> Iterable[Distribution]:
        """The metadata of `tensorrt` and related packages."""
        distribution = None if context.name is None else re.sub(r"[-_.]+", "_", context.name).lower()
        return [_Metadata(n) for n in DISTRIBUTIONS if distribution in (None, n)]


def behind(name: str) -> str | None:
    """The module of AnyRT for the module `name` of TensorRT, if there is one.

    >>> behind("tensorrt_bindings.tensorrt"), behind("tensorrt.core.dtype"), behind("tensorrt.nothing")
    ('anyrt', 'anyrt.core.dtype', None)
    """
    for whole in _WHOLE:
        if name == whole:
            return "anyrt"
        if name.startswith(whole + "."):
            module = "anyrt" + name.removeprefix(whole)
            return module if _exists(module) else None
    return None


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a parent is missing
        return False


def _is_installed(name: str) -> bool:
    """Whether the module is installed, without importing it."""
    path: Sequence[str] | None = None
    # Part by part: with the full name, a folder without __init__ would import its parent.
    for part in name.split("."):
        spec = PathFinder.find_spec(part, path)
        if spec is None:
            return False
        path = spec.submodule_search_locations and list(spec.submodule_search_locations)
    return True


@dataclass(frozen=True, slots=True)
class _Followed(Loader):
    """Loads with `loader`, then calls `then` on the module."""

    loader: Loader
    then: Callable[[ModuleType], None]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None, "the import system sets it"
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.then(module)


def _looked_after(
    name: str, path: Sequence[str] | None, then: Callable[[ModuleType], None]
) -> ModuleSpec | None:
    spec = PathFinder.find_spec(name, path)
    if spec is not None and spec.loader is not None:
        spec.loader = _Followed(spec.loader, then)
    return spec


def offer(names: Names) -> None:
    """Add the finder in first place, and remove an earlier one."""
    sys.meta_path[:] = [names, *(f for f in sys.meta_path if not isinstance(f, Names))]
    for name in [n for n in sys.modules if n in names.table or n.startswith(("tensorrt.", "tensorrt_"))]:
        del sys.modules[name]
    for name, then in names.after.items():
        if name in sys.modules:
            then(sys.modules[name])
    sys.modules["tensorrt"] = anyrt
