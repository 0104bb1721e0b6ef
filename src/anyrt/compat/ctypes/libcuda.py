"""The CUDA driver as C functions over `cuda.driver`: they store results at addresses and return a code.

>>> import ctypes
>>> count = ctypes.c_int()
>>> function("cuInit")(0), function("cuDeviceGetCount")(ctypes.byref(count)), count.value
(0, 0, 1)
"""

from __future__ import annotations

import ctypes
from typing import Final

from anyrt.compat.ctypes.libcudart import Function, c_function, text_at
from anyrt.compat.cuda import driver

# Letters as in `libcudart.py`; functions with the suffix _v2 have the names of the first version.
_FORMS: Final = {
    "cuCtxCreate": "Pui",
    "cuCtxDestroy": "p",
    "cuCtxGetCurrent": "P",
    "cuCtxGetDevice": "I",
    "cuCtxPopCurrent": "P",
    "cuCtxPushCurrent": "p",
    "cuCtxSetCurrent": "p",
    "cuCtxSynchronize": "",
    "cuDeviceComputeCapability": "IIi",
    "cuDeviceGet": "Ii",
    "cuDeviceGetAttribute": "Iii",
    "cuDeviceGetCount": "I",
    "cuDevicePrimaryCtxRelease": "i",
    "cuDevicePrimaryCtxRetain": "Pi",
    "cuDeviceTotalMem": "Ni",
    "cuDriverGetVersion": "I",
    "cuEventCreate": "Pu",
    "cuEventDestroy": "p",
    "cuEventElapsedTime": "Fpp",
    "cuEventQuery": "p",
    "cuEventRecord": "pp",
    "cuEventSynchronize": "p",
    "cuInit": "u",
    "cuMemAlloc": "Pn",
    "cuMemAllocAsync": "Pnp",
    "cuMemAllocHost": "Pn",
    "cuMemAllocManaged": "Pnu",
    "cuMemFree": "p",
    "cuMemFreeAsync": "pp",
    "cuMemFreeHost": "p",
    "cuMemGetInfo": "NN",
    "cuMemcpy": "ppn",
    "cuMemcpyDtoD": "ppn",
    "cuMemcpyDtoDAsync": "ppnp",
    "cuMemcpyDtoH": "ppn",
    "cuMemcpyDtoHAsync": "ppnp",
    "cuMemcpyHtoD": "ppn",
    "cuMemcpyHtoDAsync": "ppnp",
    "cuMemsetD32": "pun",
    "cuMemsetD8": "pun",
    "cuStreamCreate": "Pu",
    "cuStreamDestroy": "p",
    "cuStreamQuery": "p",
    "cuStreamSynchronize": "p",
    "cuStreamWaitEvent": "ppu",
}
_INVALID: Final = int(driver.CUresult.CUDA_ERROR_INVALID_VALUE)


def function(name: str) -> Function | None:
    """A C function by its name; None if there is no such function."""
    plain = name.removesuffix("_v2")
    if plain in _FORMS:
        return c_function(getattr(driver, plain), _FORMS[plain])
    match plain:
        case "cuDeviceGetName":
            return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)(_name)
        case "cuGetErrorName" | "cuGetErrorString":
            is_name = plain.endswith("Name")
            kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
            return kind(lambda code, at: _error(code, at, is_name))
    return None


def _name(at: int, length: int, device: int) -> int:
    code, name = driver.cuDeviceGetName(max(length - 1, 0), device)
    if isinstance(name, bytes) and length > 0:
        ctypes.memmove(at, name + b"\0", len(name) + 1)
    assert isinstance(code, driver.CUresult), "the driver returns a code first"
    return int(code)


def _error(code: int, at: int, is_name: bool) -> int:
    if code not in driver.CUresult.__members__.values():
        return _INVALID
    ask = driver.cuGetErrorName if is_name else driver.cuGetErrorString
    _, words = ask(driver.CUresult(code))
    assert isinstance(words, bytes), f"{code} has a text"
    ctypes.c_void_p.from_address(at).value = text_at(words)
    return 0
