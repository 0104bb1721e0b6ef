"""Modules and kernels of `cuda.bindings.driver`, which the stand-in for nvrtc compiles for the host.

A launch is synchronous: the kernel is complete when the call returns. On a captured stream the launch is
recorded instead.
"""

from __future__ import annotations

import ctypes
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, SupportsIndex

import numpy as np

from anyrt.compat.cuda.driver_types import (
    CUfunction,
    CUfunction_attribute,
    CUkernel,
    CUlibrary,
    CUmodule,
    code,
    code_and_value,
)
from anyrt.compat.host.device import DEVICE, DeviceFault, Fault, span_of
from anyrt.compat.host.refusing import refusing
from anyrt.compat.kernels.module import Kernel, Module, image_at, loaded
from anyrt.runtime.reach import lack

_MODULES: Final[dict[int, Module]] = {}
_KERNELS: Final[dict[int, Kernel]] = {}
_NUMBERS: Final = itertools.count(0x10, 16)


@code_and_value
def cuModuleLoadData(image: object) -> CUmodule:
    """Load an image of nvrtc; AR901 for GPU machine code."""
    return _loaded(image)


def _loaded(image: object) -> CUmodule:
    span = span_of(image)
    if not span.address:
        raise DeviceFault(Fault.INVALID_VALUE)
    held = image_at(span.address) if span.nbytes is None else ctypes.string_at(span.address, span.nbytes)
    number = next(_NUMBERS)
    _MODULES[number] = loaded(held)
    return CUmodule(number)


@code_and_value
def cuModuleLoadDataEx(image: object, *options: object) -> CUmodule:
    """The same; the options are for a GPU compiler and have no effect."""
    return _loaded(image)


@code
def cuModuleUnload(hmod: SupportsIndex) -> None:
    """Unload a module; functions of it that a program already has stay valid."""
    if _MODULES.pop(int(hmod), None) is None:
        raise DeviceFault(Fault.INVALID_HANDLE)


@code_and_value
def cuModuleGetFunction(hmod: SupportsIndex, name: bytes) -> CUfunction:
    """A kernel by its name."""
    return CUfunction(_function(hmod, name))


def _function(module: SupportsIndex, name: bytes) -> int:
    if int(module) not in _MODULES:
        raise DeviceFault(Fault.INVALID_HANDLE)
    kernel = _MODULES[int(module)].kernel(name.decode())
    _KERNELS[id(kernel)] = kernel
    return id(kernel)


def _known(function: SupportsIndex) -> int:
    if int(function) not in _KERNELS:
        raise DeviceFault(Fault.INVALID_HANDLE)
    return int(function)


@code
def cuLaunchKernel(
    f: SupportsIndex,
    gridDimX: int,
    gridDimY: int,
    gridDimZ: int,
    blockDimX: int,
    blockDimY: int,
    blockDimZ: int,
    sharedMemBytes: int,
    hStream: object,
    kernelParams: object,
    extra: object = 0,
) -> None:
    """Execute a kernel for all threads. `kernelParams`: an array of addresses, or (values, their ctypes)."""
    kernel = _KERNELS[_known(f)]
    grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
    stream = int(np.asarray(hStream).reshape(-1)[0]) if isinstance(hStream, np.ndarray) else hStream
    run(kernel, grid, block, stream, copied(kernel, kernelParams), sharedMemBytes)


def copied(kernel: Kernel, arguments: object) -> list[bytes]:
    """The bytes of a kernel's arguments, in each form that a program may pass."""
    if not kernel.sizes:
        return []
    if isinstance(arguments, tuple):
        values, types = arguments
        held = [_as(t, v) for v, t in zip(values, types, strict=True)]
        if len(held) != len(kernel.sizes):
            raise DeviceFault(Fault.INVALID_VALUE)
        return [bytes(x)[:n].ljust(n, b"\0") for x, n in zip(held, kernel.sizes, strict=True)]
    address = span_of(arguments).address
    if not address or lack(address, 8 * len(kernel.sizes), writes=False):
        raise DeviceFault(Fault.INVALID_VALUE)
    return kernel.copies([*(ctypes.c_uint64 * len(kernel.sizes)).from_address(address)])


def _as(kind: object, value: object) -> bytes:
    """A value as an object of its ctypes type. The type None: the value has its own bytes, such as an
    address."""
    if kind is None:
        return bytes(ctypes.c_void_p(int(value)))  # type: ignore[call-overload]  # a handle of this package
    return bytes(kind(value))  # type: ignore[operator]  # a class of ctypes


def run(
    kernel: Kernel,
    grid: Sequence[int],
    block: Sequence[int],
    stream: object,
    arguments: Sequence[bytes],
    shared: int = 0,
) -> None:
    """Execute a kernel with these bytes as arguments, now or, on a captured stream, when the graph is
    launched."""
    if min(*grid, *block) < 1:
        raise DeviceFault(Fault.INVALID_VALUE)
    number = None if stream is None else int(stream)  # type: ignore[call-overload]  # a handle or a number
    DEVICE.check_stream(number)
    held = [ctypes.create_string_buffer(x, len(x)) for x in arguments]

    def launch() -> None:
        kernel.launch(grid, block, [ctypes.addressof(x) for x in held], shared)

    if not DEVICE.captures.note(number, launch):
        launch()


@code_and_value
def cuModuleLoad(fname: bytes | str) -> CUmodule:
    """Load an image from a file."""
    return _loaded(_read(fname))


def _read(name: bytes | str) -> bytes:
    path = Path(name if isinstance(name, str) else name.decode())
    if not os.path.isfile(path):  # names of any length can be looked up in it
        raise DeviceFault(Fault.INVALID_VALUE)
    return path.read_bytes()


@code_and_value
def cuLibraryLoadData(code: object, *options: object) -> CUlibrary:
    """Load an image as a library."""
    return CUlibrary(_loaded(code))


@code_and_value
def cuLibraryLoadFromFile(fileName: bytes | str, *options: object) -> CUlibrary:
    """Load an image from a file as a library."""
    return CUlibrary(_loaded(_read(fileName)))


@code_and_value
def cuLibraryGetKernel(library: SupportsIndex, name: bytes) -> CUkernel:
    """A kernel of a library by its name."""
    return CUkernel(_function(library, name))


@code_and_value
def cuKernelGetFunction(kernel: SupportsIndex) -> CUfunction:
    """The function of a kernel: the kernel itself."""
    return CUfunction(_known(kernel))


@code
def cuFuncSetAttribute(hfunc: SupportsIndex, attrib: SupportsIndex, value: int) -> None:
    """Do nothing: shared memory has no limits to raise."""
    _known(hfunc)


@code
def cuFuncSetCacheConfig(hfunc: SupportsIndex, config: SupportsIndex) -> None:
    """Do nothing: the split of the caches cannot be configured."""
    _known(hfunc)


@code_and_value
def cuFuncGetAttribute(attrib: SupportsIndex, hfunc: SupportsIndex) -> int:
    """The maximum number of threads of a block; 0 for every other attribute."""
    _known(hfunc)
    return 1024 if int(attrib) == CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK else 0


cuLibraryUnload = cuModuleUnload
cuLinkCreate = refusing("cuLinkCreate")
cuLaunchKernelEx = refusing("cuLaunchKernelEx")
cuLaunchCooperativeKernel = refusing("cuLaunchCooperativeKernel")
cuModuleGetGlobal = refusing("cuModuleGetGlobal")
