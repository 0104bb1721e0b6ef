"""Stand-in for `cupy`, if that is not installed: host arrays with all functions of NumPy.

>>> x = asarray(np.arange(3, dtype=np.float32))
>>> type(x + 1) is ndarray, (x * 2).get(), float(sum(x))
(True, array([0., 2., 4.], dtype=float32), 3.0)
>>> shared = ndarray((2,), np.float32, memptr=x.data + 4)
>>> shared[0] = 9
>>> x.get()
array([0., 9., 2.], dtype=float32)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from anyrt.compat.cuda.driver_kernels import run
from anyrt.compat.cupy import cuda
from anyrt.compat.cupy.cuda import MemoryPointer, MemoryPool, UnownedMemory
from anyrt.compat.host.device import DEVICE
from anyrt.compat.host.refusing import refusing
from anyrt.compat.kernels.module import Kernel, compiled, laid_out, loaded

__version__: Final = "13.4.0"
# Any: whatever NumPy computes with.
Values: TypeAlias = npt.NDArray[Any]


class ndarray(np.ndarray[Any, np.dtype[Any]]):
    """An array of NumPy with CuPy's own methods, in new memory or at `memptr`."""

    def __new__(
        cls,
        shape: Sequence[int] | int,
        dtype: npt.DTypeLike = float,
        memptr: MemoryPointer | None = None,
        strides: tuple[int, ...] | None = None,
        order: Any = "C",
    ) -> ndarray:
        sizes = tuple(int(n) for n in shape) if isinstance(shape, Sequence) else tuple(np.atleast_1d(shape))
        buffer = None
        if memptr is not None:
            nbytes = math.prod(sizes) * np.dtype(dtype).itemsize
            buffer = DEVICE.array(memptr.ptr, nbytes if strides is None else memptr.mem.size)
        return super().__new__(cls, sizes, dtype, buffer, strides=strides, order=order)

    def get(
        self, stream: object = None, order: Any = "C", out: Values | None = None, blocking: bool = True
    ) -> Values:
        """Copy the elements to `out`, by default a new array of NumPy, and return it."""
        return asnumpy(self, order=order, out=out)

    def set(self, arr: npt.ArrayLike, stream: object = None) -> None:
        """Copy the elements of another array to this one."""
        np.copyto(self, np.asarray(arr))

    @property
    def data(self) -> Any:  # NumPy has a buffer there
        """The pointer to the first element."""
        return MemoryPointer(UnownedMemory(self.ctypes.data, self.nbytes, self), 0)

    @property
    def device(self) -> Any:  # NumPy has a string there
        """The device: device 0."""
        return cuda.Device()


def _lent(value: object) -> object:
    """The result of a NumPy function, with arrays converted to those of this module."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value).view(ndarray)
    if type(value) in (tuple, list):
        return cast("type[list[object]]", type(value))(_lent(v) for v in cast("list[object]", value))
    return value


def _lending(call: Callable[..., object]) -> Callable[..., object]:
    def lend(*args: object, **kwargs: object) -> object:
        kwargs.pop("blocking", None)
        return _lent(call(*args, **kwargs))

    lend.__name__, lend.__doc__ = call.__name__, call.__doc__
    return lend


class _Space:
    """A module of NumPy whose functions return arrays of this module."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._module, name)
        if isinstance(member, ModuleType):
            return _Space(member)
        is_function = callable(member) and not isinstance(member, type | np.ufunc)
        return _lending(member) if is_function else member


_NUMPY: Final = _Space(np)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'cupy' has no attribute {name!r}")
    return getattr(_NUMPY, name)


def asarray(a: Any, dtype: npt.DTypeLike | None = None, order: Any = None, **more: object) -> ndarray:
    """An array that shares memory with `a` if possible: of NumPy, PyTorch or `__cuda_array_interface__`."""
    interface = getattr(a, "__cuda_array_interface__", None)
    if interface is not None and not hasattr(a, "__array__"):
        place = MemoryPointer(UnownedMemory(interface["data"][0], 0, a), 0)
        a = ndarray(interface["shape"], interface["typestr"], place)
    return np.asarray(a, dtype, order).view(ndarray)


def asnumpy(a: npt.ArrayLike, stream: object = None, order: Any = "C", out: Values | None = None) -> Values:
    """Copy the elements to `out`, by default a new array of NumPy, and return it."""
    if out is None:
        return np.array(a, order=order)
    np.copyto(out, np.asarray(a))
    return out


def get_array_module(*args: object) -> ModuleType:
    """This module if one of the arguments is an array of this module, otherwise NumPy."""
    return sys.modules[__name__] if any(isinstance(x, ndarray) for x in args) else np


def get_default_memory_pool() -> MemoryPool:
    """The memory pool, which keeps no freed memory."""
    return MemoryPool()


get_default_pinned_memory_pool = get_default_memory_pool


class RawModule:
    """CUDA C++ kernels, compiled for this machine when the first one is looked up."""

    def __init__(
        self,
        *,
        code: str | None = None,
        path: str | None = None,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        name_expressions: Sequence[str] = (),
        **more: object,
    ) -> None:
        if code is None:
            raise TypeError("RawModule needs the source of the kernels: code=")
        self.code, self.options, self.names = code, tuple(options), tuple(name_expressions)

    def get_function(self, name: str) -> RawKernel:
        """A kernel by its name, or by the name expression of a template instance."""
        kernel = RawKernel(self.code, name, self.options)
        kernel.names = self.names
        return kernel


class RawKernel:
    """A kernel: `kernel(grid, block, arguments)`."""

    def __init__(
        self, code: str, name: str, options: Sequence[str] = (), backend: str = "nvrtc", **more: object
    ) -> None:
        self.code, self.name, self.options = code, name, tuple(options)
        self.names: tuple[str, ...] = ()
        self._kernel: Kernel | None = None

    def compile(self, log_stream: object = None) -> None:
        """Compile the kernel now."""
        module = loaded(compiled(self.code, self.options, self.names))
        known = {name: f"named_{k}" for k, name in enumerate(self.names)}
        self._kernel = module.kernel(known.get(self.name, self.name))

    def __call__(
        self, grid: Sequence[int], block: Sequence[int], args: Sequence[object], *, shared_mem: int = 0
    ) -> None:
        """Execute the kernel for all threads, on the current stream."""
        if self._kernel is None:
            self.compile()
        assert self._kernel is not None, "it was compiled"
        if len(args) != len(self._kernel.sizes):
            raise TypeError(f"{self.name} takes {len(self._kernel.sizes)} arguments, got {len(args)}")
        bytes_of = [x.tobytes()[:n] for x, n in zip(laid_out(args), self._kernel.sizes, strict=True)]
        stream = cuda.get_current_stream().ptr
        run(self._kernel, _three(grid), _three(block), stream, bytes_of, shared_mem)


def _three(sizes: Sequence[int]) -> tuple[int, ...]:
    return (*(int(n) for n in sizes), 1, 1)[:3]


ElementwiseKernel, ReductionKernel = refusing("ElementwiseKernel"), refusing("ReductionKernel")
