"""Kernels of pycuda in host memory: modules, functions and their arguments.

>>> given = InOut(np.arange(3))
>>> given.buf_size
24
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import SupportsInt, cast

import numpy as np

from anyrt.compat.cuda.driver_kernels import run
from anyrt.compat.kernels.module import Kernel, laid_out, loaded
from anyrt.compat.pycuda.errors import calling
from anyrt.compat.pycuda.pagelocked import Array

__all__ = ["ArgumentHandler", "Function", "In", "InOut", "Module", "Out", "module_from_buffer"]


class ArgumentHandler:
    """An array that a kernel reads or writes in place, since all memory is host memory."""

    def __init__(self, array: Array) -> None:
        if not array.flags.c_contiguous:
            raise ValueError("expected a contiguous array; use numpy.ascontiguousarray")
        self.array, self.buf_size = array, array.nbytes

    def __int__(self) -> int:
        return self.array.ctypes.data


class In(ArgumentHandler):
    """An array that a kernel reads; the caller does not see changes to it."""

    def __init__(self, array: Array) -> None:
        ArgumentHandler.__init__(self, np.array(array))


class Out(ArgumentHandler):
    """An array that a kernel fills."""


class InOut(ArgumentHandler):
    """An array that a kernel reads and writes."""


class Function:
    """A kernel: `function(*arguments, block=(32, 1, 1), grid=(4, 1))`."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._types = ""

    def __call__(
        self,
        *args: object,
        block: Sequence[int] | None = None,
        grid: Sequence[int] = (1, 1),
        stream: SupportsInt | None = None,
        shared: int = 0,
        texrefs: Sequence[object] = (),
        time_kernel: bool = False,
    ) -> None:
        """Execute the kernel for all threads."""
        if block is None:
            raise ValueError("must specify block size")
        values = laid_out([_plain(x) for x in args])
        self._run(grid, block, stream, [x.tobytes() for x in values], shared)

    def prepare(self, arg_types: str | Sequence[object], *more: object) -> Function:
        """Set the types of the arguments, as letters of the module `struct` or types of NumPy."""
        self._types = "".join(t if isinstance(t, str) else np.dtype(cast("type", t)).char for t in arg_types)
        return self

    def prepared_call(
        self, grid: Sequence[int], block: Sequence[int], *args: object, shared_size: int = 0
    ) -> None:
        """Execute the kernel with arguments of the prepared types."""
        self.prepared_async_call(grid, block, None, *args, shared_size=shared_size)

    def prepared_async_call(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        stream: SupportsInt | None,
        *args: object,
        shared_size: int = 0,
    ) -> None:
        """Execute the kernel on a stream, with arguments of the prepared types."""
        values = [struct.pack(t, _number(x)) for t, x in zip(self._types, args, strict=True)]
        self._run(grid, block, stream, values, shared_size)

    def _run(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        stream: SupportsInt | None,
        values: Sequence[bytes],
        shared: int,
    ) -> None:
        if len(values) != len(self._kernel.sizes):
            raise TypeError(
                f"{self._kernel.name} takes {len(self._kernel.sizes)} arguments, got {len(values)}"
            )
        sizes = [x[:n] for x, n in zip(values, self._kernel.sizes, strict=True)]
        with calling("cuLaunchKernel"):
            handle = getattr(stream, "handle", stream)
            run(self._kernel, _three(grid), _three(block), handle, sizes, shared)


def _plain(value: object) -> object:
    """The addresses of device arrays, handlers and memory; numbers of NumPy unchanged."""
    if isinstance(value, np.generic):
        return value
    if isinstance(value, int | float):
        raise TypeError("expected a number of NumPy, which has the type of the argument; use numpy.int32(n)")
    return np.uint64(_number(value))


def _number(value: object) -> int | float:
    if isinstance(value, int | float | np.generic):
        return cast("int | float", value.item() if isinstance(value, np.generic) else value)
    return int(cast("SupportsInt", getattr(value, "gpudata", value)))


def _three(sizes: Sequence[int]) -> tuple[int, ...]:
    return (*(int(n) for n in sizes), 1, 1)[:3]


class Module:
    """The kernels of an image that nvrtc or SourceModule compiled."""

    def __init__(self, image: bytes) -> None:
        self._module = loaded(image)

    def get_function(self, name: str) -> Function:
        """A kernel by its name."""
        with calling("cuModuleGetFunction"):
            return Function(self._module.kernel(name))


def module_from_buffer(buffer: bytes, *options: object) -> Module:
    """Load the kernels of an image."""
    return Module(bytes(buffer))
