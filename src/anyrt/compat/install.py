"""Makes the modules and libraries of TensorRT and CUDA available to programs.

anyrt.compat.install()
import tensorrt as trt              # this package
from cuda.bindings import runtime   # host memory, unless cuda-python is installed
import cupy                         # arrays of NumPy, unless CuPy is installed
ctypes.CDLL("libcudart.so.12")      # host memory
torch.zeros(3, device="cuda")       # host memory, if PyTorch has no CUDA

Child processes get the same modules, because `install` sets environment variables.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import Final

import anyrt
from anyrt.compat.ctypes import libraries
from anyrt.compat.names import DISTRIBUTIONS, Names, offer
from anyrt.compat.tensorrt import held, signatures
from anyrt.core.errors import ArgumentError

CHILDREN = str(Path(__file__).parent / "children")


def install(force: bool = False, api: str = "10") -> None:
    """Register `tensorrt` and related packages, and stand-ins for CUDA libraries that are not installed.

    With `force`, stand-ins also replace installed libraries: for a machine with these libraries but no GPU.
    With `api="8.6"`, the API also has the names that TensorRT 10 removed. Child processes get the same.
    """
    if api not in ("10", "8.6"):
        raise ArgumentError("AR304", "anyrt.compat.install", f"api={api!r}", "'10' or '8.6'")
    if api == "8.6":
        importlib.import_module("anyrt.compat.tensorrt.api86").offer()
    offer(Names(force, _AFTER))
    held.offer()
    signatures.offer()
    libraries.offer()
    os.environ["ANYRT_COMPAT"] = f"{api} force" if force else api
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != CHILDREN]
    os.environ["PYTHONPATH"] = os.pathsep.join([CHILDREN, *paths])


def _tell_versions(resources: ModuleType) -> None:
    """Register TensorRT with setuptools' `pkg_resources`, which searches only folders."""
    for name in DISTRIBUTIONS:
        distribution = resources.Distribution(None, None, project_name=name, version=anyrt.__version__)
        resources.working_set.add(distribution, name, replace=True)


def _torch(torch: ModuleType) -> None:
    importlib.import_module("anyrt.compat.torch.host").offer(torch)


def _traced(tensors: ModuleType) -> None:
    importlib.import_module("anyrt.compat.torch.host").offer_traced(tensors)


_AFTER: Final = {"torch": _torch, "torch._dynamo.variables.tensor": _traced, "pkg_resources": _tell_versions}
