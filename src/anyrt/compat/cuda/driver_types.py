"""The types of `cuda.bindings.driver`: codes, flags and handles; and the decorator of its functions.

>>> CUstream(16), CUresult(1).name
(<CUstream 0x10>, 'CUDA_ERROR_INVALID_VALUE')
"""

from __future__ import annotations

from enum import IntEnum
from typing import SupportsIndex

from anyrt.compat.host.answers import Answering
from anyrt.compat.host.device import Fault


class CUresult(IntEnum):
    """Result codes of the driver API that this stand-in returns."""

    CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_INITIALIZED = range(4)
    CUDA_ERROR_NO_DEVICE, CUDA_ERROR_INVALID_DEVICE = 100, 101
    CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE = 201, 400
    CUDA_ERROR_NOT_READY, CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_NOT_SUPPORTED = 600, 719, 801
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 900, 903
    CUDA_ERROR_UNKNOWN = 999


class CUdevice_attribute(IntEnum):
    """Device attributes that programs read."""

    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10
    CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 75, 76


class CUfunction_attribute(IntEnum):
    """Attributes of kernels."""

    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = range(2)
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9


class CUctx_flags(IntEnum):
    """Scheduling flags of a context, which have no effect."""

    CU_CTX_SCHED_AUTO, CU_CTX_SCHED_SPIN, CU_CTX_SCHED_YIELD = range(3)
    CU_CTX_SCHED_BLOCKING_SYNC, CU_CTX_MAP_HOST = 4, 8


class CUstream_flags(IntEnum):
    """Flags of a stream."""

    CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING = range(2)


class CUstreamCaptureMode(IntEnum):
    """The mode of a capture, which has no effect."""

    CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = range(2)
    CU_STREAM_CAPTURE_MODE_RELAXED = 2


class CUstreamCaptureStatus(IntEnum):
    """Whether a stream is captured."""

    CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE = range(2)
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2


class CUevent_flags(IntEnum):
    """Flags of an event."""

    CU_EVENT_DEFAULT, CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING = range(3)
    CU_EVENT_INTERPROCESS = 4


class _Handle:
    """A typed handle; 0 means none."""

    def __init__(self, init_value: SupportsIndex = 0) -> None:
        self._value = int(init_value)

    def __int__(self) -> int:
        return self._value

    def __index__(self) -> int:
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handle | int) and self._value == int(other)

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._value:#x}>"


class CUdevice(_Handle):
    """A device by its number."""


class CUdeviceptr(_Handle):
    """An address of device memory."""


class CUcontext(_Handle):
    """The context; there is only one."""


class CUstream(_Handle):
    """A stream."""


class CUevent(_Handle):
    """An event."""


class CUmodule(_Handle):
    """A module of kernels."""


class CUfunction(_Handle):
    """A kernel."""


class CUlibrary(_Handle):
    """A library of kernels, the same as a module."""


class CUkernel(CUfunction):
    """A kernel of a library."""


class CUgraph(_Handle):
    """A graph of captured work."""


class CUgraphExec(_Handle):
    """An instantiated graph, which can be launched."""


class CUmemoryPool(_Handle):
    """A pool of memory."""


class cuuint32_t(int):
    """An integer of 32 bits in C."""


class cuuint64_t(int):
    """An integer of 64 bits in C."""


CU_STREAM_LEGACY, CU_STREAM_PER_THREAD = 1, 2
_CODES = {
    None: CUresult.CUDA_SUCCESS,
    Fault.INVALID_VALUE: CUresult.CUDA_ERROR_INVALID_VALUE,
    Fault.OUT_OF_MEMORY: CUresult.CUDA_ERROR_OUT_OF_MEMORY,
    Fault.INVALID_DEVICE: CUresult.CUDA_ERROR_INVALID_DEVICE,
    Fault.INVALID_HANDLE: CUresult.CUDA_ERROR_INVALID_HANDLE,
    Fault.IS_CAPTURED: CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
    Fault.IS_NOT_CAPTURED: CUresult.CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
    Fault.LAUNCH_FAILED: CUresult.CUDA_ERROR_LAUNCH_FAILED,
    Fault.NOT_SUPPORTED: CUresult.CUDA_ERROR_NOT_SUPPORTED,
}
code, code_and_value, code_and_two = (Answering(_CODES, n) for n in range(3))
