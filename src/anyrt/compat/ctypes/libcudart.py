"""The CUDA runtime as C functions over `cuda.runtime`: they store results at addresses and return a code.

>>> import ctypes
>>> pointer = ctypes.c_void_p()
>>> function("cudaMalloc")(ctypes.byref(pointer), 64), function("cudaFree")(pointer)
(0, 0)
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final, SupportsIndex, TypeAlias

from anyrt.compat.cuda import runtime as cuda_runtime

Function: TypeAlias = Callable[..., object]
# The kinds of arguments by letters: lower case for inputs, capitals for addresses of results.
_TYPES: Final = {
    "p": ctypes.c_void_p,
    "n": ctypes.c_size_t,
    "i": ctypes.c_int,
    "u": ctypes.c_uint,
    "f": ctypes.c_float,
}
_FORMS: Final = {
    "cudaDeviceGetAttribute": "Iii",
    "cudaDeviceReset": "",
    "cudaDeviceSynchronize": "",
    "cudaDriverGetVersion": "I",
    "cudaEventCreate": "P",
    "cudaEventCreateWithFlags": "Pu",
    "cudaEventDestroy": "p",
    "cudaEventElapsedTime": "Fpp",
    "cudaEventQuery": "p",
    "cudaEventRecord": "pp",
    "cudaEventSynchronize": "p",
    "cudaFree": "p",
    "cudaFreeAsync": "pp",
    "cudaFreeHost": "p",
    "cudaGetDevice": "I",
    "cudaGetDeviceCount": "I",
    "cudaGetLastError": "",
    "cudaGraphDestroy": "p",
    "cudaGraphExecDestroy": "p",
    "cudaGraphInstantiate": "Ppn",
    "cudaGraphLaunch": "pp",
    "cudaHostAlloc": "Pnu",
    "cudaMalloc": "Pn",
    "cudaMallocAsync": "Pnp",
    "cudaMallocHost": "Pn",
    "cudaMallocManaged": "Pnu",
    "cudaMemGetInfo": "NN",
    "cudaMemcpy": "ppni",
    "cudaMemcpyAsync": "ppnip",
    "cudaMemset": "pin",
    "cudaMemsetAsync": "pinp",
    "cudaPeekAtLastError": "",
    "cudaRuntimeGetVersion": "I",
    "cudaSetDevice": "i",
    "cudaStreamBeginCapture": "pi",
    "cudaStreamCreate": "P",
    "cudaStreamCreateWithFlags": "Pu",
    "cudaStreamCreateWithPriority": "Pui",
    "cudaStreamDestroy": "p",
    "cudaStreamEndCapture": "pP",
    "cudaStreamIsCapturing": "pI",
    "cudaStreamQuery": "p",
    "cudaStreamSynchronize": "p",
    "cudaStreamWaitEvent": "ppu",
}
_TEXTS: Final = ("cudaGetErrorName", "cudaGetErrorString")


def function(name: str) -> Function | None:
    """A C function by its name, whose types programs may change; None if there is no such function."""
    if name in _FORMS:
        return c_function(getattr(cuda_runtime, name), _FORMS[name])
    if name in _TEXTS:
        return ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)(_text_of(getattr(cuda_runtime, name)))
    return None


def c_function(call: Callable[..., tuple[object, ...]], form: str) -> Function:
    """`call` as a C function; `form` has a letter for the kind of each argument."""
    types = [ctypes.c_void_p if c.isupper() else _TYPES[c] for c in form]
    return ctypes.CFUNCTYPE(ctypes.c_int, *types)(_storing(call, form))


def text_at(words: bytes) -> int:
    """The permanent address of a text."""
    return ctypes.addressof(_kept.setdefault(words, ctypes.create_string_buffer(words)))


def _storing(call: Callable[..., tuple[object, ...]], form: str) -> Callable[..., int]:
    """`call`, with its results stored at the addresses of arguments with capital letters."""

    def stored(*args: int | None) -> int:
        slots = list(zip(form, args, strict=True))
        targets = [(kind, at) for kind, at in slots if kind.isupper()]
        if any(not at for _, at in targets):
            return int(cuda_runtime.cudaError_t.cudaErrorInvalidValue)
        code, *values = call(*(x for kind, x in slots if kind.islower()))
        for (kind, at), value in zip(targets, values, strict=True):
            if value is not None and at is not None:
                _store(kind, at, value)
        assert isinstance(code, SupportsIndex), f"{call} returns a code first"
        return int(code)

    return stored


def _store(kind: str, address: int, value: object) -> None:
    if isinstance(value, float):
        ctypes.c_float.from_address(address).value = value
    else:
        assert isinstance(value, SupportsIndex), f"{value} is stored as a number"
        held = _TYPES[kind.lower()](int(value))
        ctypes.memmove(address, ctypes.byref(held), ctypes.sizeof(held))


# Texts are never freed: C code keeps their addresses.
_kept: Final[dict[bytes, ctypes.Array[ctypes.c_char]]] = {}


def _text_of(call: Callable[..., tuple[object, ...]]) -> Callable[[int], int]:
    def text(code: int) -> int:
        error = next((m for m in cuda_runtime.cudaError_t if m == code), None)
        _, words = (None, b"unrecognized error code") if error is None else call(error)
        assert isinstance(words, bytes), f"{call} returns bytes"
        return text_at(words)

    return text
