"""Let programs that were written for TensorRT and CUDA import what they expect.

anyrt.compat.install()
import tensorrt as trt              # this package
from cuda.bindings import runtime   # host memory, unless cuda-python is installed
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import anyrt
from anyrt.core.errors import ArgumentError

# Each library: the module whose absence means that the library is absent, and what its modules are made of.
_CUDA = {
    "cuda.bindings.runtime": "cuda_runtime",
    "cuda.bindings.driver": "cuda_driver",
    "cuda.bindings.nvrtc": "nvrtc",
    "cuda.cudart": "cuda_runtime",
    "cuda.cuda": "cuda_driver",
    "cuda.nvrtc": "nvrtc",
}
_PYCUDA = {
    "pycuda.driver": "pycuda_driver",
    "pycuda.autoinit": "pycuda_autoinit",
    "pycuda.gpuarray": "pycuda_gpuarray",
}


class _Alias(MetaPathFinder, Loader):
    """Finds `tensorrt.x` as `anyrt.x`: one module under two names, not two copies of it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith("tensorrt.") or not _exists("anyrt." + name.removeprefix("tensorrt.")):
            return None
        return ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module("anyrt." + spec.name.removeprefix("tensorrt."))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module has run already; it gets back its own spec, which the import system replaced."""
        if module.__spec__ is not None:
            module.__spec__ = module.__spec__.loader_state


def install(force: bool = False, api: str = "10") -> None:
    """Register `tensorrt`, and stand-ins for cuda-python and pycuda where those are absent.

    With `force` the stand-ins take the place of installed libraries: for a machine that has them but no GPU.
    With `api="8.6"` this process has the names that TensorRT 10 removed, too.
    """
    if api not in ("10", "8.6"):
        raise ArgumentError("AR304", "anyrt.compat.install", f"api={api!r}", "'10' or '8.6'")
    if api == "8.6":
        importlib.import_module("anyrt.compat.api86").offer()
    if sys.modules.get("tensorrt") is not anyrt:
        sys.modules["tensorrt"] = anyrt
        sys.meta_path.insert(0, _Alias())
    for modules in (_CUDA, _PYCUDA):
        if force or not _exists(next(iter(modules))):
            _register(modules)


def _exists(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def _register(modules: dict[str, str]) -> None:
    for name, stand_in in modules.items():
        module = importlib.import_module(f"anyrt.compat.{stand_in}")
        sys.modules[name] = module
        parent, _, leaf = name.rpartition(".")
        setattr(_package(parent), leaf, module)


def _package(name: str) -> ModuleType:
    """The package `name`: the installed one (CUDA packages share a namespace), or an empty one."""
    if _exists(name):
        return importlib.import_module(name)
    package = ModuleType(name, "Made of host memory by anyrt.compat.")
    package.__path__ = []
    sys.modules[name] = package
    parent, _, leaf = name.rpartition(".")
    if parent:
        setattr(_package(parent), leaf, package)
    return package
